// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/bounds/limits.hpp"

#include "core/format_table.hpp"
#include "experiments/check/bounds/interpret.hpp"
#include "experiments/check/bounds/shortcuts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace macheps::check {

namespace {

/// Accuracy of the kernel's arithmetic, and of the arithmetic that computes the reference values.
struct Accuracies {
    Arithmetic kernel, own = reference_arithmetic();
};

/// Computes the exact values of one row, the spread of the kernel's errors, and two error bounds for each value: for
/// the kernel's arithmetic, and for the arithmetic of the reference.
void interpret(const std::vector<Node>& nodes, const Row& row, const Accuracies& accuracies, Frame& frame) {
    reference(nodes, row, frame.values);
    bound(nodes, row, frame.values, accuracies.kernel, frame.bounds, &frame.overflows);
    bound(nodes, row, frame.values, accuracies.own, frame.certificates);
    spread(nodes, row, frame.values, frame.bounds, accuracies.kernel, frame.spreads);
}

/// Sets the limits of output i, which is element j of the last node. Returns false if the output cannot be judged.
bool set_limits(const Limits& limits, Panel& panel, const HalfUlp& half_ulp, std::size_t i, const Frame& frame,
                std::size_t j, double lambda) {
    const Wide y = frame.values.back()[j];
    const double certificate = frame.certificates.back()[j], before = frame.bounds.back()[j];
    const Spread& s = frame.spreads.back()[j];
    // The spread of errors is unknown if a number of the row may overflow before the last step.
    const bool has_spread = !frame.overflows.is_inside;
    const double likely =
                     (has_spread ? std::min(before, s.linear + lambda * (s.own + s.shared)) : before) + certificate,
                 certain = before + certificate;
    // Rounding to nearest has an error of at most half an ulp, every other rounding of at most one ulp.
    const bool is_nearest = limits.rounding == Round::nearest_even || limits.rounding == Round::nearest_away;
    const double halves = is_nearest ? 1 : 2;
    const auto rounded = [&](double e) {
        if (!limits.is_narrow) return e;
        const double size = std::fabs(y.high) + e, loss = e + halves * half_ulp(size);
        return limits.flushes ? std::max(loss, std::min(size, Format::power_of_two(limits.format.emin()))) : loss;
    };
    // own_square is the mean square of the error of the last rounding. Rounding to nearest has an error that is uniform
    // in +-ulp/2, and directed rounding one that is uniform over one ulp. The standard deviation of stochastic rounding
    // is at most ulp/2.
    const double ulp_width = limits.is_narrow ? 2 * half_ulp(y.high) : 0, common = s.linear + s.common,
                 own_square = is_nearest                             ? ulp_width * ulp_width / 12
                              : limits.rounding == Round::stochastic ? ulp_width * ulp_width / 4
                                                                     : ulp_width * ulp_width / 3;
    panel.exact[i] = y.high;
    panel.low[i] = y.low;
    panel.before[i] = certain;
    panel.certain[i] = rounded(certain);
    panel.probable[i] = rounded(likely);
    panel.deviation[i] = has_spread ? sqrt(own_square + s.own * s.own / 3 + common * common) : 0;
    panel.overflow[i] = frame.overflows.at(frame.values.size() - 1, j);
    return !std::isfinite(y.high) || !(std::isinf(before) || (certificate > 0 && certificate >= panel.certain[i] / 4));
}

/// Computes the outputs of a kernel that is exact except for the declared roundings of intermediate results.
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

    /// Sets `rounded_inside` and `inner_kinds` in the panel for the outputs of one row. `exact` holds the values of the
    /// row without intermediate roundings. `first` is the index of the row's first output in the panel.
    void set(Panel& panel, std::size_t first, std::size_t outputs, const Row& row, const Columns<Wide>& exact,
             Columns<Wide>& values) const {
        reference(nodes_, row, values);
        for (std::size_t j = 0; j < outputs; ++j) panel.rounded_inside[first + j] = values.back()[j].high;
        for (std::size_t s = 0; s < places_.size(); ++s) {
            const auto& x = exact[places_[s]];
            for (std::size_t j = 0; j < outputs; ++j)
                panel.inner_kinds[s][first + j] = rounding_kind(half_ulps_[s], x[x.size() == 1 ? 0 : j].high);
        }
    }

  private:
    std::vector<Node> nodes_;
    std::vector<std::size_t> places_{};
    std::vector<HalfUlp> half_ulps_{};
};

/// Sets `result` to the single output of one row and to its error bounds. The list of nodes that reduces the results of
/// all rows reads it.
void set_result(ProductSum& result, const Frame& frame) {
    const Spread& s = frame.spreads.back()[0];
    result = {.sum = frame.values.back()[0],
              .certain = frame.bounds.back()[0],
              .mean = s.linear,
              .spread = s.own + s.shared,
              .certificate = frame.certificates.back()[0],
              .overflow = frame.overflows.at(frame.values.size() - 1, 0)};
}

/// Computes the limits of single rows.
class RowLimits {
  public:
    RowLimits(std::shared_ptr<const Problem> problem, const Limits& limits, double lambda, const Defect& defect)
        : owned_(std::move(problem)),
          problem_(*owned_),
          meta_(limits),
          lambda_(lambda),
          defect_(defect),
          nodes_(listing_of(problem_, problem_.inputs, defect_).nodes.list()),
          accuracies_{.kernel = kernel_arithmetic(find_functions(problem_.declaration.functions))},
          inner_(nodes_),
          half_ulp_(limits.format),
          outputs_(problem_.is_one_per_row() ? 1 : static_cast<std::size_t>(problem_.columns)) {}
    RowLimits(const RowLimits&) = delete;
    RowLimits& operator=(const RowLimits&) = delete;

    /// Returns the number of intermediate roundings for which limits are kept.
    std::size_t inner() const { return problem_.is_reduced() ? 0 : inner_.count(); }
    std::size_t outputs_of_row() const { return outputs_; }
    void interpret_row(std::int64_t row, Frame& frame) const {
        interpret(nodes_, row_of(problem_, row, defect_.dropped, frame, problem_.inputs), accuracies_, frame);
    }
    /// Sets the limits of a row. Returns the index of the row's first output that cannot be judged, or -1.
    std::int64_t set(std::int64_t row, Frame& frame, Panel& panel) const {
        const Row read = row_of(problem_, row, defect_.dropped, frame, problem_.inputs);
        interpret(nodes_, read, accuracies_, frame);
        const std::size_t first = static_cast<std::size_t>(row) * outputs_ - static_cast<std::size_t>(panel.first);
        if (inner() > 0) inner_.set(panel, first, outputs_, read, frame.values, frame.rounded);
        std::int64_t declined = -1;
        for (std::size_t j = 0; j < outputs_; ++j) {
            if (!set_limits(meta_, panel, half_ulp_, first + j, frame, j, lambda_) && declined < 0)
                declined = panel.first + static_cast<std::int64_t>(first + j);
        }
        return declined;
    }
    /// Sets the limits of the one result that is computed from the results of all rows. Returns false if it cannot be
    /// judged.
    bool set_across(const std::vector<ProductSum>& results, Panel& panel) const {
        Frame frame;
        const Listing across = across_of(problem_, problem_.inputs, defect_);
        interpret(across.nodes.list(), across_row(problem_, problem_.inputs, results), accuracies_, frame);
        return set_limits(meta_, panel, half_ulp_, 0, frame, 0, lambda_);
    }
    void fill(Panel& panel) const {
        Frame frame;
        const auto width = static_cast<std::int64_t>(outputs_);
        for (std::int64_t row = panel.first / width; row < panel.last / width; ++row) set(row, frame, panel);
    }

  private:
    std::shared_ptr<const Problem> owned_;
    const Problem& problem_;
    const Limits meta_;  ///< format, shape and rounding of the outputs; its columns are empty
    double lambda_;
    Defect defect_;
    std::vector<Node> nodes_;
    Accuracies accuracies_;
    InnerRoundings inner_;
    HalfUlp half_ulp_;
    std::size_t outputs_;
};

/// The smallest nonnegative index that any thread has reported; -1 if there is none.
class FirstPlace {
  public:
    void observe(std::int64_t place) {
        std::int64_t first = first_;
        while (place >= 0 && place < first && !first_.compare_exchange_weak(first, place)) {
        }
    }
    std::int64_t get() const { return first_ == INT64_MAX ? -1 : first_.load(); }

  private:
    std::atomic<std::int64_t> first_{INT64_MAX};
};

/// Maximum number of elements of a panel. A thread computes them in a few milliseconds.
constexpr std::int64_t panel_elements = 1 << 15;
/// Maximum total size, in bytes, of the panels that are kept. Wrong kernels are tried on parts of the outputs
/// (growing_parts). This maximum is several times the size of a part.
constexpr std::int64_t max_kept_bytes = 1 << 28;

void read_in_panels(Limits& limits, const Problem& problem, std::shared_ptr<const RowLimits> of, ThreadPool& pool) {
    const std::size_t inner = of->inner();
    const auto few =
        static_cast<std::int64_t>(static_cast<double>(problem.max_limit_bytes) / (8 * Panel::bytes_each(inner)));
    const std::int64_t elements = std::min(panel_elements, few),
                       rows = std::max<std::int64_t>(1, elements / std::max<std::int64_t>(problem.columns, 1)),
                       outputs = rows * static_cast<std::int64_t>(of->outputs_of_row());
    FirstPlace declined;
    const auto panels =
        std::make_shared<Panels>(limits.size(), outputs, inner, std::min(problem.max_limit_bytes, max_kept_bytes),
                                 [of](Panel& panel) { of->fill(panel); });
    pool.run(panels->count(), [&](std::int64_t number) {
        Panel panel{.first = number * outputs, .last = std::min(limits.size(), (number + 1) * outputs)};
        panel.resize(inner);
        Frame frame;
        for (std::int64_t row = number * rows; row < std::min(problem.rows, (number + 1) * rows); ++row)
            declined.observe(of->set(row, frame, panel));
    });
    limits.declined = declined.get();
    limits.read_from(panels, inner);
}

}  // namespace

void Limits::hold(Panel all) {
    exact = std::move(all.exact);
    low = std::move(all.low);
    before = std::move(all.before);
    certain = std::move(all.certain);
    probable = std::move(all.probable);
    deviation = std::move(all.deviation);
    overflow = std::move(all.overflow);
    rounded_inside = std::move(all.rounded_inside);
    inner_kinds.clear();
    for (auto& kinds : all.inner_kinds) inner_kinds.emplace_back(std::move(kinds));
}

void Limits::read_from(const std::shared_ptr<Panels>& from, std::size_t inner) {
    using Numbers64 = const std::vector<double>&;
    panels = from;
    exact = {from, [](const Panel& p, std::size_t) -> Numbers64 { return p.exact; }};
    low = {from, [](const Panel& p, std::size_t) -> Numbers64 { return p.low; }};
    before = {from, [](const Panel& p, std::size_t) -> Numbers64 { return p.before; }};
    certain = {from, [](const Panel& p, std::size_t) -> Numbers64 { return p.certain; }};
    probable = {from, [](const Panel& p, std::size_t) -> Numbers64 { return p.probable; }};
    deviation = {from, [](const Panel& p, std::size_t) -> Numbers64 { return p.deviation; }};
    overflow = {from, [](const Panel& p, std::size_t) -> const std::vector<Overflowing>& { return p.overflow; }};
    if (inner > 0) rounded_inside = {from, [](const Panel& p, std::size_t) -> Numbers64 { return p.rounded_inside; }};
    for (std::size_t s = 0; s < inner; ++s) {
        inner_kinds.emplace_back(
            from, [](const Panel& p, std::size_t n) -> const std::vector<std::uint32_t>& { return p.inner_kinds[n]; },
            s);
    }
}

void Limits::replace(std::size_t i, double high, double low_part) {
    if (panels) return panels->replace(i, high, low_part);
    exact.held()[i] = high;
    low.held()[i] = low_part;
}

void Limits::drop() {
    for (auto* each : {&exact, &low, &before, &certain, &probable, &deviation, &rounded_inside}) each->clear();
    overflow.clear();
    inner_kinds.clear();
    panels = nullptr;
}

std::uint32_t rounding_kind(const HalfUlp& half_ulp, double x) {
    const double codes = std::fabs(x) / (2 * half_ulp(x)), part = codes - std::floor(codes);
    return std::isfinite(part) ? static_cast<std::uint32_t>(std::nearbyint(part * 0x1p30)) : 0;
}

Limits limits_of(const Problem& problem, double delta, ThreadPool& pool, const Defect& defect) {
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
    const double lambda = std::sqrt(2 * math::log(2 * static_cast<double>(size) / delta));
    const std::shared_ptr<const Problem> here(std::shared_ptr<const Problem>{}, &problem);
    const auto of = std::make_shared<const RowLimits>(here, limits, lambda, defect);
    const double bytes = static_cast<double>(size) * Panel::bytes_each(of->inner());
    if (!problem.is_reduced() && bytes > static_cast<double>(problem.max_limit_bytes)) {
        // The panels own a copy of the problem, because they may be read after `problem` has been destroyed.
        const auto owned = std::make_shared<const Problem>(problem);
        read_in_panels(limits, problem, std::make_shared<const RowLimits>(owned, limits, lambda, defect), pool);
        return limits;
    }
    Panel all{.last = limits.size()};
    // The first access to new memory takes as long as the interpreters, so several threads share the allocation.
    const std::array columns{&all.exact, &all.low, &all.before, &all.certain, &all.probable, &all.deviation};
    pool.run(static_cast<std::int64_t>(columns.size()),
             [&](std::int64_t task) { columns[static_cast<std::size_t>(task)]->resize(size); });
    all.resize(of->inner());
    std::vector<ProductSum> results(problem.is_reduced() ? static_cast<std::size_t>(problem.rows) : 0);
    FirstPlace declined;
    for_rows(problem, 0, problem.rows, pool, [&](std::int64_t row, Frame& frame) {
        if (!problem.is_reduced()) return declined.observe(of->set(row, frame, all));
        of->interpret_row(row, frame);
        set_result(results[static_cast<std::size_t>(row)], frame);
    });
    if (problem.is_reduced() && !of->set_across(results, all)) declined.observe(0);
    limits.declined = declined.get();
    limits.hold(std::move(all));
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

double overflow_threshold(const Limits& limits, bool negative) {
    const Format& format = limits.format;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (limits.rounding == Round::stochastic || rounds_inward(limits.rounding, negative)) return infinity;
    const double most = decode64(format, format.max_finite_code() << format.padding);
    const bool is_to_nearest = limits.rounding == Round::nearest_even || limits.rounding == Round::nearest_away;
    return is_to_nearest ? most + half_ulp(format, most) : std::nextafter(most, infinity);
}

std::vector<std::string> assumptions_of(const Problem& problem) {
    const Declaration& d = problem.declaration;
    if (d.operation->is_bitwise) return {"no arithmetic except the scaling and the final rounding"};
    const SumOrder order = parse_sum_order(d.sum_order);
    std::vector<std::string> all{"intermediate arithmetic is fp32"};
    if (d.operation->has_reduction && !d.operation->is_product)
        all.push_back(fmt::format("sums in {} order", sum_order_text(order)));
    if (d.scale_order != "any")
        all.push_back(fmt::format("scales applied in the order {} (the limits allow every order)", d.scale_order));
    if (d.operands == "any")
        all.push_back(fmt::format("operands {} (the conversion that fits these outputs best)",
                                  d.conversion == "stored" ? "used as stored" : "converted to " + d.conversion));
    if (const std::vector<std::string_view> forms = legal_forms(d); forms.size() > 1)
        all.push_back(fmt::format("form {}, which cannot be distinguished from {}", forms.front(),
                                  fmt::join(forms.begin() + 1, forms.end(), ", ")));
    if (d.inner) all.push_back(fmt::format("intermediate results rounded to {}", format_name(*d.inner)));
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
