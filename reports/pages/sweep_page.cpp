// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/sweep_page.hpp"

#include "reports/findings/verdict.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/pages/html.hpp"
#include "reports/pages/line_chart.hpp"
#include "reports/pages/page_assets.hpp"
#include "reports/rows/html_text.hpp"
#include "reports/rows/sha256.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace macheps::reports {

namespace {

constexpr const char* sweep_style =
    "figure { display: inline-block; margin: 0 16px 18px 0; vertical-align: top; max-width: 100%; }\n"
    "figure svg { max-width: 100%; height: auto; } figcaption { font-weight: 600; }\n"
    "figure text { fill: var(--quiet); font-size: 11px; } .grid { stroke: var(--line); }\n"
    ".line { fill: none; stroke-width: 2; } .band { stroke: none; opacity: .15; } .key { font-size: .85rem; max-width: "
    "560px; }\n"
    ".key span { margin-right: 12px; white-space: nowrap; display: inline-block; } td small { color: var(--quiet); "
    "display: block; }\n";

/// Returns the size of a row's relative gap, by which rows are chosen for display. It is infinite for diverged runs.
double size_of_gap(const SweepRow& row) {
    if (row.policy.row.verdict == verdicts::diverged) return std::numeric_limits<double>::infinity();
    const double gap = row.policy.relative_gap.value_or(0);
    return std::isfinite(gap) ? std::abs(gap) : std::numeric_limits<double>::infinity();
}

std::string values_words(const SweepSummary& sweep, const SweepRow& row) {
    std::string words;
    for (std::size_t i = 0; i < row.values.size(); ++i)
        words += fmt::format("{}{}={}", i == 0 ? "" : " ", sweep.axes[i], row.values[i]);
    return words;
}

std::vector<std::string> policies_of(const SweepSummary& sweep) {
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const SweepRow& row : sweep.rows) {
        if (seen.insert(row.policy.row.policy).second) names.push_back(row.policy.row.policy);
    }
    std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == baseline_policy; });
    return names;
}

std::string cell_html(const SweepRow& row) {
    const SummaryRow& r = row.policy.row;
    if (r.verdict == verdicts::baseline)
        return fmt::format("<td class=\"n\">{:.4f}<small>loss, {} seeds</small></td>", r.loss, r.seeds);
    return fmt::format("<td class=\"n\">{}<small class=\"verdict {}\">{}</small></td>", escape_html(gap_words(r)),
                       tone_of(r.verdict), escape_html(r.verdict));
}

/// The table of gaps. Settings are lines and policies are columns. With few settings and many policies, settings are
/// columns and policies are lines.
class StudyTable {
  public:
    StudyTable(const SweepSummary& sweep, const SweepPageLimits& limits)
        : sweep_(sweep), policies_(policies_of(sweep)) {
        std::map<std::size_t, double> sizes;
        for (const SweepRow& row : sweep.rows) {
            settings_[row.setting].push_back(&row);
            sizes[row.setting] = std::max(sizes[row.setting], size_of_gap(row));
        }
        for (const auto& [setting, rows] : settings_) shown_.push_back(setting);
        all_policies_ = policies_.size();
        policies_.resize(std::min(policies_.size(), limits.max_policies));
        const std::size_t columns = policies_.size() + sweep.axes.size();
        const std::size_t most = std::min(limits.max_settings, std::max<std::size_t>(1, limits.max_cells / columns));
        if (shown_.size() <= most) return;
        std::stable_sort(shown_.begin(), shown_.end(),
                         [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
        shown_.resize(most);
        std::sort(shown_.begin(), shown_.end());
    }

    std::string html() {
        const bool is_tall = shown_.size() <= most_side_by_side && policies_.size() > shown_.size();
        std::string out = "<div class=\"table\"><table" + std::string(is_tall ? " class=\"narrow\"" : "") +
                          "><thead><tr>" + (is_tall ? tall() : wide()) + "</tbody></table></div>\n";
        if (shown_.size() < settings_.size()) {
            out += fmt::format(
                "<p class=\"how\">Only the {} of {} settings with the largest gaps are shown; summary.csv contains all "
                "of them.</p>\n",
                shown_.size(), settings_.size());
        }
        if (policies_.size() < all_policies_) {
            out += fmt::format(
                "<p class=\"how\">Only the first {} of {} policies are shown; summary.csv contains all of them.</p>\n",
                policies_.size(), all_policies_);
        }
        return out;
    }

  private:
    static constexpr std::size_t most_side_by_side = 6;

    std::string wide() {
        std::string out;
        for (const std::string& axis : sweep_.axes) out += "<th>" + escape_html(axis) + "</th>";
        for (const std::string& policy : policies_) out += "<th class=\"n\">" + escape_html(policy) + "</th>";
        out += "</tr></thead>\n<tbody>\n";
        for (const std::size_t setting : shown_) {
            out += "<tr>";
            for (const std::string& value : settings_[setting].front()->values)
                out += "<th scope=\"row\">" + escape_html(value) + "</th>";
            for (const std::string& policy : policies_) out += cell(setting, policy);
            out += "</tr>\n";
        }
        return out;
    }
    std::string tall() {
        std::string out = "<th>policy</th>";
        for (const std::size_t setting : shown_) {
            const std::string words = values_words(sweep_, *settings_[setting].front());
            out += "<th class=\"n\">" + (words.empty() ? "gap" : escape_html(words)) + "</th>";
        }
        out += "</tr></thead>\n<tbody>\n";
        for (const std::string& policy : policies_) {
            out += "<tr><th scope=\"row\">" + escape_html(policy) + "</th>";
            for (const std::size_t setting : shown_) out += cell(setting, policy);
            out += "</tr>\n";
        }
        return out;
    }
    std::string cell(std::size_t setting, const std::string& policy) {
        for (const SweepRow* row : settings_[setting]) {
            if (row->policy.row.policy == policy) return cell_html(*row);
        }
        return "<td class=\"n\">–</td>";
    }

    const SweepSummary& sweep_;
    std::map<std::size_t, std::vector<const SweepRow*>> settings_{};
    std::vector<std::size_t> shown_{};
    std::vector<std::string> policies_{};
    std::size_t all_policies_ = 0;
};

/// Returns the policies with the largest gaps, in the order of the table.
std::vector<std::string> charted_policies(const SweepSummary& sweep, const SweepPageLimits& limits) {
    std::map<std::string, double> sizes;
    for (const SweepRow& row : sweep.rows) {
        double& size = sizes[row.policy.row.policy];
        if (row.policy.row.verdict != verdicts::baseline) size = std::max(size, size_of_gap(row));
    }
    std::vector<std::string> names = policies_of(sweep), largest = names;
    std::stable_sort(largest.begin(), largest.end(),
                     [&](const std::string& a, const std::string& b) { return sizes[a] > sizes[b]; });
    largest.resize(std::min(largest.size(), limits.max_lines));
    std::erase_if(names, [&](const std::string& name) {
        return std::find(largest.begin(), largest.end(), name) == largest.end();
    });
    return names;
}

/// Groups neighbouring values of an axis if it has more than `most` values. Maps each value to the middle value of its
/// group.
std::map<double, double> grouped(const std::set<double>& values, std::size_t most) {
    const std::vector<double> sorted(values.begin(), values.end());
    const std::size_t length = (sorted.size() + most - 1) / most;
    std::map<double, double> middles;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        const std::size_t first = i / length * length, last = std::min(first + length, sorted.size()) - 1;
        middles[sorted[i]] = sorted[(first + last) / 2];
    }
    return middles;
}

/// Plots the gap of each policy against one numeric axis, as the mean, minimum and maximum over the other axes.
std::string axis_chart(const SweepSummary& sweep, std::size_t axis, const std::vector<std::string>& policies,
                       const SweepPageLimits& limits) {
    std::set<double> values;
    for (const SweepRow& row : sweep.rows) {
        const std::optional<double> x = axis_number(row.values[axis]);
        if (!x) return {};
        values.insert(*x);
    }
    if (values.size() < 2) return {};
    const std::map<double, double> middles = grouped(values, limits.max_points);
    std::map<std::string, std::map<double, std::vector<double>>> gaps;
    std::map<std::string, std::set<double>> failed;
    for (const SweepRow& row : sweep.rows) {
        const auto gap = row.policy.row.gap_mean;
        if (row.policy.row.verdict == verdicts::baseline) continue;
        const double x = middles.at(*axis_number(row.values[axis]));
        if (has_failed_runs(row.policy.row)) {
            failed[row.policy.row.policy].insert(x);
        } else if (gap && std::isfinite(*gap)) {
            gaps[row.policy.row.policy][x].push_back(*gap);
        }
    }
    LineChart chart{.title = "Gap against " + sweep.axes[axis], .x_name = sweep.axes[axis], .y_name = "gap, nats"};
    chart.has_log_x = *values.begin() > 0 && *values.rbegin() >= 3 * *values.begin();
    for (const std::string& policy : policies) {
        ChartLine line{.name = policy, .crosses = {failed[policy].begin(), failed[policy].end()}};
        for (const auto& [x, list] : gaps[policy]) {
            double sum = 0;
            for (const double gap : list) sum += gap;
            line.points.push_back({x, sum / static_cast<double>(list.size()),
                                   *std::min_element(list.begin(), list.end()),
                                   *std::max_element(list.begin(), list.end())});
        }
        if (!line.points.empty() || !line.crosses.empty()) chart.lines.push_back(std::move(line));
    }
    return chart_svg(chart);
}

std::string axes_html(const SweepSummary& sweep, const SweepPageLimits& limits) {
    const std::vector<std::string> policies = charted_policies(sweep, limits);
    std::string charts;
    for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) charts += axis_chart(sweep, axis, policies, limits);
    if (charts.empty()) return {};
    const std::size_t all = policies_of(sweep).size();
    return fmt::format(
        "<h2>Gap against each axis</h2>\n"
        "<p class=\"how\">Mean over all other axes; the band shows the range from minimum to maximum.{}{}</p>\n"
        "{}",
        has_failed_runs(sweep)
            ? " A cross at the top edge marks a value at which a run of the policy diverged; the gaps of diverged "
              "runs are left out."
            : "",
        policies.size() < all
            ? fmt::format(" Of {} policies, only the {} with the largest gaps are shown.", all, policies.size())
            : std::string{},
        charts);
}

std::string best_html(const SweepSummary& sweep, const BestValues& best) {
    if (best.rows.empty()) return {};
    constexpr std::size_t max_rows = 500;
    const TextTable table = best_table(sweep, best);
    std::string out = fmt::format("<h2>Best {}</h2>\n", escape_html(sweep.axes[*best.axis]));
    for (const std::string& note : best_notes(sweep, best)) out += "<p class=\"how\">" + escape_html(note) + "</p>\n";
    out += "<div class=\"table\"><table class=\"narrow\"><thead><tr>";
    const auto class_of = [&](std::size_t column) {
        return table.columns[column].kind == TextTable::Kind::text ? "" : " class=\"n\"";
    };
    for (std::size_t i = 0; i < table.columns.size(); ++i)
        out += fmt::format("<th{}>{}</th>", class_of(i), escape_html(table.columns[i].heading));
    out += "</tr></thead><tbody>\n";
    for (std::size_t row = 0; row < std::min(table.rows.size(), max_rows); ++row) {
        out += "<tr>";
        for (std::size_t i = 0; i < table.columns.size(); ++i)
            out += fmt::format("<td{}>{}</td>", class_of(i), escape_html(table.rows[row][i]));
        out += "</tr>\n";
    }
    return out + "</tbody></table></div>\n";
}

std::string list_html(const std::vector<std::string>& lines) {
    std::string items;
    for (const std::string& line : lines) items += "<li>" + escape_html(line) + "</li>";
    return items.empty() ? items : "<div class=\"note\"><ul>" + items + "</ul></div>\n";
}

/// Returns a time in the unit that fits it: "40 seconds", "12 minutes", "3.5 hours".
std::string time_words(double seconds) {
    if (seconds < 90) return fmt::format("{:.2g} seconds", seconds);
    return seconds < 5400 ? fmt::format("{:.2g} minutes", seconds / 60) : fmt::format("{:.3g} hours", seconds / 3600);
}

/// Plots the largest gaps against the step.
std::string curves_html(const SweepSummary& sweep, const SweepPageLimits& limits) {
    std::vector<const SweepRow*> rows;
    for (const SweepRow& row : sweep.rows) {
        if (row.policy.row.verdict != verdicts::baseline && !row.curve.points().empty()) rows.push_back(&row);
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const SweepRow* a, const SweepRow* b) { return size_of_gap(*a) > size_of_gap(*b); });
    rows.resize(std::min(rows.size(), limits.max_curves));
    std::string out;
    for (const SweepRow* row : rows) {
        ChartLine line{.name = "mean over seeds, with the range from minimum to maximum"};
        for (const GapCurve::Point& p : row->curve.points())
            line.points.push_back({p.step, p.mean, p.least, p.greatest});
        const std::string words = values_words(sweep, *row);
        const bool is_cut = row->policy.row.verdict == verdicts::diverged;
        out += chart_svg({.title = row->policy.row.policy + (words.empty() ? "" : ", " + words) +
                                   (is_cut ? ", while the loss was finite" : ""),
                          .x_name = "step",
                          .y_name = "gap, nats",
                          .lines = {std::move(line)}});
    }
    return out.empty() ? out
                       : fmt::format("<h2>The {} largest gap{}</h2>\n", rows.size(), rows.size() == 1 ? "" : "s") + out;
}

}  // namespace

std::string sweep_page_html(const SweepSummary& sweep, const SweepPageLimits& limits) {
    const std::string style = std::string(page_assets::css) + sweep_style;
    const std::string title = escape_html("macheps: " + sweep.name);
    std::string out =
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    out += fmt::format(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; img-src data:\">\n",
        csp_source(style));
    out += "<title>" + title + "</title>\n<style>" + style + "</style></head><body>\n<h1>" + title + "</h1>\n";
    out += fmt::format(
        "<p class=\"lead\">{} run{} of {} setting{} in {} {}{}; their steps took {} of wall-clock time in "
        "total.</p>\n",
        sweep.runs, sweep.runs == 1 ? "" : "s", sweep.settings, sweep.settings == 1 ? "" : "s", sweep.units,
        sweep.units == 1 ? sweep.parts.one : sweep.parts.many,
        sweep.axes.empty() ? "" : " over " + escape_html(fmt::format("{}", fmt::join(sweep.axes, " x "))),
        time_words(sweep.seconds));
    const BestValues best = best_values(sweep);
    std::vector<std::string> remarks = sweep.notes;
    for (const std::string& warning : sweep_warnings(sweep, best)) remarks.push_back("Warning: " + warning + ".");
    out += list_html(remarks);
    out += fmt::format(
        "<h2>Settings and policies</h2>\n"
        "<p class=\"how\">The gap to the fp32 run of the same setting and seed, in nats per token: mean over seeds ± "
        "95 % interval, and the verdict for a margin of {:g} % of the fp32 loss. For fp32, the table shows its "
        "loss.</p>\n",
        100 * sweep.margin);
    if (has_failed_runs(sweep))
        out += "<p class=\"how\">Diverged: " + escape_html(diverged_note(window_words(sweep))) + ".</p>\n";
    out += StudyTable(sweep, limits).html();
    out += axes_html(sweep, limits);
    out += best_html(sweep, best) + curves_html(sweep, limits);
    return out + fmt::format(
                     "<footer><p class=\"how\">Made by <code>macheps report</code> from the rows of the {}."
                     "</p></footer></body></html>\n",
                     sweep.parts.many);
}

}  // namespace macheps::reports
