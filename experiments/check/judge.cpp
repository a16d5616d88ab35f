// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace macheps::check {

namespace {

constexpr double z_limit = 6;
constexpr double least_group = 64;

/// What a finite, infinite or missing number must be.
enum class Demand : std::uint8_t { nan, overflow, finite, either };

class Judge {
  public:
    Judge(const Limits& limits, std::span<const double> got, const JudgeOptions& options)
        : l_(limits), got_(got), options_(options), threshold_(overflow_threshold(limits)) {}

    Judgement run() {
        elements();
        if (is_done()) return std::move(j_);
        mean_squares();
        // Outputs that a coin decided are not compared with rounded ones.
        if (!is_done() && l_.rounding != Round::stochastic) bias();
        return std::move(j_);
    }

  private:
    bool is_done() const { return options_.stops_at_first && !j_.reasons.empty(); }
    double error(std::size_t i) const { return (got_[i] - l_.exact[i]) - l_.low[i]; }

    Demand demand(std::size_t i) const {
        const double y = l_.exact[i], size = std::fabs(y);
        if (std::isnan(y)) return Demand::nan;
        if (size - l_.before[i] >= threshold_) return Demand::overflow;
        return size + l_.before[i] < threshold_ ? Demand::finite : Demand::either;
    }
    bool is_overflow(std::size_t i) const {
        const double want = stored(l_, std::copysign(std::numeric_limits<double>::infinity(), l_.exact[i]));
        return got_[i] == want || (std::isnan(want) && std::isnan(got_[i]));
    }

    /// Of an output with a rounding to one code, or by chance to one of two.
    bool is_right(std::size_t i) const {
        const double y = l_.exact[i];
        if (l_.rounding == Round::stochastic) {
            const Neighbours around = neighbours(l_, y);
            if (got_[i] != around.below && got_[i] != around.above && !(l_.flushes && got_[i] == 0)) return false;
            return !l_.is_bitwise || got_[i] != 0 || std::signbit(got_[i]) == std::signbit(y);
        }
        const double want = stored(l_, y);
        return got_[i] == want && (!l_.is_bitwise || want != 0 || std::signbit(got_[i]) == std::signbit(want));
    }

    void elements() {
        Reason special{"KC010", "T0", "NaN or infinity where none may be, or none where one must be"};
        Reason exact{"KC041", "T1", "this output has no rounding but its last, and one code alone is right"};
        Reason certain{"KC020", "T1", "no order of summation of this machine gives this value"};
        Reason probable{"KC021", "T2",
                        "improbable of independent roundings: at most once in 1/delta checks of a legal kernel"};
        for (std::size_t i = 0; i < got_.size(); ++i) {
            const Demand wanted = demand(i);
            const bool is_finite = std::isfinite(got_[i]);
            bool is_special_wrong = false;
            if (wanted == Demand::nan) is_special_wrong = !std::isnan(got_[i]) && l_.format.has_nan();
            if (wanted == Demand::overflow) is_special_wrong = !is_overflow(i);
            if (wanted == Demand::finite) is_special_wrong = !is_finite;
            if (wanted == Demand::either) is_special_wrong = !is_finite && !is_overflow(i);
            if (is_special_wrong) note(special, i, l_.certain[i], std::numeric_limits<double>::infinity());
            // A saturated number is one code, too.
            if (wanted == Demand::overflow && is_finite && l_.is_exact(i)) ++j_.outputs, ++j_.exact_outputs;
            if (is_special_wrong || !is_finite || wanted == Demand::nan || wanted == Demand::overflow) continue;
            ++j_.outputs;
            const double off = std::fabs(error(i)), ratio = off == 0 ? 0 : off / l_.certain[i];
            j_.rho = std::max(j_.rho, ratio);
            if (l_.is_exact(i)) {
                ++j_.exact_outputs;
                if (!is_right(i)) note(exact, i, l_.certain[i], ratio);
            } else if (off > l_.certain[i]) {
                note(certain, i, l_.certain[i], ratio);
            } else if (off > l_.probable[i]) {
                note(probable, i, l_.probable[i], off / l_.probable[i]);
            }
            if (options_.stops_at_first && special.count + exact.count + certain.count + probable.count > 0) break;
        }
        for (Reason* reason : {&special, &exact, &certain, &probable}) {
            if (reason->count == 0 || (reason == &probable && options_.certain_only)) continue;
            j_.reasons.push_back(std::move(*reason));
        }
    }

    void note(Reason& reason, std::size_t i, double bound, double ratio) const {
        ++reason.count;
        if (reason.index >= 0 && !(ratio > reason.ratio)) return;
        reason.index = static_cast<std::int64_t>(i);
        reason.got = got_[i];
        reason.want = l_.exact[i];
        reason.bound = bound;
        reason.ratio = ratio;
    }

    /// A rectangle of outputs.
    struct Group {
        std::int64_t row, rows, column, columns;
    };
    template <class Function>
    void visit(const Group& g, Function function) const {
        for (std::int64_t r = g.row; r < g.row + g.rows; ++r) {
            for (std::int64_t c = g.column; c < g.column + g.columns; ++c) {
                const auto i = static_cast<std::size_t>(r * l_.columns + c);
                if (std::isfinite(got_[i]) && std::isfinite(l_.exact[i]) && l_.deviation[i] > 0) function(i);
            }
        }
    }
    /// Outputs whose last rounding loses the same: equal ones, and those that lie equally far from a code, as all of a row
    /// of log-softmax do where its inputs are multiples of the outputs' ulp.
    double kind_of(std::size_t i) const {
        const double size = std::fabs(l_.exact[i]);
        if (!l_.is_narrow) return size;
        const double codes = size / (2 * half_ulp(l_.format, size));
        return std::nearbyint((codes - std::floor(codes)) * 0x1p30);
    }
    /// Such outputs count as one: (sum c)^2 / sum c^2 over the multiplicities c.
    double effective(const Group& g) const {
        std::vector<double> sizes;
        visit(g, [&](std::size_t i) { sizes.push_back(kind_of(i)); });
        std::sort(sizes.begin(), sizes.end());
        double squares = 0;
        for (std::size_t i = 0, end = 0; i < sizes.size(); i = end) {
            while (end < sizes.size() && sizes[end] == sizes[i]) ++end;
            squares += static_cast<double>(end - i) * static_cast<double>(end - i);
        }
        const auto n = static_cast<double>(sizes.size());
        return n == 0 ? 0 : n * n / squares;
    }

    /// z of a group, by its number of distinct outputs where the plain number would refuse it; 0 where that is too small.
    double z_of(const Group& g, double* mean = nullptr) const {
        if (static_cast<double>(g.rows * g.columns) < least_group) return 0;
        double total = 0, count = 0;
        visit(g, [&](std::size_t i) {
            const double scaled = error(i) / l_.deviation[i];
            total += scaled * scaled;
            ++count;
        });
        if (mean != nullptr && count > 0) *mean = total / count;
        if (count < least_group) return 0;
        const double excess = total / count - 1, z = excess / std::sqrt(8 / count);
        if (z <= z_limit) return z;
        // The model takes rounding errors for uniform. Where outputs lie close together, or on a grid, those of an ideal
        // kernel are not: a legal kernel is then held against that one.
        double ideal = 0;
        visit(g, [&](std::size_t i) {
            const double scaled = (stored(l_, l_.exact[i]) - l_.exact[i]) / l_.deviation[i];
            if (l_.is_narrow && std::isfinite(scaled)) ideal += scaled * scaled;
        });
        const double distinct = effective(g);
        return distinct < least_group ? 0 : (total / count - std::max(1.0, ideal / count)) / std::sqrt(8 / distinct);
    }

    void refuse(const char* code, const std::string& what, const Group& g, double z) {
        if (is_done()) return;
        Reason reason{code, "T3",
                      fmt::format("errors of {} are larger than this machine's can be: their mean square", what)};
        reason.index = g.row * l_.columns + g.column;
        reason.count = g.rows * g.columns;
        reason.got = z;
        reason.bound = z_limit;
        reason.ratio = z / z_limit;
        j_.reasons.push_back(std::move(reason));
    }

    void mean_squares() {
        const Group all{0, l_.rows, 0, l_.columns};
        j_.z = z_of(all, &j_.mean_square);
        if (j_.z > z_limit) refuse("KC030", "all outputs", all, j_.z);
        Group worst{};
        std::string name;
        const auto part = [&](const Group& g, const char* what) {
            const double z = z_of(g);
            if (z <= j_.z_part) return;
            j_.z_part = z;
            worst = g;
            name = fmt::format("{} at {}", what, place_of(l_, g.row * l_.columns + g.column));
        };
        for (std::int64_t r = 0; r < l_.rows && l_.rows > 1; ++r) part({r, 1, 0, l_.columns}, "the row");
        const std::vector<std::int64_t> starts = group_starts_of(l_);
        for (std::size_t group = 0; group + 1 < starts.size() && !is_done(); ++group) {
            const std::int64_t first = starts[group], rows = starts[group + 1] - first;
            for (std::int64_t c = 0; c < l_.columns && rows > 1; ++c) part({first, rows, c, 1}, "the column");
            for (std::int64_t r = 0; r < rows; r += 16) {
                for (std::int64_t c = 0; c < l_.columns; c += 16)
                    part({first + r, std::min<std::int64_t>(16, rows - r), c,
                          std::min<std::int64_t>(16, l_.columns - c)},
                         "the 16x16 tile");
            }
            if (rows < l_.rows) part({first, rows, 0, l_.columns}, "the group");
        }
        if (j_.z_part > z_limit) refuse("KC032", name, worst, j_.z_part);
    }

    /// Against the rounded result: an error before the rounding may have a mean within its bound, truncation has more.
    void bias() {
        const Group all{0, l_.rows, 0, l_.columns};
        double count = 0, total = 0, squares = 0, allowed = 0;
        visit(all, [&](std::size_t i) {
            const double off = (got_[i] - stored(l_, l_.exact[i])) / l_.deviation[i],
                         signed_off = l_.exact[i] < 0 ? -off : off;
            if (!std::isfinite(off)) return;
            ++count;
            total += signed_off;
            squares += signed_off * signed_off;
            allowed += l_.before[i] / l_.deviation[i];
        });
        if (count < least_group) return;
        const double mean = total / count, sigma = std::sqrt(std::max(0.0, squares / count - mean * mean));
        j_.bias = mean;
        j_.bias_limit = allowed / count + z_limit * sigma / std::sqrt(count);
        if (std::fabs(mean) <= j_.bias_limit) return;
        // Errors of one sign move an output by the step that its rounding then takes. That is the error in the mean, but for
        // numbers that lie on the middle of two codes, as those of a wider format do that an operation hardly changes:
        // all of them go to the other code.
        allowed = 0;
        visit(all, [&](std::size_t i) {
            const double y = l_.exact[i], e = std::copysign(l_.before[i], mean < 0 ? -y : y),
                         step = std::fabs(stored(l_, y + e) - stored(l_, y));
            if (std::isfinite(step)) allowed += step / l_.deviation[i];
        });
        const double distinct = effective(all);
        if (distinct < least_group) return;
        j_.bias_limit = allowed / count + z_limit * sigma / std::sqrt(distinct);
        if (std::fabs(mean) <= j_.bias_limit) return;
        Reason reason{"KC031", "T3",
                      mean < 0 ? "outputs are too small in the mean, as truncation makes them"
                               : "outputs are too large in the mean"};
        reason.index = 0;
        reason.count = static_cast<std::int64_t>(count);
        reason.got = mean;
        reason.bound = j_.bias_limit;
        reason.ratio = std::fabs(mean) / j_.bias_limit;
        j_.reasons.push_back(std::move(reason));
    }

    const Limits& l_;
    std::span<const double> got_;
    JudgeOptions options_;
    double threshold_;
    Judgement j_{};
};

}  // namespace

Judgement judge(const Limits& limits, std::span<const double> got, const JudgeOptions& options) {
    return Judge(limits, got, options).run();
}

std::string place_of(const Limits& limits, std::int64_t index) {
    if (limits.rows == 1) return fmt::format("({})", index);
    return fmt::format("({}, {})", index / limits.columns, index % limits.columns);
}

}  // namespace macheps::check
