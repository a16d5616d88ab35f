// SPDX-License-Identifier: Apache-2.0
#include "reports/paper/latex_columns.hpp"

#include "reports/paper/latex_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace macheps::reports {

namespace {

using Kind = TextTable::Kind;

std::string_view without_unit(std::string_view text, std::string_view unit) {
    if (text.ends_with(unit)) text.remove_suffix(unit.size());
    return text;
}

/// Returns a cell of an S column. A text that is not a number is in braces, so that siunitx does not parse it.
std::string number_cell(std::string_view text, std::string_view unit) {
    const std::string_view bare = without_unit(text, unit);
    const std::string number = siunitx_number(bare);
    if (!number.empty()) return number;
    return text == "-" ? "{--}" : "{" + latex_text(bare) + "}";
}

/// Returns S[table-format=I.F], where I and F are the largest numbers of digits before and after the point.
std::string number_format(const LatexColumn& column) {
    std::size_t whole = 1, fraction = 0;
    for (const std::string& cell : column.cells) {
        const std::string number = siunitx_number(without_unit(cell, column.unit));
        const std::size_t point = std::min(number.find('.'), number.size());
        whole = std::max(whole, point);
        fraction = std::max(fraction, number.size() - std::min(point + 1, number.size()));
    }
    return fmt::format("S[table-format={}.{}]", whole, fraction);
}

/// Returns the two cells of a gap: the gap, and its interval. `gap` is the result of gap_words().
std::string gap_cells(std::string_view gap) {
    constexpr std::string_view sign = " \u00b1 ";
    const std::size_t at = gap.find(sign);
    const std::string number = siunitx_number(gap.substr(0, at));
    if (number.empty()) return fmt::format("\\multicolumn{{2}}{{c}}{{{}}}", gap == "-" ? "--" : latex_text(gap));
    if (at == std::string_view::npos) return fmt::format("\\multicolumn{{2}}{{c}}{{\\num{{{}}}}}", number);
    return fmt::format("\\num{{{}}} & \\num{{{}}}", number, siunitx_number(gap.substr(at + sign.size())));
}

/// How a kind of column is written: its specification, a line of its heading, and a cell.
std::string specification_of(const LatexColumn& column) {
    if (column.kind == Kind::number) return number_format(column);
    return column.kind == Kind::gap ? "r@{\\({}\\pm{}\\)}l" : "l";
}
std::string heading_of(const LatexColumn& column, const std::string& text) {
    if (column.kind == Kind::gap) return fmt::format("\\multicolumn{{2}}{{c}}{{{}}}", text);
    return column.kind == Kind::number && !text.empty() ? "{" + text + "}" : text;
}
std::string cell_of(const LatexColumn& column, const std::string& text) {
    if (column.kind == Kind::number) return number_cell(text, column.unit);
    return column.kind == Kind::gap ? gap_cells(text) : latex_text(text);
}

/// Joins the texts of all columns to a row.
template <class TextOf>
std::string row_text(const std::vector<LatexColumn>& columns, const TextOf& text_of) {
    std::string row = "    ";
    for (std::size_t i = 0; i < columns.size(); ++i) row += (i == 0 ? "" : " & ") + text_of(columns[i]);
    return row + " \\\\\n";
}

}  // namespace

std::string latex_table(const LatexTable& table) {
    std::string specification;
    std::size_t rows = 0;
    for (const LatexColumn& column : table.columns) {
        specification += (specification.empty() ? "" : " ") + specification_of(column);
        rows = std::max(rows, column.cells.size());
    }
    std::string out =
        "% Written by `macheps report --latex`. Needs \\usepackage{booktabs,graphicx,siunitx,textcomp}.\n"
        "\\begin{table*}\n"
        "  \\centering\n";
    out += fmt::format("  \\caption{{{}}}\n  \\label{{{}}}\n", table.caption, table.label);
    out +=
        "  \\footnotesize\n"
        "  \\setlength{\\tabcolsep}{3pt}\n"
        "  \\sisetup{retain-explicit-plus, group-digits=integer, group-minimum-digits=5}\n";
    // Names of policies may have any length.
    out += "  \\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n  \\begin{tabular}{" +
           specification + "}\n    \\toprule\n";
    out += row_text(table.columns, [](const LatexColumn& column) { return heading_of(column, column.heading); });
    if (std::any_of(table.columns.begin(), table.columns.end(), [](const auto& one) { return !one.unit_line.empty(); }))
        out += row_text(table.columns, [](const LatexColumn& column) { return heading_of(column, column.unit_line); });
    out += "    \\midrule\n";
    for (std::size_t i = 0; i < rows; ++i)
        out += row_text(table.columns, [i](const LatexColumn& column) { return cell_of(column, column.cells.at(i)); });
    out += "    \\bottomrule\n  \\end{tabular}}\n\n  \\medskip\n  \\begin{minipage}{\\linewidth}\n";
    for (const std::string& note : table.notes) out += fmt::format("    {}\\par\n", latex_text(note));
    return out + "  \\end{minipage}\n\\end{table*}\n";
}

}  // namespace macheps::reports
