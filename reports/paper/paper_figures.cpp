// SPDX-License-Identifier: Apache-2.0
#include "reports/paper/paper_figures.hpp"

#include "core/text/shown.hpp"
#include "reports/findings/student.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/sweep_summary.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/pages/measured_page.hpp"
#include "reports/pages/plot.hpp"
#include "reports/paper/latex_text.hpp"
#include "reports/rows/html_text.hpp"

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

/// The intervals of the gaps of all policies, one below the other. The axis is linear within the margin and logarithmic
/// far outside, so that one large gap does not hide the others.
class PoliciesDrawing {
  public:
    explicit PoliciesDrawing(const Summary& summary) : margin_(summary.margin) {
        for (const PolicySummary& policy : summary.policies) {
            if (policy.row.policy == baseline_policy || policy.row.verdict == verdicts::no_baseline) continue;
            rows_.push_back({.policy = &policy, .place = std::size_t(&policy - summary.policies.data())});
            Row& row = rows_.back();
            const double gap = policy.relative_gap.value_or(NAN), loss = baseline_loss_of(policy);
            if (!std::isfinite(gap)) continue;
            const PairedMean mean = paired_mean(policy.seed_gaps);
            row.gap = gap, row.half_95 = mean.half_width_95.value_or(0) / loss;
            row.half_90 = mean.half_width_90.value_or(0) / loss;
            reach_ = std::max({reach_, std::abs(gap - row.half_95), std::abs(gap + row.half_95)});
        }
        // A long name widens the figure.
        for (const Row& row : rows_) width_ = std::max(width_, label_width(text_of(row)) + 2 * side);
        reach_ = std::asinh(std::max(reach_, 1.6 * margin_) / margin_) * 1.05;
    }

    std::string svg() const {
        if (rows_.empty()) return {};
        const double bottom = top + row_height * double(rows_.size());
        std::string out =
            fmt::format("<rect class=\"band\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
                        at(-margin_), top, at(margin_) - at(-margin_), bottom - top);
        out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", side, bottom, width_ - side);
        for (std::size_t i = 0; i < rows_.size(); ++i) out += row_svg(rows_[i], top + row_height * double(i));
        double free_from = 0;
        for (const double share : ticks()) {
            const std::string text = fmt::format("{}{:g}", share > 0 ? "+" : "", 100 * share);
            const double half = label_width(text) / 2;
            if (at(share) - half < free_from || at(share) + half > width_) continue;
            free_from = at(share) + half + 6;
            out += fmt::format(
                "<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/><text x=\"{0:.1f}\" y=\"{3:.1f}\" "
                "text-anchor=\"middle\">{4}</text>\n",
                at(share), bottom, bottom + 4, bottom + 16, text);
        }
        out += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">loss - fp32 loss (% of the fp32 loss)</text>\n",
            width_ / 2, bottom + 33);
        return svg_file(width_, bottom + 40, out);
    }

  private:
    struct Row {
        const PolicySummary* policy;
        std::size_t place;  ///< in the summary; gives the colour, which is the same in every figure
        double gap = NAN, half_95 = 0, half_90 = 0;
    };
    static constexpr double top = 6, row_height = 34, side = 12;

    static std::string text_of(const Row& row) {
        const SummaryRow& r = row.policy->row;
        return fmt::format("{}: {}, {}", printable(r.policy), gap_words(r), r.verdict);
    }

    double at(double share) const { return width_ / 2 + std::asinh(share / margin_) / reach_ * (width_ / 2 - side); }
    std::vector<double> ticks() const {
        std::vector<double> ticks{0, margin_, -margin_};
        for (const double share : {0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0}) {
            if (share > 2.5 * margin_ && std::asinh(share / margin_) <= reach_)
                ticks.push_back(share), ticks.push_back(-share);
        }
        std::sort(ticks.begin(), ticks.end());
        return ticks;
    }
    std::string row_svg(const Row& row, double y) const {
        std::string out =
            fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", side, y + 13, escape_html(text_of(row)));
        const double middle = y + 23;
        out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>", at(0), middle - 6, middle + 6);
        if (!std::isfinite(row.gap)) return out;
        const auto line = [&](double half, double width) {
            return fmt::format("<path class=\"line\" style=\"stroke-width: {}\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", width,
                               at(row.gap - half), middle, at(row.gap + half));
        };
        return out + fmt::format("<g class=\"c{}\">{}{}<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.4\"/></g>\n",
                                 row.place % 8, line(row.half_95, 1.2), line(row.half_90, 3), at(row.gap), middle);
    }

    double margin_, reach_ = 0, width_ = paper_width;
    std::vector<Row> rows_{};
};

void append(std::vector<PaperFigure>& figures, const Plot& plot) {
    std::string svg = plot_svg_file(plot);
    if (svg.empty()) return;
    const std::string title = plot.title.empty() ? "" : plot.title + " ";
    figures.push_back({.name = plot.id, .svg = std::move(svg), .caption = title + plot.caption});
}

}  // namespace

std::vector<PaperFigure> paper_figures(const Log& log, const Summary& summary) {
    std::vector<PaperFigure> figures;
    if (!log.runs.empty()) {
        append(figures, loss_plot(log, summary));
        append(figures, gap_plot(log, summary));
        if (std::string svg = PoliciesDrawing(summary).svg(); !svg.empty()) {
            figures.push_back({.name = "policies",
                               .svg = std::move(svg),
                               .caption = fmt::format(
                                   "Gap to fp32 of each policy as a share of the fp32 loss, averaged over the last "
                                   "{}, and in nats per token. Thin: 95 % t interval over the seeds; thick: 90 %. "
                                   "Shaded: {:g} % of the fp32 loss. The axis is linear in the shaded part and "
                                   "logarithmic outside.",
                                   window_words(summary), 100 * summary.margin)});
        }
    }
    for (const Plots& plots :
         {gemm_plots(log.gemm), sum_plots(log.sums), step_plots(log.system_steps), formula_plots(log.formula_points)}) {
        for (const Plot& plot : plots.shown) append(figures, plot);
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
