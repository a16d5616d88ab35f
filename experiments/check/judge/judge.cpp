// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/judge/judge.hpp"

#include "experiments/check/judge/grid.hpp"
#include "experiments/check/judge/grouped_errors.hpp"
#include "experiments/check/judge/refused.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

namespace macheps::check {

namespace {

constexpr double min_group = GroupedErrors::min_group;
constexpr std::int64_t min_outputs = 64, tile = 16;

/// The kind of value that an output must have. It follows from the exact value and its bounds.
enum class Demand : std::uint8_t { nan, overflow, finite, either };

struct ErrorSums {
    double count = 0, total = 0, squares = 0, allowed = 0;
};

class Judge {
  public:
    /// `got` holds the outputs from index `first` on.
    Judge(const Limits& limits, NumberView got, const JudgeOptions& options, ThreadPool& pool, std::size_t first = 0)
        : limits_(limits),
          got_(got),
          options_(options),
          pool_(pool),
          first_(first),
          thresholds_{overflow_threshold(limits, false), overflow_threshold(limits, true)},
          largest_(decode64(limits.format, limits.format.max_finite_code() << limits.format.padding)),
          stored_(limits),
          errors_(limits, got) {}

    Judgement run() {
        if (!options_.only_together) elements();
        if (is_done()) return std::move(judgement_);
        mean_squares();
        // bias() compares the outputs with the exact results, rounded to nearest. It therefore does not apply to
        // kernels that round stochastically.
        if (!is_done() && limits_.rounding != Round::stochastic) bias();
        return std::move(judgement_);
    }

    /// Returns true if one of the tests of single outputs (T0 to T2) refuses an output.
    bool refuses_any() const {
        constexpr std::size_t step = 1024;
        bool is_improbable = false;
        for (std::size_t i = 0; i < got_.size(); i += step) {
            const SingleResults seen = singles(i, std::min(got_.size(), i + step));
            is_improbable = is_improbable || seen.probable.count > 0;
            if (seen.is_refused_for_certain() || (is_improbable && options_.premise == nullptr)) return true;
        }
        return is_improbable && options_.premise->holds_at(improbable());
    }

  private:
    bool is_done() const { return options_.stops_at_first && !judgement_.reasons.empty(); }
    double got(std::size_t i) const { return got_[i - first_]; }
    double error(std::size_t i) const { return (got(i) - limits_.exact[i]) - limits_.low[i]; }

    double threshold(std::size_t i) const { return thresholds_[std::signbit(limits_.exact[i]) ? 1 : 0]; }
    bool has_threshold(std::size_t i) const { return std::isfinite(threshold(i)); }

    Demand demand(std::size_t i) const {
        const double y = limits_.exact[i], size = std::fabs(y);
        if (std::isnan(y)) return limits_.overflow[i] == Overflowing::to_anything ? Demand::either : Demand::nan;
        if (size - limits_.before[i] >= threshold(i)) return Demand::overflow;
        return may_overflow(i) ? Demand::either : Demand::finite;
    }
    bool may_overflow(std::size_t i) const {
        if (limits_.overflow[i] != Overflowing::never) return true;
        const double most = std::fabs(limits_.exact[i]) + limits_.before[i];
        if (has_threshold(i)) return most >= threshold(i);
        // A rounding towards zero returns the largest finite number for all results above it. Stochastic rounding may
        // also return an infinity.
        return most > largest_ && (!limits_.is_exact(i) || limits_.rounding == Round::stochastic);
    }
    /// Returns true if a legal kernel may return the value of output `i`. Precondition: the output may overflow.
    bool is_legal_overflow(std::size_t i) const {
        const double y = limits_.exact[i], z = got(i), infinity = std::numeric_limits<double>::infinity();
        const Overflowing inside = limits_.overflow[i];
        const bool is_infinity = z == stored_(infinity) || z == stored_(-infinity);
        if (inside == Overflowing::to_anything && (is_infinity || !std::isfinite(z))) return true;
        if (is_infinity && std::fabs(y) < limits_.before[i]) return true;  // the result may have either sign
        if ((has_threshold(i) || inside != Overflowing::never || limits_.rounding == Round::stochastic) &&
            is_overflow(i))
            return true;
        return !has_threshold(i) && std::fabs(y) + limits_.before[i] > largest_ && z == std::copysign(largest_, y);
    }
    bool is_overflow(std::size_t i) const {
        const double want = stored_(std::copysign(std::numeric_limits<double>::infinity(), limits_.exact[i]));
        return got(i) == want || (std::isnan(want) && std::isnan(got(i)));
    }

    /// Returns true if output i has its only correct code, or one of its two correct codes if rounding is stochastic.
    /// Precondition: the output is computed exactly up to the final rounding.
    bool is_right(std::size_t i) const {
        const double y = limits_.exact[i], z = got(i);
        if (limits_.rounding == Round::stochastic) {
            const Neighbours around = neighbours(limits_, y);
            if (z != around.below && z != around.above && !(limits_.flushes && z == 0)) return false;
            return !limits_.is_bitwise || z != 0 || std::signbit(z) == std::signbit(y);
        }
        const double want = stored_(y);
        return z == want && (!limits_.is_bitwise || want != 0 || std::signbit(z) == std::signbit(want));
    }

    bool is_special_wrong(std::size_t i, Demand wanted) const {
        const bool is_finite = std::isfinite(got(i));
        switch (wanted) {
            case Demand::nan:
                return !std::isnan(got(i)) && limits_.format.has_nan();
            case Demand::overflow:
                return !is_overflow(i);
            default:
                return !is_finite;
        }
    }

    void observe(std::size_t i, SingleResults& seen) const {
        const auto refuse = [&](Refused& by, double bound, double ratio) {
            by.add({static_cast<std::int64_t>(i), 1, got(i), limits_.exact[i], bound, ratio});
        };
        const Demand wanted = demand(i);
        const bool is_finite = std::isfinite(got(i));
        // A saturated output has only one right code, so it counts as exact.
        if (wanted == Demand::overflow && is_finite && limits_.is_exact(i)) ++seen.outputs, ++seen.exact_outputs;
        if ((wanted == Demand::either || wanted == Demand::overflow) && may_overflow(i) && is_legal_overflow(i)) return;
        if (is_special_wrong(i, wanted))
            return refuse(seen.special, limits_.certain[i], std::numeric_limits<double>::infinity());
        if (!is_finite || wanted == Demand::nan || wanted == Demand::overflow) return;
        ++seen.outputs;
        const double off = std::fabs(error(i)), ratio = off == 0 ? 0 : off / limits_.certain[i];
        seen.rho = std::max(seen.rho, ratio);
        if (limits_.is_exact(i)) {
            ++seen.exact_outputs;
            if (!is_right(i)) refuse(seen.exact, limits_.certain[i], ratio);
        } else if (off > limits_.certain[i]) {
            refuse(seen.certain, limits_.certain[i], ratio);
        } else if (off > limits_.probable[i]) {
            refuse(seen.probable, limits_.probable[i], off / limits_.probable[i]);
        }
    }
    /// Runs the tests of single outputs (T0 to T2) on got_[first] to got_[last - 1].
    SingleResults singles(std::size_t first, std::size_t last) const {
        SingleResults seen;
        for (std::size_t i = first; i < last; ++i) observe(first_ + i, seen);
        return seen;
    }

    /// Returns the indices of the outputs that T2 (probable bounds) refuses.
    std::vector<std::int64_t> improbable() const {
        std::vector<std::int64_t> all;
        for (std::size_t i = first_; i < first_ + got_.size(); ++i) {
            SingleResults seen;
            observe(i, seen);
            if (seen.probable.count > 0) all.push_back(static_cast<std::int64_t>(i));
        }
        return all;
    }

    void elements() {
        SingleResults all;
        in_parts(
            static_cast<std::int64_t>(got_.size()), pool_,
            [&](std::size_t first, std::size_t last) { return singles(first, last); },
            [&](const SingleResults& part) { all.add(part); });
        judgement_.rho = all.rho;
        judgement_.outputs = all.outputs;
        judgement_.exact_outputs = all.exact_outputs;
        const auto add = [&](const ReasonCode& code, const char* test, const char* text, const Refused& by) {
            if (by.count == 0) return;
            Reason reason{code, test, text};
            reason.index = by.index;
            reason.count = by.count;
            reason.got = by.got;
            reason.want = by.want;
            reason.bound = by.bound;
            reason.ratio = by.ratio;
            judgement_.reasons.push_back(std::move(reason));
        };
        add(reason_code::special, "T0",
            "this output is NaN or infinite but must not be, or must be NaN or infinite but is not", all.special);
        add(reason_code::exact, "T1",
            "this output is computed exactly up to the final rounding, and the kernel returned a wrong value",
            all.exact);
        add(reason_code::certain, "T1", "no kernel that the declaration permits can make an error this large",
            all.certain);
        // If T0 or T1 refuses an output, the kernel is certainly wrong. The premise of independent errors is then not
        // tested.
        if (all.is_refused_for_certain()) options_.premise = nullptr;
        if (options_.certain_only || all.probable.count == 0) return;
        if (options_.premise != nullptr && !options_.premise->holds_at(improbable()))
            return judgement_.dismissed.push_back(reason_code::probable);
        add(reason_code::probable, "T2",
            "this error is larger than independent rounding errors explain: a correct kernel exceeds this limit in at "
            "most one of 1/delta checks",
            all.probable);
    }
    bool is_premise(const OutputBlock& block) const {
        return options_.premise == nullptr || options_.premise->holds_for(block);
    }

    void refuse(const ReasonCode& code, const std::string& what, const OutputBlock& g, double z) {
        if (is_done()) return;
        Reason reason{code, "T3",
                      fmt::format("the mean square of the errors of {} is larger than rounding errors explain", what)};
        reason.index = g.row * limits_.columns + g.column;
        reason.count = g.rows * g.columns;
        reason.got = z;
        reason.bound = z_limit;
        reason.ratio = z / z_limit;
        judgement_.reasons.push_back(std::move(reason));
    }

    void mean_squares() {
        const Grid<Squares> grid =
            gather<Squares>(limits_, pool_, [&](std::size_t i) { return errors_.squares_of(i); });
        // Tests of parts (rows, columns and so on) are faster. If one reason is enough, they run first.
        if (options_.stops_at_first) mean_squares_of_parts(grid);
        if (!is_done()) mean_square_of_all(grid);
        if (!options_.stops_at_first) mean_squares_of_parts(grid);
    }

    void mean_square_of_all(const Grid<Squares>& grid) {
        const OutputBlock all = errors_.all();
        if (limits_.size() >= min_outputs && grid.all.count > 0)
            judgement_.mean_square = grid.all.total / grid.all.count;
        judgement_.z = errors_.z_of(all, grid.all);
        if (!(judgement_.z > z_limit)) return;
        if (is_premise(all))
            refuse(reason_code::mean_square, "all outputs", all, judgement_.z);
        else
            judgement_.dismissed.push_back(reason_code::mean_square);
    }

    /// The part of the outputs (a row, column, tile or group) that has the largest z among several parts.
    struct WorstPart {
        double z = 0;
        OutputBlock group{};
        std::string name{};
    };
    /// Divides the parts 0 to count - 1 into ranges, one for each task. Returns, for each range, its part with the
    /// largest z. If several parts have this z, returns the first of them. part_at(i) returns the rectangle of part i
    /// and its sums.
    template <class PartAt>
    std::vector<WorstPart> worst_of(std::int64_t count, const PartAt& part_at) const {
        const std::int64_t tasks = std::min<std::int64_t>(64, count / 64 + 1);
        std::vector<WorstPart> found(static_cast<std::size_t>(tasks));
        pool_.run(tasks, [&](std::int64_t task) {
            WorstPart& worst = found[static_cast<std::size_t>(task)];
            for (std::int64_t i = count * task / tasks; i < count * (task + 1) / tasks; ++i) {
                if (options_.stops_at_first && worst.z > z_limit) return;
                const auto& [group, sums] = part_at(i);
                // Skip parts whose z cannot exceed the largest z so far. This test counts equal outputs separately, and
                // z_of() may count them as one, which never increases z.
                if (sums.count < min_group || !(sums.total / sums.count - 1 > worst.z * std::sqrt(8 / sums.count)))
                    continue;
                const double z = errors_.z_of(group, sums);
                if (z > worst.z) worst = {z, group};
            }
        });
        return found;
    }

    /// Refuses the part with the largest z for which the premise of independent errors holds. Tries at most eight
    /// parts, in descending order of z.
    void refuse_worst(std::vector<WorstPart> beyond) {
        constexpr std::size_t max_asked = 8;
        std::stable_sort(beyond.begin(), beyond.end(), [](const auto& x, const auto& y) { return x.z > y.z; });
        if (beyond.size() > max_asked) beyond.resize(max_asked);
        for (const WorstPart& worst : beyond) {
            const std::int64_t first = worst.group.row * limits_.columns + worst.group.column;
            if (is_premise(worst.group))
                return refuse(reason_code::part,
                              fmt::format("{} at {}", worst.name, place_of(limits_, whole_index(limits_, first))),
                              worst.group, worst.z);
        }
        if (!beyond.empty()) judgement_.dismissed.push_back(reason_code::part);
    }

    void mean_squares_of_parts(const Grid<Squares>& grid) {
        std::vector<WorstPart> beyond;
        const auto parts = [&](double& most, const std::string& what, std::int64_t count, const auto& part_at) {
            if (options_.stops_at_first && beyond.size() >= 8) return;
            for (WorstPart& worst : worst_of(count, part_at)) {
                most = std::max(most, worst.z);
                worst.name = what;
                if (worst.z > z_limit) beyond.push_back(std::move(worst));
            }
            judgement_.z_part = std::max(judgement_.z_part, most);
        };
        const auto at = [](const std::vector<Squares>& sums, std::int64_t i) {
            return sums[static_cast<std::size_t>(i)];
        };
        if (limits_.rows > 1) {
            parts(judgement_.z_rows, "the row", limits_.rows, [&](std::int64_t r) {
                return std::pair(OutputBlock{r, 1, 0, limits_.columns}, at(grid.rows, r));
            });
        }
        const std::int64_t across = (limits_.columns + tile - 1) / tile;
        for (const auto& group : grid.groups) {
            parts(judgement_.z_columns, "the column", std::ssize(group.columns), [&](std::int64_t c) {
                return std::pair(OutputBlock{group.first, group.rows, c, 1}, at(group.columns, c));
            });
            parts(judgement_.z_tiles, "the 16x16 tile", std::ssize(group.tiles), [&](std::int64_t t) {
                const std::int64_t r = t / across * tile, c = t % across * tile;
                return std::pair(OutputBlock{group.first + r, std::min(tile, group.rows - r), c,
                                             std::min(tile, limits_.columns - c)},
                                 at(group.tiles, t));
            });
            if (group.rows < limits_.rows)
                parts(judgement_.z_groups, "the group", 1, [&](std::int64_t) {
                    return std::pair(OutputBlock{group.first, group.rows, 0, limits_.columns}, group.all);
                });
        }
        for (const auto& group : grid.groups) declared_tiles({group.first, group.rows, 0, limits_.columns}, parts);
        refuse_worst(std::move(beyond));
    }

    /// Judges the kernel's declared tiles in one batch or group.
    template <class Parts>
    void declared_tiles(const OutputBlock& of, const Parts& parts) {
        // In a sample of the outputs, neighbours are far apart in the kernel's whole output. The outputs in a rectangle
        // of the sample are therefore not those of one tile.
        const bool has_whole_tiles = !limits_.sample || limits_.sample->every() == 1;
        if (limits_.tile_rows == 0 || !has_whole_tiles || (limits_.tile_rows == tile && limits_.tile_columns == tile))
            return;
        const std::int64_t across = (of.columns + limits_.tile_columns - 1) / limits_.tile_columns,
                           down = (of.rows + limits_.tile_rows - 1) / limits_.tile_rows;
        parts(judgement_.z_tiles, fmt::format("the {}x{} tile", limits_.tile_rows, limits_.tile_columns), across * down,
              [&](std::int64_t t) {
                  const std::int64_t row = t / across * limits_.tile_rows, column = t % across * limits_.tile_columns;
                  const OutputBlock block{of.row + row, std::min(limits_.tile_rows, of.rows - row), column,
                                          std::min(limits_.tile_columns, of.columns - column)};
                  Squares sums;
                  for (std::int64_t r = block.row; r < block.row + block.rows; ++r) {
                      for (std::int64_t c = block.column; c < block.column + block.columns; ++c)
                          sums.add(errors_.squares_of(static_cast<std::size_t>(r * limits_.columns + c)));
                  }
                  return std::pair(block, sums);
              });
    }

    /// Tests the mean difference between the outputs and the exact results, each rounded once. The limit of the mean
    /// allows for errors before the final rounding, all of which may have the same sign and be as large as their bound.
    /// Kernels that truncate outputs have a larger mean error, so the test refuses them.
    void bias() {
        double count = 0, total = 0, squares = 0, allowed = 0;
        in_parts(
            limits_.size(), pool_,
            [&](std::size_t first, std::size_t last) {
                ErrorSums m;
                for (std::size_t i = first; i < last; ++i) {
                    if (!errors_.is_counted(i)) continue;
                    const double off = (got(i) - stored_(limits_.exact[i])) / limits_.deviation[i],
                                 signed_off = limits_.exact[i] < 0 ? -off : off;
                    if (!std::isfinite(off)) continue;
                    ++m.count;
                    m.total += signed_off;
                    m.squares += signed_off * signed_off;
                    m.allowed += limits_.before[i] / limits_.deviation[i];
                }
                return m;
            },
            [&](const ErrorSums& m) {
                count += m.count;
                total += m.total;
                squares += m.squares;
                allowed += m.allowed;
            });
        if (count < min_group) return;
        const double mean = total / count, sigma = std::sqrt(std::max(0.0, squares / count - mean * mean));
        judgement_.bias = mean;
        judgement_.bias_limit = allowed / count + z_limit * sigma / std::sqrt(count);
        if (std::fabs(mean) <= judgement_.bias_limit) return;
        // The final rounding turns an error before it into a change of the output by 0 or more whole steps of the
        // format. The first limit assumes that the mean of these changes is as large as the mean of the errors. The
        // assumption fails if many exact results lie midway between two numbers of the format. An example is an
        // operation that hardly changes its inputs, which have a wider format. Tiny errors of one sign then move all of
        // these outputs by a whole step. The second limit counts such steps.
        allowed = 0;
        errors_.visit(errors_.all(), [&](std::size_t i) {
            const double y = limits_.exact[i], e = std::copysign(limits_.before[i], mean < 0 ? -y : y),
                         step = std::fabs(stored_(y + e) - stored_(y));
            if (std::isfinite(step)) allowed += step / limits_.deviation[i];
        });
        const double distinct = errors_.distinct(errors_.all());
        if (distinct < min_group) return;
        judgement_.bias_limit = allowed / count + z_limit * sigma / std::sqrt(distinct);
        if (std::fabs(mean) <= judgement_.bias_limit) return;
        Reason reason{reason_code::bias, "T3",
                      mean < 0 ? "outputs are too small in magnitude on average, as after truncation"
                               : "outputs are too large in magnitude on average"};
        reason.index = 0;
        reason.count = static_cast<std::int64_t>(count);
        reason.got = mean;
        reason.bound = judgement_.bias_limit;
        reason.ratio = std::fabs(mean) / judgement_.bias_limit;
        judgement_.reasons.push_back(std::move(reason));
    }

    const Limits& limits_;
    NumberView got_;
    JudgeOptions options_;
    ThreadPool& pool_;
    std::size_t first_;
    std::array<double, 2> thresholds_;  // overflow thresholds of positive and of negative results
    double largest_;
    Storing stored_;
    GroupedErrors errors_;  ///< valid only if `got_` holds all outputs
    Judgement judgement_{};
};

}  // namespace

Judgement judge(const Limits& limits, NumberView got, const JudgeOptions& options) {
    if (options.pool != nullptr) return Judge(limits, got, options, *options.pool).run();
    ThreadPool alone(1);
    return Judge(limits, got, options, alone).run();
}

bool refuses_any(const Limits& limits, std::int64_t first, NumberView got, Premise* premise) {
    ThreadPool alone(1);
    return Judge(limits, got, {.premise = premise}, alone, static_cast<std::size_t>(first)).refuses_any();
}

std::int64_t whole_index(const Limits& limits, std::int64_t index) {
    return limits.sample && index >= 0 ? limits.sample->place(index) : index;
}

std::string place_of(const Limits& limits, std::int64_t index) {
    const std::int64_t rows = limits.sample ? limits.sample->whole_rows() : limits.rows,
                       columns = limits.sample ? limits.sample->whole_columns() : limits.columns;
    if (rows == 1) return fmt::format("({})", index);
    return fmt::format("({}, {})", index / columns, index % columns);
}

}  // namespace macheps::check
