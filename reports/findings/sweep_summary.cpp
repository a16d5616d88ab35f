// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/sweep_summary.hpp"

#include "core/text/float_chars.hpp"
#include "core/text/shown.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace macheps::reports {

namespace {

std::string aligned(const TextTable& table) {
    std::vector<std::vector<std::string>> lines(1);
    for (const TextTable::Column& column : table.columns) lines.front().push_back(column.heading);
    lines.insert(lines.end(), table.rows.begin(), table.rows.end());
    std::vector<std::size_t> widths(lines.front().size());
    for (const auto& line : lines) {
        for (std::size_t i = 0; i < widths.size() && i < line.size(); ++i)
            widths[i] = std::max(widths[i], line[i].size());
    }
    std::string text;
    for (const auto& line : lines) {
        std::string one;
        for (std::size_t i = 0; i < line.size(); ++i) one += fmt::format("{:<{}}  ", printable(line[i]), widths[i]);
        text += one.substr(0, one.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

}  // namespace

void GapCurve::add(const std::vector<StepRow>& steps, const std::vector<StepRow>& baseline, std::int64_t all_steps) {
    if (length_ == 0) length_ = std::max(1.0, std::ceil(static_cast<double>(all_steps) / max_points));
    std::array<double, max_points> sums{};
    std::array<std::int64_t, max_points> counts{};
    const std::size_t count = std::min(steps.size(), baseline.size());
    for (std::size_t i = 0; i < count; ++i) {
        const double gap = steps[i].loss - baseline[i].loss;
        const auto at = static_cast<std::size_t>(static_cast<double>(steps[i].step) / length_);
        if (!std::isfinite(gap) || at >= max_points || steps[i].step != baseline[i].step) continue;
        sums[at] += gap, ++counts[at];
    }
    for (std::size_t at = 0; at < max_points; ++at) {
        if (counts[at] == 0) continue;
        Stretch& stretch = stretches_[at];
        const double mean = sums[at] / static_cast<double>(counts[at]);
        stretch.least = stretch.runs == 0 ? mean : std::min(stretch.least, mean);
        stretch.greatest = stretch.runs == 0 ? mean : std::max(stretch.greatest, mean);
        stretch.sum += mean, ++stretch.runs;
    }
}

std::vector<GapCurve::Point> GapCurve::points() const {
    std::vector<Point> points;
    for (std::size_t at = 0; at < max_points; ++at) {
        const Stretch& stretch = stretches_[at];
        if (stretch.runs == 0) continue;
        points.push_back({(static_cast<double>(at) + 0.5) * length_, stretch.sum / static_cast<double>(stretch.runs),
                          stretch.least, stretch.greatest});
    }
    return points;
}

std::optional<double> axis_number(const std::string& value) {
    const bool is_power = value.starts_with("2^");
    double number = 0;
    const char* const first = value.data() + (is_power ? 2 : 0);
    const auto [end, error] = number_from_chars(first, value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || !std::isfinite(number)) return std::nullopt;
    return is_power ? std::exp2(number) : number;
}

std::string sweep_summary_csv(const SweepSummary& sweep) {
    std::string text = csv::header<SummaryRow>();
    for (const std::string& axis : sweep.axes) text += ',', csv::append_cell(text, std::string_view(axis));
    text += '\n';
    for (const SweepRow& row : sweep.rows) {
        csv::append_line(text, row.policy.row);
        text.pop_back();
        for (const std::string& value : row.values) text += ',', csv::append_cell(text, std::string_view(value));
        text += '\n';
    }
    return text;
}

TextTable sweep_table(const SweepSummary& sweep) {
    using enum TextTable::Kind;
    TextTable table;
    for (const std::string& axis : sweep.axes) table.columns.push_back({axis, text});
    for (const TextTable::Column& column :
         {TextTable::Column{"policy", text}, {"seeds", number}, {"loss", number}, {"gap", gap}, {"verdict", text}})
        table.columns.push_back(column);
    for (const SweepRow& row : sweep.rows) {
        const SummaryRow& r = row.policy.row;
        std::vector<std::string> cells = row.values;
        for (std::string cell : {r.policy, fmt::format("{}", r.seeds), fmt::format("{:.4f}", r.loss),
                                 r.verdict == verdicts::baseline ? std::string("-") : gap_words(r), r.verdict})
            cells.push_back(std::move(cell));
        table.rows.push_back(std::move(cells));
    }
    return table;
}

bool has_failed_runs(const SweepSummary& sweep) {
    return std::any_of(sweep.rows.begin(), sweep.rows.end(),
                       [](const SweepRow& row) { return has_failed_runs(row.policy.row); });
}

std::string window_words(const SweepSummary& sweep) {
    const auto has_failed = [](const SweepRow& row) { return has_failed_runs(row.policy.row); };
    const bool have_all_failed = std::all_of(sweep.rows.begin(), sweep.rows.end(), has_failed);
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max(), longest = 0;
    for (const SweepRow& row : sweep.rows) {
        if (has_failed(row) && !have_all_failed) continue;
        shortest = std::min(shortest, row.policy.window), longest = std::max(longest, row.policy.longest_window);
    }
    if (shortest < longest) return fmt::format("{} to {} steps", shortest, longest);
    return fmt::format("{} step{}", longest, longest == 1 ? "" : "s");
}

std::vector<std::string> sweep_notes(const SweepSummary& sweep) {
    const bool has_interval = std::any_of(sweep.rows.begin(), sweep.rows.end(),
                                          [](const SweepRow& row) { return row.policy.row.gap_ci_high.has_value(); });
    std::vector<std::string> notes{fmt::format(
        "loss and gap in nats per token: means of the last {}; gap: to the fp32 run of the same setting "
        "and seed{}; margin of the verdicts: {:g} % of the fp32 loss.",
        window_words(sweep), has_interval ? "; ± is the 95 % t interval over the seeds" : "", 100 * sweep.margin)};
    if (has_failed_runs(sweep)) notes.push_back("diverged: " + diverged_note(window_words(sweep)) + ".");
    return notes;
}

std::string sweep_summary_text(const SweepSummary& sweep) {
    const BestValues best = best_values(sweep);
    std::string text = aligned(sweep_table(sweep));
    for (const std::string& note : sweep_notes(sweep)) text += note + "\n";
    if (!best.rows.empty()) {
        text += "\n" + aligned(best_table(sweep, best));
        for (const std::string& note : best_notes(sweep, best)) text += note + "\n";
    }
    for (const std::string& warning : sweep_warnings(sweep, best)) text += "warning: " + printable(warning) + ".\n";
    return text;
}

}  // namespace macheps::reports
