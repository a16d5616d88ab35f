// SPDX-License-Identifier: Apache-2.0
// The figures of a sweep for a paper.
#include "core/text/shown.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/paper/interval_figure.hpp"
#include "reports/paper/methods.hpp"
#include "reports/paper/paper_figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>

namespace macheps::reports {

namespace {

constexpr std::size_t max_combinations = 12;

/// Returns the policies in the order of the rows, which gives their colours.
std::vector<std::string> policies_in(const SweepSummary& sweep) {
    std::vector<std::string> names;
    for (const SweepRow& row : sweep.rows) {
        if (std::find(names.begin(), names.end(), row.policy.row.policy) == names.end())
            names.push_back(row.policy.row.policy);
    }
    return names;
}

/// The rows with the same values on all axes except one.
struct Combination {
    std::vector<std::string> others{};
    std::vector<const SweepRow*> rows{};
};

std::vector<std::string> others_of(const SweepRow& row, std::size_t axis) {
    std::vector<std::string> others = row.values;
    others.erase(others.begin() + std::ptrdiff_t(axis));
    return others;
}

/// Returns the combinations of the other axes. Returns nothing if the axis has no two numbers, or a value that is not a
/// number.
std::vector<Combination> combinations_of(const SweepSummary& sweep, std::size_t axis) {
    std::vector<Combination> all;
    std::set<double> numbers;
    for (const SweepRow& row : sweep.rows) {
        const std::optional<double> number = axis_number(row.values[axis]);
        if (!number) return {};
        numbers.insert(*number);
        const std::vector<std::string> others = others_of(row, axis);
        const auto found =
            std::find_if(all.begin(), all.end(), [&](const Combination& one) { return one.others == others; });
        (found == all.end() ? all.emplace_back(Combination{.others = others}) : *found).rows.push_back(&row);
    }
    return numbers.size() < 2 ? std::vector<Combination>{} : all;
}

/// Returns the fixed values of the other axes in words, or an empty text: " Other settings: model size tiny."
std::string fixed_words(const SweepSummary& sweep, std::size_t axis, const Combination& combination) {
    std::vector<std::string> words;
    for (std::size_t i = 0, other = 0; i < sweep.axes.size(); ++i) {
        if (i != axis) words.push_back(axis_words(sweep.axes[i]) + " " + combination.others[other++]);
    }
    return words.empty() ? "" : fmt::format(" Other settings: {}.", fmt::join(words, ", "));
}

/// Returns the 95 % interval of the mean of `values`, or 0 for a single value.
double half_width(const std::vector<double>& values) { return paired_mean(values).half_width_95.value_or(0); }

/// A quantity that is drawn over an axis. `half` is half of its 95 % interval.
struct DrawnQuantity {
    const char *name, *y_name, *words;
    bool is_of_fp32;
    double (*value)(const PolicySummary& policy);
    double (*half)(const PolicySummary& policy);
};
const DrawnQuantity drawn_quantities[] = {
    {"loss", "loss (nats per token)", "Loss at the end of training", true,
     [](const PolicySummary& policy) { return policy.row.loss; },
     [](const PolicySummary& policy) {
         std::vector<double> losses;
         for (const auto& [seed, loss] : policy.seed_losses) losses.push_back(loss);
         return half_width(losses);
     }},
    {"gap", "loss - fp32 loss (nats per token)",
     "Loss minus the loss of the fp32 runs with the same settings and seeds, at the end of training", false,
     [](const PolicySummary& policy) { return policy.row.gap_mean.value_or(NAN); },
     [](const PolicySummary& policy) { return half_width(policy.seed_gaps); }}};

/// Returns whether a quantity of a row belongs in the figure.
bool is_drawn(const DrawnQuantity& quantity, const SweepRow& row) {
    return quantity.is_of_fp32 || row.policy.row.policy != baseline_policy;
}

/// Returns the curve of a policy, and the interval of each point as a vertical line. Points with failed
/// runs are crosses.
std::vector<PlotCurve> curves_of(const DrawnQuantity& quantity, const Combination& combination, std::size_t axis,
                                 const std::string& policy, std::size_t place) {
    const bool is_baseline = policy == baseline_policy;
    PlotCurve curve{.name = printable(policy), .colour = is_baseline ? plot_grey : place};
    std::vector<PlotCurve> curves;
    for (const SweepRow* row : combination.rows) {
        if (row->policy.row.policy != policy) continue;
        const double y = quantity.value(row->policy), half = quantity.half(row->policy);
        const double x = *axis_number(row->values[axis]);
        if (has_failed_runs(row->policy.row)) curve.crosses.push_back(x);
        if (has_failed_runs(row->policy.row) || !std::isfinite(y)) continue;
        curve.points.emplace_back(x, y);
        if (half > 0)
            curves.push_back({.points = {{x, y - half}, {x, y + half}}, .colour = curve.colour, .mark = Mark::none});
    }
    std::sort(curve.points.begin(), curve.points.end());
    curves.insert(curves.begin(), std::move(curve));
    return curves;
}

Plot plot_of(const SweepSummary& sweep, const DrawnQuantity& quantity, std::size_t axis,
             const Combination& combination) {
    const std::string name = axis_words(sweep.axes[axis]);
    Plot plot{.id = fmt::format("{}-{}", quantity.name, sweep.axes[axis]),
              .x_name = name,
              .y_name = quantity.y_name,
              .has_log_y = false,
              .has_zero = false};
    std::set<double> numbers;
    for (const SweepRow* row : combination.rows) numbers.insert(*axis_number(row->values[axis]));
    plot.has_log_x = *numbers.begin() > 0 && *numbers.rbegin() >= 3 * *numbers.begin();
    for (const double number : numbers) plot.x_ticks.push_back({number, fmt::format("{:g}", number)});
    const std::vector<std::string> policies = policies_in(sweep);
    for (std::size_t i = 0; i < policies.size(); ++i) {
        if (policies[i] == baseline_policy && !quantity.is_of_fp32) continue;
        for (PlotCurve& curve : curves_of(quantity, combination, axis, policies[i], i))
            plot.curves.push_back(std::move(curve));
    }
    std::size_t drawn = 0, failed = 0;
    for (const SweepRow* row : combination.rows) {
        if (!is_drawn(quantity, *row)) continue;
        ++drawn;
        const bool has_failed = has_failed_runs(row->policy.row);
        failed += has_failed ? 1 : 0;
        if (!quantity.is_of_fp32 && !has_failed)
            plot.linear_y = std::max(plot.linear_y, row->policy.row.margin.value_or(0));
    }
    plot.caption = fmt::format("{}, over the {}: mean over the seeds and 95 % t interval.{}", quantity.words, name,
                               fixed_words(sweep, axis, combination));
    if (plot.linear_y > 0)
        plot.caption += fmt::format(" The vertical axis is linear up to about {} and logarithmic beyond.",
                                    two_digits(plot.linear_y));
    if (failed > 0) {
        plot.caption += fmt::format(
            " A cross at the top edge marks a point at which a run diverged; its value is not shown ({} of {} points).",
            failed, drawn);
    }
    return plot;
}

/// Returns the figure of the gaps of all policies at their best values. If there are other axes, each combination of
/// their values has rows of its own.
PaperFigure best_figure(const SweepSummary& sweep) {
    const BestValues best = best_values(sweep);
    const std::vector<std::string> policies = policies_in(sweep);
    constexpr std::size_t max_rows = 24;
    std::vector<IntervalRow> rows;
    for (const BestValue& value : best.rows) {
        if (value.policy == baseline_policy || value.seed_gaps.empty() || rows.size() == max_rows) continue;
        IntervalRow row = interval_row(value.seed_gaps, value.fp32_loss);
        row.text = printable(fmt::format("{}, {} {} (fp32: {}){}{}: {}", value.policy, sweep.axes[*best.axis],
                                         value.value, value.fp32_value, value.others.empty() ? "" : ", ",
                                         fmt::join(value.others, ", "), best_gap_words(value)));
        row.colour = std::size_t(std::find(policies.begin(), policies.end(), value.policy) - policies.begin());
        rows.push_back(std::move(row));
    }
    if (rows.empty()) return {};
    return {.name = "best",
            .svg = interval_svg(rows, sweep.margin),
            .caption = fmt::format(
                "Gap of each policy at its best {0} to fp32 at the best {0} of fp32, as a share of the "
                "fp32 loss and in nats per token. {1} The intervals do not include the choice of the best values.",
                axis_words(sweep.axes[*best.axis]), interval_caption(sweep.margin))};
}

}  // namespace

std::vector<PaperFigure> paper_figures(const SweepSummary& sweep) {
    std::vector<PaperFigure> figures;
    for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) {
        const std::vector<Combination> combinations = combinations_of(sweep, axis);
        for (const DrawnQuantity& quantity : drawn_quantities) {
            for (std::size_t i = 0; i < std::min(combinations.size(), max_combinations); ++i) {
                Plot plot = plot_of(sweep, quantity, axis, combinations[i]);
                if (combinations.size() > 1) plot.id += fmt::format("-{}", i + 1);
                append_plot(figures, plot);
            }
        }
    }
    if (PaperFigure best = best_figure(sweep); !best.svg.empty()) figures.push_back(std::move(best));
    return figures;
}

}  // namespace macheps::reports
