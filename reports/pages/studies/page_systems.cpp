// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/measured_page.hpp"
#include "reports/pages/studies/analysis_tables.hpp"
#include "reports/rows/html_text.hpp"
#include "reports/rows/solve_verdicts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace macheps::reports {

namespace {

constexpr std::size_t max_step_figures = 12;

/// Returns the rank of a verdict. The best verdict has rank 0. An unknown name counts as the worst verdict.
std::size_t rank_of_verdict(const std::string& name) {
    std::size_t rank = 0;
    while (rank + 1 < std::size(solve_verdicts) && solve_verdicts[rank].name != name) ++rank;
    return rank;
}

/// Formats a condition number as users type it: 1e6.
std::string condition_text(double kappa) {
    std::string text = fmt::format("{:.3g}", kappa);
    const std::size_t at = text.find("e+0");
    return at == std::string::npos ? text : text.erase(at + 1, 2);
}

/// Returns the name of a matrix without its condition number, which is on the axis: `randsvd, mode 2` for
/// `randsvd:1000,2`.
std::string family_of_matrix(const SolveRow& row) {
    if (!row.kappa_2) return "matrices";
    const std::string family = row.matrix.substr(0, row.matrix.find(':'));
    const std::size_t comma = row.matrix.find(',');
    return comma == std::string::npos ? family : family + ", mode " + row.matrix.substr(comma + 1);
}

/// Describes a row by some of its properties, joined by spaces. Leaves out a property that is equal in all rows.
template <class Row>
class DifferingWords {
  public:
    using Word = std::string (*)(const Row&);
    DifferingWords(std::span<const Row> rows, std::vector<Word> words) {
        for (const Word word : words) {
            const bool differs =
                std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return word(row) != word(rows.front()); });
            if (differs) words_.push_back(word);
        }
    }
    std::string operator()(const Row& row) const {
        std::string out;
        for (const Word word : words_) {
            const std::string text = word(row);
            if (!text.empty()) out += (out.empty() ? "" : " ") + text;
        }
        return out;
    }

  private:
    std::vector<Word> words_{};
};

/// A cell of the map of verdicts: the results of one system with all seeds. The cell shows the worst of their verdicts.
struct MapCell {
    std::size_t rank = 0, count = 0, converged = 0;
    std::int64_t steps = 0;
    std::optional<std::int64_t> inner{};
    bool is_promised = true;  ///< theory promises convergence at these condition numbers

    void add(const SolveRow& row) {
        const std::size_t of_row = rank_of_verdict(row.verdict);
        rank = std::max(rank, of_row);
        steps = std::max(steps, row.steps);
        if (row.inner) inner = std::max(inner.value_or(0), *row.inner);
        converged += of_row == 0;
        is_promised = is_promised && row.kappa && *row.kappa < row.limit && row.method != "lu";
        ++count;
    }
    std::string text() const {
        if (rank != 0) return std::string(solve_verdicts[rank].letter);
        return inner ? fmt::format("{}/{}", steps, *inner) : fmt::format("{}", steps);
    }
    std::string description() const {
        return fmt::format("{}{}{}", solve_verdicts[rank].name,
                           count > 1 ? fmt::format(", {} of {} converged", converged, count) : "",
                           is_promised ? ", as theory promises" : "");
    }
};

struct VerdictMap {
    std::string title{};
    std::vector<std::string> columns{}, lines{};
    std::map<std::pair<std::string, std::string>, MapCell> cells{};  ///< by line and column
};

std::string map_svg(const VerdictMap& map, const std::string& id) {
    constexpr double width = 600, height_of_line = 26, bottom = 44, max_wide = 72;
    double left = 40;
    for (const std::string& line : map.lines) left = std::max(left, label_width(line) + 12);
    left = std::min(left, 0.6 * width);
    const double wide = std::min(max_wide, (width - left) / static_cast<double>(map.columns.size()));
    const double height = height_of_line * static_cast<double>(map.lines.size()) + bottom;
    std::string out = fmt::format("<svg id=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", id, width,
                                  height, escape_html("Verdicts of " + map.title));
    for (std::size_t i = 0; i < map.lines.size(); ++i) {
        const double top = height_of_line * static_cast<double>(i);
        out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", left - 8, top + 17,
                           escape_html(map.lines[i]));
        for (std::size_t k = 0; k < map.columns.size(); ++k) {
            const auto cell = map.cells.find({map.lines[i], map.columns[k]});
            if (cell == map.cells.end()) continue;
            const double x = left + wide * static_cast<double>(k);
            out += fmt::format(
                "<g class=\"cell {}\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/><text "
                "x=\"{:.1f}\" "
                "y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                solve_verdicts[cell->second.rank].tone, x + 1, top + 1, wide - 2, height_of_line - 2, x + wide / 2,
                top + 17, cell->second.text());
            if (cell->second.is_promised)
                out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"/>", x + wide - 6, top + 6);
            out += fmt::format(
                "<title>{}</title></g>\n",
                escape_html(fmt::format("{}, {}: {}", map.lines[i], map.columns[k], cell->second.description())));
        }
    }
    const double below = height_of_line * static_cast<double>(map.lines.size());
    double free_from = 0;
    for (std::size_t k = 0; k < map.columns.size(); ++k) {
        const double half = label_width(map.columns[k]) / 2, middle = left + wide * (static_cast<double>(k) + 0.5);
        if (middle - half < free_from) continue;
        free_from = middle + half + 6;
        out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", middle, below + 16,
                           escape_html(map.columns[k]));
    }
    return out + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text></svg>",
                             left + wide * static_cast<double>(map.columns.size()) / 2, below + 36,
                             map.title.starts_with("matrices") ? "matrix" : "requested condition number");
}

/// Returns a map of verdicts for each family of matrices and each size, in the order of the rows.
std::vector<VerdictMap> maps_of(std::span<const SolveRow> rows) {
    const DifferingWords<SolveRow> words(
        rows, {[](const SolveRow& row) { return row.method; }, [](const SolveRow& row) { return row.factor; },
               [](const SolveRow& row) { return row.lu; }, [](const SolveRow& row) { return row.machine; },
               [](const SolveRow& row) { return row.scale; }, [](const SolveRow& row) { return row.work; }});
    std::vector<VerdictMap> maps;
    for (const SolveRow& row : rows) {
        const std::string title = fmt::format("{}, n = {}", family_of_matrix(row), row.n);
        auto at = std::find_if(maps.begin(), maps.end(), [&](const VerdictMap& map) { return map.title == title; });
        if (at == maps.end()) at = maps.insert(maps.end(), VerdictMap{.title = title});
        const std::string column = row.kappa_2 ? condition_text(*row.kappa_2) : row.matrix;
        const std::string named = words(row), line = named.empty() ? row.method + " " + row.factor : named;
        const auto add_once = [](std::vector<std::string>& list, const std::string& name) {
            if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
        };
        add_once(at->columns, column), add_once(at->lines, line);
        at->cells[{line, column}].add(row);
    }
    for (VerdictMap& map : maps)
        std::stable_sort(map.lines.begin(), map.lines.end(), [](const std::string& a, const std::string& b) {
            return a.substr(0, a.find(' ')) < b.substr(0, b.find(' '));  // keeps the lines of a method together
        });
    return maps;
}

std::string maps_html(std::span<const SolveRow> rows) {
    std::string out;
    std::size_t number = 0;
    for (const VerdictMap& map : maps_of(rows)) {
        std::set<std::size_t> ranks;
        bool is_promised = false;
        for (const auto& [place, cell] : map.cells)
            ranks.insert(cell.rank), is_promised = is_promised || cell.is_promised;
        std::string key;
        for (const std::size_t rank : ranks) {
            key += fmt::format(
                "<span><svg width=\"16\" height=\"12\" aria-hidden=\"true\"><g class=\"cell {2}\"><rect width=\"16\" "
                "height=\"12\"/></g></svg>{1}{0}</span>\n",
                solve_verdicts[rank].name,
                rank == 0 ? "numbers: refinement steps / GMRES steps, if "
                          : fmt::format("{}: ", solve_verdicts[rank].letter),
                solve_verdicts[rank].tone);
        }
        if (is_promised)
            key +=
                "<span>dot: the condition number is below the limit up to which theory promises convergence</span>\n";
        out += figure_html(fmt::format("Verdicts of {}.", map.title),
                           "With several seeds: the worst verdict and the largest number of steps.",
                           map_svg(map, fmt::format("verdicts-{}", ++number)), key);
    }
    return out;
}

std::string steps_html(std::span<const SolveStepRow> rows) {
    const Plots plots = step_plots(rows);
    std::string out = figures_html(plots);
    if (out.empty()) return out;
    out = "<h3>Error against the step</h3>\n" + out;
    if (plots.left_out > 0)
        out += fmt::format("<p class=\"how\">{} more systems have no figure.</p>\n", plots.left_out);
    return out;
}

}  // namespace

Plots step_plots(std::span<const SolveStepRow> rows) {
    const DifferingWords<SolveStepRow> words(
        rows, {[](const SolveStepRow& row) { return row.factor; }, [](const SolveStepRow& row) { return row.method; },
               [](const SolveStepRow& row) { return row.scale.value_or(""); },
               [](const SolveStepRow& row) { return row.machine.value_or(""); }});
    std::vector<Plot> plots;
    std::map<std::string, std::size_t> colours;
    for (const SolveStepRow& row : rows) {
        const std::string title = fmt::format("{}, n = {}, seed {}.", row.matrix, row.n, row.seed);
        auto plot = std::find_if(plots.begin(), plots.end(), [&](const Plot& each) { return each.title == title; });
        if (plot == plots.end()) {
            plot = plots.insert(
                plots.end(),
                Plot{.id = fmt::format("steps-{}", plots.size() + 1),
                     .title = title,
                     .caption = "A straight line means that each step reduces the error by the same factor.",
                     .x_name = "step",
                     .y_name = "forward error"});
        }
        const std::string named = words(row), name = named.empty() ? row.factor + " " + row.method : named;
        auto curve = std::find_if(plot->curves.begin(), plot->curves.end(),
                                  [&](const PlotCurve& each) { return each.name == name; });
        if (curve == plot->curves.end()) {
            const std::size_t colour = colours.emplace(name, colours.size()).first->second;
            curve = plot->curves.insert(plot->curves.end(), PlotCurve{.name = name, .colour = colour});
        }
        if (row.fe) curve->points.emplace_back(static_cast<double>(row.step), *row.fe);
    }
    const std::size_t shown = std::min(plots.size(), max_step_figures);
    const std::size_t left_out = plots.size() - shown;
    plots.resize(shown);
    return {.shown = std::move(plots), .left_out = left_out};
}

std::string systems_html(std::span<const SolveRow> rows, std::span<const SolveStepRow> steps) {
    if (rows.empty() && steps.empty()) return {};
    std::string out = "<section id=\"systems\" class=\"measured\">\n<h2>Linear systems</h2>\n";
    if (const std::string maps = maps_html(rows); !maps.empty()) out += "<div class=\"pair\">\n" + maps + "</div>\n";
    out += steps_html(steps);
    if (!rows.empty()) out += "<h3>Rows</h3>\n" + table_of(rows).html();
    if (!steps.empty()) out += "<h3>Refinements</h3>\n" + table_of(steps).html();
    return out + "</section>\n";
}

}  // namespace macheps::reports
