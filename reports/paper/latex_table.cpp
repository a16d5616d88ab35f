// SPDX-License-Identifier: Apache-2.0
#include "reports/paper/latex_table.hpp"

#include "reports/findings/summary_table.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/paper/latex_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace macheps::reports {

namespace {

/// A column of numbers: the two lines of its heading, and the unit that the cell of the report ends with. The heading
/// contains the unit.
struct NumberColumn {
    std::string_view heading, unit_line, unit;
    std::string SummaryCells::*cell;
};

constexpr std::array<NumberColumn, 6> columns_after_verdict{
    {{"skipped", "(\\%)", " %", &SummaryCells::skipped},
     {"underflow", "(\\%)", " %", &SummaryCells::underflow},
     {"lost updates", "(per step)", "/step", &SummaryCells::lost_updates},
     {"bytes/", "param.", "", &SummaryCells::static_bytes},
     {"activations/", "param.", "", &SummaryCells::activation_bytes},
     {"peak", "(\\(\\times\\))", "x", &SummaryCells::peak}}};
constexpr NumberColumn seeds_column{"seeds", "", "", &SummaryCells::seeds};
constexpr NumberColumn loss_column{"loss", "(nats)", "", &SummaryCells::loss};

/// Returns the number of a cell without its unit, or an empty text if the cell is not a number.
std::string number_of(const NumberColumn& column, const SummaryCells& cells) {
    std::string_view text = cells.*column.cell;
    if (text.ends_with(column.unit)) text.remove_suffix(column.unit.size());
    return siunitx_number(text);
}

/// Returns a cell of an S column. A text that is not a number is in braces, so that siunitx does not parse it.
std::string number_cell(const NumberColumn& column, const SummaryCells& cells) {
    const std::string number = number_of(column, cells);
    if (!number.empty()) return number;
    std::string_view text = cells.*column.cell;
    if (text == "-") return "{--}";
    if (text.ends_with(column.unit)) text.remove_suffix(column.unit.size());
    return "{" + latex_text(text) + "}";
}

/// Returns S[table-format=I.F], where I and F are the largest numbers of digits before and after the point.
std::string number_format(const NumberColumn& column, const std::vector<SummaryCells>& rows) {
    std::size_t whole = 1, fraction = 0;
    for (const SummaryCells& cells : rows) {
        const std::string number = number_of(column, cells);
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

std::string row_of(const SummaryCells& cells) {
    std::string line =
        fmt::format("    {} & {} & {} & {} & {}", latex_text(cells.policy), number_cell(seeds_column, cells),
                    number_cell(loss_column, cells), gap_cells(cells.gap), latex_text(cells.verdict));
    for (const NumberColumn& column : columns_after_verdict) line += " & " + number_cell(column, cells);
    return line + " \\\\\n";
}

std::string heading_lines() {
    std::string first = "    policy & {seeds} & {loss} & \\multicolumn{2}{c}{gap to fp32} & verdict",
                second = "    & & {(nats)} & \\multicolumn{2}{c}{(nats)} & ";
    for (const NumberColumn& column : columns_after_verdict) {
        first += fmt::format(" & {{{}}}", column.heading);
        second += fmt::format(" & {{{}}}", column.unit_line);
    }
    return first + " \\\\\n" + second + " \\\\\n";
}

/// Returns a note below the table.
std::string paragraph(const std::string& note) { return fmt::format("    {}\\par\n", latex_text(note)); }

}  // namespace

std::string latex_table(const Summary& summary) {
    std::vector<SummaryCells> rows;
    for (const PolicySummary& policy : summary.policies) rows.push_back(summary_cells(policy));
    std::string columns = fmt::format("l {} {} r@{{\\({{}}\\pm{{}}\\)}}l l", number_format(seeds_column, rows),
                                      number_format(loss_column, rows));
    for (const NumberColumn& column : columns_after_verdict) columns += " " + number_format(column, rows);
    std::string out =
        "% Written by `macheps report --latex`. Needs \\usepackage{booktabs,graphicx,siunitx,textcomp}.\n"
        "\\begin{table*}\n"
        "  \\centering\n"
        "  \\caption{Each policy compared with fp32.}\n"
        "  \\label{tab:macheps}\n"
        "  \\footnotesize\n"
        "  \\setlength{\\tabcolsep}{3pt}\n"
        "  \\sisetup{retain-explicit-plus, group-digits=integer, group-minimum-digits=5}\n";
    // A table that is wider than the page is scaled down. Names of policies may have any length.
    out += "  \\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n  \\begin{tabular}{" + columns +
           "}\n    \\toprule\n" + heading_lines() + "    \\midrule\n";
    for (const SummaryCells& cells : rows) out += row_of(cells);
    out += "    \\bottomrule\n  \\end{tabular}}\n\n  \\medskip\n  \\begin{minipage}{\\linewidth}\n";
    for (const std::string& note : table_notes(summary)) out += paragraph(note);
    for (const PolicySummary& policy : summary.policies) {
        const std::string sentence = verdict_sentence(policy);
        if (sentence.empty()) continue;
        out += paragraph(fmt::format("{}: {}; {}.", policy.row.policy, sentence, range_line(policy)));
    }
    for (const std::string& warning : warnings_of(summary)) out += paragraph("Warning: " + warning + ".");
    return out + "  \\end{minipage}\n\\end{table*}\n";
}

}  // namespace macheps::reports
