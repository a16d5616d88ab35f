// SPDX-License-Identifier: Apache-2.0
#include "reports/paper/latex_table.hpp"

#include "core/error.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/paper/latex_columns.hpp"
#include "reports/paper/latex_text.hpp"
#include "reports/paper/methods.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::reports {

namespace {

/// A column of the table of runs: the two lines of its heading, and the unit that the cell of the report ends with.
struct SummaryColumn {
    std::string_view heading, unit_line, unit;
    TextTable::Kind kind;
    std::string SummaryCells::*cell;
};

constexpr TextTable::Kind text_kind = TextTable::Kind::text, number_kind = TextTable::Kind::number,
                          gap_kind = TextTable::Kind::gap;
constexpr std::array<SummaryColumn, 11> summary_columns{
    {{"policy", "", "", text_kind, &SummaryCells::policy},
     {"seeds", "", "", number_kind, &SummaryCells::seeds},
     {"loss", "(nats)", "", number_kind, &SummaryCells::loss},
     {"gap to fp32", "(nats)", "", gap_kind, &SummaryCells::gap},
     {"verdict", "", "", text_kind, &SummaryCells::verdict},
     {"skipped", "(\\%)", " %", number_kind, &SummaryCells::skipped},
     {"underflow", "(\\%)", " %", number_kind, &SummaryCells::underflow},
     {"lost updates", "(per step)", "/step", number_kind, &SummaryCells::lost_updates},
     {"bytes/", "param.", "", number_kind, &SummaryCells::static_bytes},
     {"activations/", "param.", "", number_kind, &SummaryCells::activation_bytes},
     {"peak", "(\\(\\times\\))", "x", number_kind, &SummaryCells::peak}}};

/// The number of rows that a page has room for, with notes.
constexpr std::size_t max_latex_rows = 60;

std::vector<LatexColumn> columns_of(const TextTable& table) {
    std::vector<LatexColumn> columns;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const TextTable::Column& column = table.columns[i];
        const bool has_unit = column.heading == "loss" || column.kind == TextTable::Kind::gap;
        columns.push_back(
            {.heading = latex_text(column.heading), .unit_line = has_unit ? "(nats)" : "", .kind = column.kind});
        for (const std::vector<std::string>& row : table.rows) columns.back().cells.push_back(row.at(i));
    }
    return columns;
}

}  // namespace

std::string latex_table(const Summary& summary) {
    LatexTable table{.caption = "Each policy compared with fp32.", .label = "tab:macheps"};
    for (const SummaryColumn& row : summary_columns) {
        LatexColumn column{.heading = std::string(row.heading),
                           .unit_line = std::string(row.unit_line),
                           .kind = row.kind,
                           .unit = row.unit};
        for (const PolicySummary& policy : summary.policies) column.cells.push_back(summary_cells(policy).*row.cell);
        table.columns.push_back(std::move(column));
    }
    table.notes = table_notes(summary);
    for (const PolicySummary& policy : summary.policies) {
        const std::string sentence = verdict_sentence(policy);
        if (!sentence.empty())
            table.notes.push_back(fmt::format("{}: {}; {}.", policy.row.policy, sentence, range_line(policy)));
    }
    for (const std::string& warning : warnings_of(summary)) table.notes.push_back("Warning: " + warning + ".");
    return latex_table(table);
}

std::string latex_tables(const SweepSummary& sweep) {
    const BestValues best = best_values(sweep);
    std::vector<std::string> warnings;
    for (const std::string& warning : sweep_warnings(sweep, best)) warnings.push_back("Warning: " + warning + ".");
    std::vector<LatexTable> tables;
    if (sweep.rows.size() <= max_latex_rows) {
        tables.push_back({.caption = "Each setting and policy compared with fp32.",
                          .label = "tab:macheps",
                          .columns = columns_of(sweep_table(sweep)),
                          .notes = sweep_notes(sweep)});
    }
    if (!best.rows.empty() && best.rows.size() <= max_latex_rows) {
        const std::string axis = latex_text(axis_words(sweep.axes[*best.axis]));
        tables.push_back(
            {.caption = fmt::format("Each policy at its best {0}, compared with fp32 at its best {0}.", axis),
             .label = "tab:macheps-best",
             .columns = columns_of(best_table(sweep, best)),
             .notes = best_notes(sweep, best)});
    }
    if (tables.empty()) {
        throw usage_error(fmt::format("the table has {} rows, and a page of a paper has room for about {}",
                                      sweep.rows.size(), max_latex_rows),
                          "--latex", "make the table for a paper from summary.csv, with the rows that the paper needs");
    }
    tables.front().notes.insert(tables.front().notes.end(), warnings.begin(), warnings.end());
    std::string out;
    for (const LatexTable& table : tables) out += (out.empty() ? "" : "\n") + latex_table(table);
    return out;
}

}  // namespace macheps::reports
