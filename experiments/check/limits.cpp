// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/limits.hpp"

#include "core/format_table.hpp"
#include "experiments/check/interpret.hpp"
#include "experiments/check/shortcuts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

namespace macheps::check {

namespace {

/// Both arithmetics: the kernel's, and that of the reference.
struct Accuracies {
    Arithmetic kernel, own = reference_arithmetic();
};

/// All four interpreters walk one row.
void interpret(const std::vector<Node>& nodes, const Row& row, const Accuracies& accuracies, Frame& frame) {
    reference(nodes, row, frame.values);
    bound(nodes, row, frame.values, accuracies.kernel, frame.bounds, &frame.overflows);
    bound(nodes, row, frame.values, accuracies.own, frame.certificates);
    spread(nodes, row, frame.values, frame.bounds, accuracies.kernel, frame.spreads);
}

/// The limits of output i from element j of the last node. False where nothing certain can be said of it.
bool set_limits(Limits& limits, const HalfUlp& half_ulp, std::size_t i, const Frame& frame, std::size_t j,
                double lambda) {
    const Wide y = frame.values.back()[j];
    const double certificate = frame.certificates.back()[j], before = frame.bounds.back()[j];
    const Spread& s = frame.spreads.back()[j];
    // The spread of errors is unknown if a number of the row may overflow before the last step.
    const bool has_spread = !frame.overflows.is_inside;
    const double likely = (has_spread ? std::min(before, s.linear + lambda * (s.own + s.shared)) : before) + certificate,
                 certain = before + certificate;
    // To nearest, half of the distance of neighbours is lost at the most; else all of it.
    const bool is_nearest = limits.rounding == Round::nearest_even || limits.rounding == Round::nearest_away;
    const double halves = is_nearest ? 1 : 2;
    const auto rounded = [&](double e) {
        if (!limits.is_narrow) return e;
        const double size = std::fabs(y.high) + e, loss = e + halves * half_ulp(size);
        return limits.flushes ? std::max(loss, std::min(size, Format::power_of_two(limits.format.emin()))) : loss;
    };
    const double ulp_width = limits.is_narrow ? 2 * half_ulp(y.high) : 0, common = s.linear + s.common,
                 // Uniform within half an ulp; within an ulp; or a coin's toss, at the most half an ulp.
        own_square = is_nearest                             ? ulp_width * ulp_width / 12
                     : limits.rounding == Round::stochastic ? ulp_width * ulp_width / 4
                                                            : ulp_width * ulp_width / 3;
    limits.exact[i] = y.high;
    limits.low[i] = y.low;
    limits.before[i] = certain;
    limits.certain[i] = rounded(certain);
    limits.probable[i] = rounded(likely);
    limits.deviation[i] = has_spread ? sqrt(own_square + s.own * s.own / 3 + common * common) : 0;
    limits.overflow[i] = frame.overflows.at(frame.values.size() - 1, j);
    return !std::isfinite(y.high) || !(std::isinf(before) || (certificate > 0 && certificate >= limits.certain[i] / 4));
}

/// Computes a row as a kernel that is exact except for the declared roundings of intermediate results.
class InnerRoundings {
  public:
    explicit InnerRoundings(const std::vector<Node>& nodes) : nodes_(nodes) {
        for (std::size_t n = 0; n < nodes_.size(); ++n) {
            if (nodes_[n].step != Step::round) continue;
            places_.push_back(n);
            half_ulps_.emplace_back(nodes_[n].format);
            nodes_[n].step = Step::convert;
        }
    }
    std::size_t count() const { return places_.size(); }

    /// `exact` holds the values of the row without these roundings. The outputs of the row begin at `first`.
    void set(Limits& limits, std::size_t first, std::size_t outputs, const Row& row, const Columns<Wide>& exact,
             Columns<Wide>& values) const {
        reference(nodes_, row, values);
        for (std::size_t j = 0; j < outputs; ++j) limits.rounded_inside[first + j] = values.back()[j].high;
        for (std::size_t s = 0; s < places_.size(); ++s) {
            const auto& x = exact[places_[s]];
            for (std::size_t j = 0; j < outputs; ++j)
                limits.inner_kinds[s][first + j] = rounding_kind(half_ulps_[s], x[x.size() == 1 ? 0 : j].high);
        }
    }

  private:
    std::vector<Node> nodes_;
    std::vector<std::size_t> places_{};
    std::vector<HalfUlp> half_ulps_{};
};

/// The results of all rows as a list across them begins: with their errors.
void set_result(ProductSum& result, const Frame& frame) {
    const Spread& s = frame.spreads.back()[0];
    result = {.sum = frame.values.back()[0],
              .certain = frame.bounds.back()[0],
              .mean = s.linear,
              .spread = s.own + s.shared,
              .certificate = frame.certificates.back()[0],
              .overflow = frame.overflows.at(frame.values.size() - 1, 0)};
}

}  // namespace

std::uint32_t rounding_kind(const HalfUlp& half_ulp, double x) {
    const double codes = std::fabs(x) / (2 * half_ulp(x)), part = codes - std::floor(codes);
    return std::isfinite(part) ? static_cast<std::uint32_t>(std::nearbyint(part * 0x1p30)) : 0;
}

Limits limits_of(const Problem& problem, double delta, ThreadPool& pool) {
    const Declaration& d = problem.declaration;
    const bool is_one = problem.is_one_per_row();
    Limits limits{.format = problem.output,
                  .is_narrow = problem.output.precision < fp32.precision || problem.output.emin() > fp32.emin(),
                  .saturates = d.saturates,
                  .flushes = d.flushes,
                  .is_bitwise = d.operation->is_bitwise,
                  .rounding = d.rounding,
                  .random_bits = d.random_bits,
                  .rows = is_one ? 1 : problem.rows,
                  .columns = problem.is_reduced() ? 1
                             : is_one             ? problem.rows
                                                  : problem.columns,
                  .group_rows = is_one ? 1 : problem.group_rows};
    if (problem.products) limits.starts = problem.products->operands().starts;
    limits.sample = problem.sample;
    limits.tile_rows = d.tile_rows;
    limits.tile_columns = d.tile_columns;
    const auto size = static_cast<std::size_t>(limits.size());
    // The first touch of so much memory costs as much as the interpreters: every thread does a part of it.
    const std::array all{&limits.exact,   &limits.low,      &limits.before,
                         &limits.certain, &limits.probable, &limits.deviation};
    pool.run(static_cast<std::int64_t>(all.size()),
             [&](std::int64_t task) { all[static_cast<std::size_t>(task)]->resize(size); });
    limits.overflow.resize(size);
    const Defect none{};
    const HalfUlp half_ulp(limits.format);
    const Listing listing = listing_of(problem, problem.inputs, none);
    const Accuracies accuracies{.kernel = kernel_arithmetic(find_functions(d.functions))};
    const InnerRoundings inner(listing.nodes.list());
    const bool has_inner = inner.count() > 0 && !problem.is_reduced();
    if (has_inner) {
        limits.rounded_inside.resize(size);
        limits.inner_kinds.assign(inner.count(), std::vector<std::uint32_t>(size));
    }
    const double lambda = std::sqrt(2 * math::log(2 * static_cast<double>(size) / delta));
    std::vector<ProductSum> results(problem.is_reduced() ? static_cast<std::size_t>(problem.rows) : 0);
    std::atomic<std::int64_t> declined{limits.size()};
    for_rows(problem, 0, problem.rows, pool, [&](std::int64_t row, Frame& frame) {
        const Row read = row_of(problem, row, 0, frame, problem.inputs);
        interpret(listing.nodes.list(), read, accuracies, frame);
        if (problem.is_reduced()) return set_result(results[static_cast<std::size_t>(row)], frame);
        const std::size_t count = is_one ? 1 : static_cast<std::size_t>(problem.columns);
        if (has_inner)
            inner.set(limits, static_cast<std::size_t>(row) * count, count, read, frame.values, frame.rounded);
        for (std::size_t j = 0; j < count; ++j) {
            const std::size_t i = static_cast<std::size_t>(row) * count + j;
            if (set_limits(limits, half_ulp, i, frame, j, lambda)) continue;
            const auto place = static_cast<std::int64_t>(i);
            std::int64_t first = declined;
            while (place < first && !declined.compare_exchange_weak(first, place)) {
            }
        }
    });
    if (problem.is_reduced()) {
        Frame frame;
        const Listing across = across_of(problem, problem.inputs, none);
        interpret(across.nodes.list(), across_row(problem, problem.inputs, results), accuracies, frame);
        if (!set_limits(limits, half_ulp, 0, frame, 0, lambda)) declined = 0;
    }
    if (declined < limits.size()) limits.declined = declined;
    return limits;
}

std::vector<double> systematic_errors(const Problem& problem, std::int64_t row) {
    const Defect none{};
    const Listing listing = listing_of(problem, problem.inputs, none);
    Frame frame;
    interpret(listing.nodes.list(), row_of(problem, row, 0, frame, problem.inputs),
              {.kernel = kernel_arithmetic(find_functions(problem.declaration.functions))}, frame);
    std::vector<double> all;
    for (const Spread& each : frame.spreads.back()) all.push_back(each.linear);
    return all;
}

std::vector<std::int64_t> group_starts_of(const Limits& limits) {
    if (!limits.starts.empty()) return limits.starts;
    std::vector<std::int64_t> starts;
    for (std::int64_t row = 0; row < limits.rows; row += std::max<std::int64_t>(limits.group_rows, 1))
        starts.push_back(row);
    starts.push_back(limits.rows);
    return starts;
}

Storing::Storing(const Limits& limits)
    : format_(limits.format),
      rounding_(limits.rounding == Round::stochastic ? Round::nearest_even : limits.rounding),
      saturates_(limits.saturates),
      flushes_(limits.flushes),
      is_fast_(limits.rounding == Round::nearest_even),
      normal_(limits.format) {}

double Storing::by_codec(double x) const {
    const Overflow overflow = saturates_ ? Overflow::saturate : Overflow::nonsaturate;
    const double y = decode64(format_, encode64(format_, x, rounding_, overflow));
    return flushes_ && std::fabs(y) < Format::power_of_two(format_.emin()) ? std::copysign(0.0, y) : y;
}

Neighbours neighbours(const Limits& limits, double x) {
    const Overflow overflow = limits.saturates ? Overflow::saturate : Overflow::nonsaturate;
    const auto to = [&](Round rounding) {
        return decode64(limits.format, encode64(limits.format, x, rounding, overflow));
    };
    return {to(Round::down), to(Round::up)};
}

double overflow_threshold(const Limits& limits) {
    const Format& format = limits.format;
    if (limits.rounding != Round::nearest_even && limits.rounding != Round::nearest_away)
        return std::numeric_limits<double>::infinity();
    const double most = decode64(format, format.max_finite_code() << format.padding);
    return most + half_ulp(format, most);
}

std::vector<std::string> assumptions_of(const Problem& problem) {
    const Declaration& d = problem.declaration;
    if (d.operation->is_bitwise) return {"no arithmetic but the scaling and the last rounding"};
    const SumOrder order = parse_sum_order(d.sum_order);
    std::vector<std::string> all{"arithmetic inside is fp32"};
    if (d.operation->has_reduction && !d.operation->is_product)
        all.push_back(fmt::format("sums in {} order", sum_order_text(order)));
    if (d.scale_order != "any")
        all.push_back(fmt::format("scales in the order {}, and every other allowed", d.scale_order));
    if (d.operands == "any")
        all.push_back(fmt::format("operands {}, which fits these outputs best", d.conversion == "stored" ? "as they are stored" : "in " + d.conversion));
    if (const std::vector<std::string_view> forms = legal_forms(d); forms.size() > 1)
        all.push_back(fmt::format("form {}, which cannot be distinguished from {}", forms.front(),
                                  fmt::join(forms.begin() + 1, forms.end(), ", ")));
    if (d.inner) all.push_back(fmt::format("rounded to {} on the way", format_name(*d.inner)));
    const FunctionTable table = find_functions(d.functions);
    const Defect none{};
    std::array<bool, function_count> used{};
    const auto use = [&](Function function) { used[static_cast<std::size_t>(function)] = true; };
    const Listing listing = listing_of(problem, problem.inputs, none);
    for (const Node& node : listing.nodes.list()) {
        if (const auto function = function_of(node.step)) use(*function);
    }
    std::vector<std::string> figures;
    for (std::size_t i = 0; i < function_count; ++i) {
        if (used[i]) figures.push_back(fmt::format("{} within {:g}", function_names[i], table.functions[i].ulps));
    }
    if (!figures.empty())
        all.push_back(fmt::format("{} ulp ({}: {})", fmt::join(figures, ", "), d.functions, table.source));
    return all;
}

}  // namespace macheps::check
