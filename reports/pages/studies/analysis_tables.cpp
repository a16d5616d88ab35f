// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/studies/analysis_tables.hpp"

#include "core/text/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace macheps::reports {

namespace {

std::string size_cell(double x) {
    if (x == 0) return "0";
    const double magnitude = x < 0 ? -x : x;
    return magnitude >= 1e-3 && magnitude < 1e5 ? fmt::format("{:.4g}", x) : fmt::format("{:.2e}", x);
}
std::string size_cell(const std::optional<double>& x) { return x ? size_cell(*x) : std::string(); }

template <class Value>
std::string word_cell(const Value& value) {
    if constexpr (std::is_same_v<Value, std::optional<std::string>>) {
        return value.value_or("");
    } else if constexpr (std::is_same_v<Value, std::optional<std::int64_t>> ||
                         std::is_same_v<Value, std::optional<std::uint64_t>>) {
        return value ? fmt::format("{}", *value) : std::string();
    } else {
        return fmt::format("{}", value);
    }
}

template <class Row, class Cell>
FoldedTable::Cells cells_of_rows(std::span<const Row> rows, const Cell& cell) {
    FoldedTable::Cells cells;
    for (const Row& row : rows) cells.push_back(cell(row));
    return cells;
}
/// Returns the cells of one column as words.
template <class Row, class Value>
FoldedTable::Cells words_of_rows(std::span<const Row> rows, Value Row::*field) {
    return cells_of_rows(rows, [field](const Row& row) { return word_cell(row.*field); });
}
template <class Row, class Value>
FoldedTable::Cells sizes_of_rows(std::span<const Row> rows, Value Row::*field) {
    return cells_of_rows(rows, [field](const Row& row) { return size_cell(row.*field); });
}

/// Returns the cells of a column of counts. Counts of zero are left empty.
template <class Row, class Value>
FoldedTable::Cells counts_of_rows(std::span<const Row> rows, Value Row::*field) {
    return cells_of_rows(
        rows, [field](const Row& row) { return row.*field > Value(0) ? word_cell(row.*field) : std::string(); });
}

/// Returns a sum with the digits that distinguish all numbers of fp64, or of fp32 for rows of other formats.
std::string sum_cell(const SumRow& row, double x) {
    return row.format == "fp64" ? fmt::format("{}", x) : fmt::format("{:.9g}", x);
}

}  // namespace

FoldedTable table_of(std::span<const GemmRow> rows) {
    FoldedTable table;
    table.add_words("operands", cells_of_rows(rows, [](const GemmRow& row) {
                        return row.format_a == row.format_b ? row.format_a : row.format_a + " x " + row.format_b;
                    }));
    table.add_words("distribution", words_of_rows(rows, &GemmRow::distribution));
    table.add_words("scaling", words_of_rows(rows, &GemmRow::scaling));
    table.add_words("scale", words_of_rows(rows, &GemmRow::scale));
    table.add_words("seed", words_of_rows(rows, &GemmRow::seed));
    table.add_words("m", words_of_rows(rows, &GemmRow::m));
    table.add_words("n", words_of_rows(rows, &GemmRow::n));
    table.add_words("k", words_of_rows(rows, &GemmRow::k));
    table.add_words("via", words_of_rows(rows, &GemmRow::via));
    table.add_words("machine", words_of_rows(rows, &GemmRow::machine));
    table.add_words("output", words_of_rows(rows, &GemmRow::output));
    table.add_figures("max error", sizes_of_rows(rows, &GemmRow::max_error));
    table.add_figures("rms error", sizes_of_rows(rows, &GemmRow::rms_error));
    table.add_figures("bound", sizes_of_rows(rows, &GemmRow::bound));
    table.add_figures("probable", sizes_of_rows(rows, &GemmRow::probable_bound));
    table.add_figures("first", sizes_of_rows(rows, &GemmRow::first));
    table.add_figures("exact", sizes_of_rows(rows, &GemmRow::first_exact));
    table.add_figures("not finite", counts_of_rows(rows, &GemmRow::nonfinite));
    table.add_figures("saturated", counts_of_rows(rows, &GemmRow::saturated));
    table.explain(
        "errors and bounds: relative to the sum of |a||b| of each output; bound: certain bound on the error; probable: "
        "bound that few errors exceed;\n"
        "first: the output in row 0 and column 0; exact: its exact value.");
    return table;
}

FoldedTable table_of(std::span<const SumRow> rows) {
    FoldedTable table;
    const bool has_trials = std::any_of(rows.begin(), rows.end(), [](const SumRow& row) { return row.trials > 1; });
    table.add_words("data", cells_of_rows(rows, [](const SumRow& row) {
                        return row.dot.value_or(0) != 0 ? row.data + ", dot products" : row.data;
                    }));
    table.add_words("n", words_of_rows(rows, &SumRow::n));
    table.add_words("seed", words_of_rows(rows, &SumRow::seed));
    table.add_words("format", words_of_rows(rows, &SumRow::format));
    table.add_words("method", words_of_rows(rows, &SumRow::method));
    table.add_words("round", words_of_rows(rows, &SumRow::round));
    table.add_figures("sum", cells_of_rows(rows, [](const SumRow& row) { return sum_cell(row, row.value); }));
    table.add_figures("exact", cells_of_rows(rows, [](const SumRow& row) { return sum_cell(row, row.exact); }));
    table.add_figures("error", sizes_of_rows(rows, &SumRow::error_unit));
    if (has_trials) {
        table.add_figures("rms", sizes_of_rows(rows, &SumRow::rms_unit));
        table.add_figures("mean", sizes_of_rows(rows, &SumRow::mean_unit));
    }
    table.add_figures("bound", sizes_of_rows(rows, &SumRow::bound_unit));
    table.add_figures("probable", sizes_of_rows(rows, &SumRow::probable_unit));
    table.add_figures("stagnates at", words_of_rows(rows, &SumRow::stagnated_at));
    table.add_figures("not finite", counts_of_rows(rows, &SumRow::nonfinite));
    table.add_figures("saturated", counts_of_rows(rows, &SumRow::saturated));
    table.explain(
        std::string("error: |error| / (u S), where u is the format's unit roundoff and S the sum of the magnitudes") +
        (has_trials ? " (of the first trial; rms and mean are over all trials)" : "") +
        ";\n"
        "bound: certain bound on the error; probable: bound that few errors exceed if their mean is zero.");
    return table;
}

FoldedTable table_of(std::span<const SolveRow> rows) {
    FoldedTable table;
    table.add_words("matrix", words_of_rows(rows, &SolveRow::matrix));
    table.add_words("n", words_of_rows(rows, &SolveRow::n));
    table.add_words("seed", words_of_rows(rows, &SolveRow::seed));
    table.add_words("factor", words_of_rows(rows, &SolveRow::factor));
    table.add_words("lu", words_of_rows(rows, &SolveRow::lu));
    table.add_words("machine", words_of_rows(rows, &SolveRow::machine));
    table.add_words("scale", words_of_rows(rows, &SolveRow::scale));
    table.add_words("work", words_of_rows(rows, &SolveRow::work));
    table.add_words("method", words_of_rows(rows, &SolveRow::method));
    table.add_words("verdict", words_of_rows(rows, &SolveRow::verdict));
    table.add_figures("kappa", sizes_of_rows(rows, &SolveRow::kappa));
    table.add_figures("steps", words_of_rows(rows, &SolveRow::steps));
    table.add_figures("inner", words_of_rows(rows, &SolveRow::inner));
    table.add_figures("forward", sizes_of_rows(rows, &SolveRow::fe));
    table.add_figures("backward", sizes_of_rows(rows, &SolveRow::nbe));
    table.add_figures("componentwise", sizes_of_rows(rows, &SolveRow::cbe));
    table.add_figures("per step", sizes_of_rows(rows, &SolveRow::contraction));
    table.add_figures("limit", sizes_of_rows(rows, &SolveRow::limit));
    table.explain(
        "kappa: condition number; inner: GMRES steps; forward: norm(x - exact) / norm(exact); backward, componentwise: "
        "backward errors;\n"
        "per step: factor by which a step reduces the forward error; limit: kappa up to which theory promises "
        "convergence.");
    return table;
}

FoldedTable table_of(std::span<const SolveStepRow> rows) {
    std::vector<SolveStepRow> last;
    std::vector<std::optional<double>> first;
    for (const SolveStepRow& row : rows) {
        if (last.empty() || row.step <= last.back().step) {
            last.push_back(row);
            first.push_back(row.fe);
        } else {
            last.back() = row;
        }
    }
    const std::span<const SolveStepRow> ends(last);
    FoldedTable table;
    table.add_words("matrix", words_of_rows(ends, &SolveStepRow::matrix));
    table.add_words("n", words_of_rows(ends, &SolveStepRow::n));
    table.add_words("seed", words_of_rows(ends, &SolveStepRow::seed));
    table.add_words("factor", words_of_rows(ends, &SolveStepRow::factor));
    table.add_words("scale", words_of_rows(ends, &SolveStepRow::scale));
    table.add_words("machine", words_of_rows(ends, &SolveStepRow::machine));
    table.add_words("method", words_of_rows(ends, &SolveStepRow::method));
    table.add_figures("steps", words_of_rows(ends, &SolveStepRow::step));
    FoldedTable::Cells begun;
    for (const std::optional<double>& fe : first) begun.push_back(size_cell(fe));
    table.add_figures("first forward", std::move(begun));
    table.add_figures("last forward", sizes_of_rows(ends, &SolveStepRow::fe));
    table.add_figures("backward", sizes_of_rows(ends, &SolveStepRow::nbe));
    return table;
}

namespace {

/// Returns worst_x with the names of the variables, such as "x = 1, y = -2 (0x3c00, 0xc000)". Older files lack the
/// names; there, worst_x is returned unchanged.
std::string labelled_input(const FormulaRow& row) {
    const std::string variables = row.variables.value_or("");
    const std::vector<std::string_view> names = listed_names(variables), words = listed_names(row.worst_x);
    if (names.empty() || words.size() != 2 * names.size()) return row.worst_x;
    std::string values, codes;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const char* comma = i == 0 ? "" : ", ";
        values += fmt::format("{}{} = {}", comma, names[i], words[names.size() + i]);
        codes += fmt::format("{}0x{}", comma, words[i]);
    }
    return fmt::format("{} ({})", values, codes);
}

}  // namespace

FoldedTable table_of(std::span<const FormulaRow> rows) {
    FoldedTable table;
    table.add_words("formula", cells_of_rows(rows, [](const FormulaRow& row) {
                        return row.name.empty() ? row.expression : row.name;
                    }));
    table.add_words("format", words_of_rows(rows, &FormulaRow::format));
    table.add_words("round", words_of_rows(rows, &FormulaRow::round));
    table.add_words("functions", words_of_rows(rows, &FormulaRow::functions));
    table.add_figures("inputs", words_of_rows(rows, &FormulaRow::inputs));
    table.add_figures("mean bits", sizes_of_rows(rows, &FormulaRow::mean_bits));
    table.add_figures("max bits", sizes_of_rows(rows, &FormulaRow::max_bits));
    table.add_figures("max ulp", sizes_of_rows(rows, &FormulaRow::max_ulp));
    table.add_figures("not correct", words_of_rows(rows, &FormulaRow::not_correct));
    table.add_figures("overflow", counts_of_rows(rows, &FormulaRow::overflow));
    table.add_figures("underflow", counts_of_rows(rows, &FormulaRow::underflow));
    table.add_figures("all digits lost", counts_of_rows(rows, &FormulaRow::digits_lost));
    table.add_figures("nan", counts_of_rows(rows, &FormulaRow::nan));
    table.add_figures("skipped", counts_of_rows(rows, &FormulaRow::skipped));
    table.add_figures("unresolved", counts_of_rows(rows, &FormulaRow::unresolved));
    table.add_words("largest error at", cells_of_rows(rows, labelled_input));
    const bool loses_digits =
        std::any_of(rows.begin(), rows.end(), [](const FormulaRow& row) { return row.digits_lost > 0; });
    table.explain(fmt::format(
        "bits: log2(1 + d), where d is the distance between result and exact value in numbers of the format; not "
        "correct: inputs with d > 0; max ulp: largest error of finite results, in units in the last place (ulp) of the "
        "exact value; largest error at: the first input with max bits, and its code in the format.{}",
        loses_digits ? " All digits lost: inputs whose result is 0 although the exact value is not, without an "
                       "underflow, usually by cancellation."
                     : ""));
    return table;
}

FoldedTable table_of(std::span<const FormulaPointRow> rows) {
    struct Points {
        std::size_t count = 0;
        double bits = 0, most = 0;
        std::string worst{};
    };
    std::map<std::pair<std::string, std::string>, std::size_t> index;
    std::vector<std::pair<std::string, std::string>> names;
    std::vector<Points> all;
    for (const FormulaPointRow& row : rows) {
        const auto [at, is_new] = index.emplace(std::pair(row.expression, row.format), all.size());
        if (is_new) all.emplace_back(), names.push_back(at->first);
        Points& points = all[at->second];
        if (points.count++ == 0 || row.bits > points.most) points.most = row.bits, points.worst = row.x;
        points.bits += row.bits;
    }
    FoldedTable table;
    FoldedTable::Cells formulas, formats, counts, means, most, worst;
    for (std::size_t i = 0; i < all.size(); ++i) {
        formulas.push_back(names[i].first);
        formats.push_back(names[i].second);
        counts.push_back(fmt::format("{}", all[i].count));
        means.push_back(size_cell(all[i].bits / static_cast<double>(all[i].count)));
        most.push_back(size_cell(all[i].most));
        worst.push_back(all[i].worst);
    }
    table.add_words("formula", std::move(formulas));
    table.add_words("format", std::move(formats));
    table.add_figures("points", std::move(counts));
    table.add_figures("mean bits", std::move(means));
    table.add_figures("max bits", std::move(most));
    table.add_words("worst at", std::move(worst));
    return table;
}

}  // namespace macheps::reports
