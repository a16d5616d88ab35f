// SPDX-License-Identifier: Apache-2.0
#include "reports/paper/paper_figures.hpp"

#include "core/text/shown.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/sweep_summary.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/pages/measured_page.hpp"
#include "reports/pages/plot.hpp"
#include "reports/paper/interval_figure.hpp"
#include "reports/paper/latex_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

namespace macheps::reports {

namespace {

constexpr std::size_t points_per_mark = 8;

/// Returns the number of seeds of the policies in words: "mean of 3 seeds".
std::string seeds_words(const Summary& summary) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (const PolicySummary& policy : summary.policies)
        least = std::min(least, policy.row.seeds), most = std::max(most, policy.row.seeds);
    if (most == 1) return "one seed";
    return least == most ? fmt::format("mean of {} seeds", most) : fmt::format("mean of {} to {} seeds", least, most);
}

/// Returns a curve for a policy, with the colour of its place in the summary. The baseline is grey.
PlotCurve curve_of(const PolicySummary& policy, std::size_t place) {
    return {.name = printable(policy.row.policy),
            .colour = policy.row.policy == baseline_policy ? plot_grey : place,
            .mark = policy.row.policy == baseline_policy ? Mark::none : Mark::own,
            .mark_every = points_per_mark};
}

std::vector<std::pair<double, double>> means_of(const GapCurve& curve) {
    std::vector<std::pair<double, double>> points;
    for (const GapCurve::Point& point : curve.points()) points.emplace_back(point.step, point.mean);
    return points;
}

std::int64_t max_steps(const Log& log) {
    std::int64_t steps = 0;
    for (const RunLog& run : log.runs) steps = std::max(steps, run.row.steps);
    return steps;
}

Plot loss_plot(const Log& log, const Summary& summary) {
    Plot plot{
        .id = "loss",
        .caption = fmt::format(
            "Training loss, {}{}.", seeds_words(summary),
            max_steps(log) > std::int64_t{GapCurve::max_points} ? "; each point is the mean of several steps" : ""),
        .x_name = "step",
        .y_name = "loss (nats per token)",
        .has_log_y = false,
        .has_zero = false};
    for (std::size_t i = 0; i < summary.policies.size(); ++i) {
        GapCurve curve;
        for (const RunLog& run : log.runs) {
            if (run.policy != summary.policies[i].row.policy) continue;
            std::vector<StepRow> zero = run.steps;  // the loss is the gap to a loss of zero
            for (StepRow& step : zero) step.loss = 0;
            curve.add(run.steps, zero, run.row.steps);
        }
        plot.curves.push_back(curve_of(summary.policies[i], i));
        plot.curves.back().points = means_of(curve);
    }
    return plot;
}

/// Returns the range of y that shows the margin and all curves that did not diverge, without the first tenth of the
/// steps.
std::array<double, 2> gap_range(const std::vector<const PlotCurve*>& calm, double last_step, double margin) {
    double low = -margin, high = margin;
    for (const PlotCurve* curve : calm) {
        for (const auto& [step, gap] : curve->points) {
            if (step >= 0.1 * last_step) low = std::min(low, gap), high = std::max(high, gap);
        }
    }
    const double room = 0.1 * (high - low);
    return {low - room, high + room};
}

Plot gap_plot(const Log& log, const Summary& summary) {
    Plot plot{.id = "gap", .x_name = "step", .y_name = "loss - fp32 loss (nats per token)", .has_log_y = false};
    double last_step = 0, loss = 0;
    std::vector<std::size_t> calm;
    for (std::size_t i = 0; i < summary.policies.size(); ++i) {
        const PolicySummary& policy = summary.policies[i];
        if (policy.row.policy == baseline_policy) loss = policy.row.loss;
        if (policy.row.policy == baseline_policy || !policy.row.gap_mean) continue;
        GapCurve curve;
        for (const RunLog& run : log.runs) {
            if (run.policy != policy.row.policy || !run.baseline) continue;
            curve.add(run.steps, log.runs[*run.baseline].steps, run.row.steps);
        }
        if (policy.row.verdict != verdicts::diverged) calm.push_back(plot.curves.size());
        plot.curves.push_back(curve_of(policy, i));
        plot.curves.back().points = means_of(curve);
        for (const auto& point : plot.curves.back().points) last_step = std::max(last_step, point.first);
    }
    const double margin = summary.margin * loss;
    std::vector<const PlotCurve*> shown;
    for (std::size_t i = 0; i < plot.curves.size(); ++i) {
        if (calm.empty() || std::find(calm.begin(), calm.end(), i) != calm.end()) shown.push_back(&plot.curves[i]);
    }
    plot.y_range = gap_range(shown, last_step, margin);
    plot.caption = fmt::format(
        "Loss minus the loss of the fp32 run with the same seed, {}; each point is the mean of "
        "several steps. Points outside the axis are not shown.",
        seeds_words(summary));
    if (margin > 0 && !plot.curves.empty()) {
        plot.caption += fmt::format(" Dotted: {:g} % of the fp32 loss.", 100 * summary.margin);
        for (const double edge : {margin, -margin}) {
            plot.curves.push_back({.points = {{0, edge}, {last_step, edge}},
                                   .colour = plot_grey,
                                   .stroke = Stroke::dotted,
                                   .mark = Mark::none});
        }
    }
    return plot;
}

/// Returns the rows of the figure of intervals: the gap of each policy.
std::vector<IntervalRow> interval_rows(const Summary& summary) {
    std::vector<IntervalRow> rows;
    for (const PolicySummary& policy : summary.policies) {
        const SummaryRow& r = policy.row;
        if (r.policy == baseline_policy || r.verdict == verdicts::no_baseline) continue;
        rows.push_back(interval_row(policy.seed_gaps, baseline_loss_of(policy)));
        rows.back().text = fmt::format("{}: {}, {}", printable(r.policy), gap_words(r), r.verdict);
        rows.back().colour = std::size_t(&policy - summary.policies.data());
    }
    return rows;
}

}  // namespace

void append_plot(std::vector<PaperFigure>& figures, const Plot& plot) {
    std::string svg = plot_svg_file(plot);
    if (svg.empty()) return;
    const std::string title = plot.title.empty() ? "" : plot.title + " ";
    figures.push_back({.name = plot.id, .svg = std::move(svg), .caption = title + plot.caption});
}

std::vector<PaperFigure> paper_figures(const Log& log, const Summary& summary) {
    std::vector<PaperFigure> figures;
    if (!log.runs.empty()) {
        append_plot(figures, loss_plot(log, summary));
        append_plot(figures, gap_plot(log, summary));
        if (std::string svg = interval_svg(interval_rows(summary), summary.margin); !svg.empty()) {
            figures.push_back({.name = "policies",
                               .svg = std::move(svg),
                               .caption = fmt::format(
                                   "Gap to fp32 of each policy as a share of the fp32 loss, averaged over the last "
                                   "{}, and in nats per token. {}",
                                   window_words(summary), interval_caption(summary.margin))});
        }
    }
    for (const Plots& plots :
         {gemm_plots(log.gemm), sum_plots(log.sums), step_plots(log.system_steps), formula_plots(log.formula_points)}) {
        for (const Plot& plot : plots.shown) append_plot(figures, plot);
    }
    return figures;
}

std::string captions_tex(std::span<const PaperFigure> figures) {
    std::string out =
        "% Written by `macheps report --charts FOLDER --paper`. Needs \\usepackage{graphicx,textcomp}, and\n"
        "% \\graphicspath{{FOLDER/}} with the folder of this file.\n";
    for (const PaperFigure& figure : figures) {
        out += fmt::format(
            "\\begin{{figure}}\n  \\centering\n  \\includegraphics{{{0}}}\n  \\caption{{{1}}}\n"
            "  \\label{{fig:macheps-{0}}}\n\\end{{figure}}\n",
            figure.name, latex_text(figure.caption));
    }
    return out;
}

}  // namespace macheps::reports
