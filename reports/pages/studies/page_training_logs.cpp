// SPDX-License-Identifier: Apache-2.0
// The section of the page about logs that other programs wrote: findings, and a figure for each quantity.
#include "reports/findings/diagnosis.hpp"
#include "reports/pages/html.hpp"
#include "reports/pages/plot.hpp"
#include "reports/pages/studies/training_log_page.hpp"
#include "reports/rows/html_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace macheps::reports {

namespace {

/// Maximum number of rows that a figure shows without combining them, and maximum number of marks.
constexpr std::size_t max_points = 2000, max_marks = 200;

/// A figure: the quantities that it shows. Ids begin with `log-`, because other elements of the page have ids such as
/// `loss`.
struct LogFigure {
    std::string_view id, title;
    std::vector<std::string_view> quantities;
    bool has_log_y;
};
const LogFigure figures[] = {{"log-loss", "Loss.", {"loss", "eval_loss"}, false},
                             {"log-grad-norm", "Gradient norm.", {"grad_norm"}, true},
                             {"log-lr", "Learning rate.", {"lr"}, false},
                             {"log-loss-scale", "Loss scale.", {"loss_scale"}, true}};

/// Returns the points of a quantity whose values are finite. If there are many, they are combined in groups, and only the
/// smallest and the largest value of a group are kept.
std::vector<std::pair<double, double>> points_of(const TrainingLog& log, Quantity quantity) {
    std::vector<std::pair<double, double>> points, all;
    for (const TrainingRow& row : log.rows) {
        if (row.*quantity && std::isfinite(*(row.*quantity)))
            all.emplace_back(static_cast<double>(row.step), *(row.*quantity));
    }
    const std::size_t group = 2 * (all.size() / max_points + 1);
    if (all.size() <= max_points) return all;
    const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
    for (std::size_t i = 0; i < all.size(); i += group) {
        const auto first = all.begin() + std::ptrdiff_t(i);
        const auto last = all.begin() + std::ptrdiff_t(std::min(i + group, all.size()));
        auto [least, largest] = std::minmax_element(first, last, by_value);
        if (largest < least) std::swap(least, largest);
        points.push_back(*least);
        if (largest != least) points.push_back(*largest);
    }
    return points;
}

/// Returns marks at the steps whose value is not finite, at the height of the largest of the `drawn` values. Returns no
/// marks if there are no values at which they could be drawn.
PlotCurve marks_of_bad_values(const TrainingLog& log, std::string_view name, const PlotCurve& drawn) {
    PlotCurve marks{.name = fmt::format("{} is not finite (drawn at the largest value)", name),
                    .colour = drawn.colour + 2,
                    .stroke = Stroke::none};
    const Quantity quantity = find_quantity(name);
    const auto top = std::max_element(drawn.points.begin(), drawn.points.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
    if (top == drawn.points.end()) return marks;
    std::vector<std::int64_t> steps;
    for (const TrainingRow& row : log.rows) {
        if (row.*quantity && !std::isfinite(*(row.*quantity))) steps.push_back(row.step);
    }
    const std::size_t every = steps.size() / max_marks + 1;
    for (std::size_t i = 0; i < steps.size(); i += every)
        marks.points.emplace_back(static_cast<double>(steps[i]), top->second);
    return marks;
}

/// Returns a sentence for each quantity of a figure that has values, but no finite value: "grad_norm is NaN in all 12
/// rows that have it."
std::string words_without_curve(const TrainingLog& log, const LogFigure& figure) {
    std::string words;
    for (const std::string_view name : figure.quantities) {
        const Quantity quantity = find_quantity(name);
        std::size_t rows = 0, finite = 0, nan = 0;
        for (const TrainingRow& row : log.rows) {
            if (!(row.*quantity)) continue;
            ++rows;
            finite += std::isfinite(*(row.*quantity)) ? 1 : 0;
            nan += std::isnan(*(row.*quantity)) ? 1 : 0;
        }
        if (rows == 0 || finite > 0) continue;
        words += fmt::format("{}{} is {} in {}.", words.empty() ? "" : " ", name, nan == rows ? "NaN" : "not finite",
                             rows == 1 ? "the only row that has it" : fmt::format("all {} rows that have it", rows));
    }
    return words;
}

std::string figures_html(const TrainingLog& log, std::size_t number) {
    std::string out;
    for (const LogFigure& figure : figures) {
        Plot plot{.id = number == 0 ? std::string(figure.id) : fmt::format("{}-{}", figure.id, number + 1),
                  .title = std::string(figure.title),
                  .caption = words_without_curve(log, figure),
                  .x_name = std::string(log.unit()),
                  .y_name = std::string(figure.quantities.front()),
                  .has_log_y = figure.has_log_y};
        for (std::size_t i = 0; i < figure.quantities.size(); ++i) {
            const Quantity quantity = find_quantity(figure.quantities[i]);
            if (!log.has(quantity)) continue;
            plot.curves.push_back({.name = std::string(figure.quantities[i]),
                                   .points = points_of(log, quantity),
                                   .colour = i,
                                   .mark = Mark::none});
            plot.curves.push_back(marks_of_bad_values(log, figure.quantities[i], plot.curves.back()));
        }
        const std::string drawn = plot_figure(plot);
        out += drawn.empty() && !plot.caption.empty() ? figure_html(plot.title, plot.caption, "", "") : drawn;
    }
    return out.empty() ? out : "<div class=\"pair\">\n" + out + "</div>\n";
}

std::string findings_html(const TrainingLog& log, const LogVerdicts& verdicts) {
    std::string rows;
    for (const LogFinding& finding : verdicts.findings) {
        std::string remarks;
        for (const std::string& remark : finding.remarks)
            remarks += fmt::format(" {}.", escape_html(capitalised(remark)));
        rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}.{}</td><td>{}.</td></tr>\n",
                            finding.diagnosis->id, word_of(finding.seen.certainty),
                            escape_html(finding_place(log, finding)), escape_html(capitalised(finding.seen.sentence)),
                            remarks, escape_html(capitalised(std::string(finding.remedy()))));
    }
    std::string out = rows.empty()
                          ? "<p>No findings.</p>\n"
                          : "<div class=\"table\"><table><thead><tr><th>diagnosis</th><th>certainty</th><th>where</th>"
                            "<th>finding</th><th>what to change</th></tr></thead><tbody>\n" +
                                rows + "</tbody></table></div>\n";
    for (const auto& [why, ids] : gaps_by_reason(verdicts))
        out += fmt::format("<p>Not looked for: {}: {}.</p>\n", escape_html(ids), escape_html(why));
    return out;
}

std::string rules_html() {
    std::string rules;
    for (const LogDiagnosis& diagnosis : log_diagnoses()) {
        if (diagnosis.find == nullptr) continue;
        rules += fmt::format("<dt>{}</dt><dd>{}</dd>", diagnosis.id, escape_html(diagnosis.condition));
    }
    return "<details><summary>All diagnoses and their conditions</summary><dl>" + rules + "</dl></details>\n";
}

std::string name_of(const TrainingLog& log) { return log.path.filename().string(); }

}  // namespace

std::string training_logs_page(const std::vector<TrainingLog>& logs, const std::vector<LogVerdicts>& verdicts) {
    std::string section;
    for (std::size_t i = 0; i < logs.size(); ++i) {
        // The heading of the page is the name of a single log.
        const std::string name =
            logs.size() == 1 ? std::string() : fmt::format("<h2>{}</h2>\n", escape_html(name_of(logs[i])));
        section += fmt::format("<section class=\"measured\">\n{}<p class=\"how\">{}</p>\n", name,
                               escape_html(reading_words(logs[i])));
        for (const std::string& note : logs[i].notes) section += "<p class=\"note\">" + escape_html(note) + "</p>\n";
        section += findings_html(logs[i], verdicts[i]) + figures_html(logs[i], i) + "</section>\n";
    }
    std::string heading = name_of(logs.front());
    if (logs.size() > 1) heading += fmt::format(" and {} more", logs.size() - 1);
    return page_of_section(heading, "Findings in training logs that other programs wrote.", section + rules_html());
}

}  // namespace macheps::reports
