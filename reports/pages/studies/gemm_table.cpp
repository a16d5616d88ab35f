// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/studies/gemm_table.hpp"

#include "reports/findings/conclusion.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/html_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace macheps::reports {

namespace {

/// Returns whether `a` has more terms than `b`, or equally many terms and more outputs. The table shows the larger row.
bool is_larger(const GemmRow& a, const GemmRow& b) {
    if (a.k != b.k) return a.k > b.k;
    return a.m * a.n > b.m * b.n;
}

std::string figure(double x) { return x == 0 ? "0" : fmt::format("{:.2e}", x); }

/// Returns the number of code points: the bytes that are not UTF-8 continuation bytes.
std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Number of columns at the beginning that contain words. All later columns contain figures and are aligned right.
constexpr std::size_t word_columns = 4;

}  // namespace

std::string gemm_data_name(const GemmRow& row) {
    return fmt::format("{}{}, {}{}", row.format_a, row.format_a == row.format_b ? "" : " x " + row.format_b,
                       row.distribution, row.scaling == "none" ? "" : fmt::format(", scaled per {}", row.scaling));
}

std::vector<std::string> gemm_series_names(std::span<const GemmRow> rows) {
    std::map<std::pair<std::string, std::string>, std::set<std::string>> outputs;
    for (const GemmRow& row : rows) outputs[{gemm_data_name(row), row.machine}].insert(row.output);
    std::vector<std::string> names;
    for (const GemmRow& row : rows) {
        const bool is_one = outputs[{gemm_data_name(row), row.machine}].size() == 1;
        names.push_back(is_one ? row.machine : fmt::format("{} -> {}", row.machine, row.output));
    }
    return names;
}

std::vector<std::vector<std::string>> gemm_cells(std::span<const GemmRow> rows) {
    if (rows.empty()) return {};
    std::map<std::array<std::string, 3>, std::size_t> index;
    std::vector<const GemmRow*> chosen;
    for (const GemmRow& row : rows) {
        const auto [at, is_new] =
            index.emplace(std::array{gemm_data_name(row), row.machine, row.output}, chosen.size());
        if (is_new) {
            chosen.push_back(&row);
        } else if (is_larger(row, *chosen[at->second])) {
            chosen[at->second] = &row;
        }
    }
    std::vector<std::vector<std::string>> cells{{"machine", "evidence", "operands", "output", "m x n x k", "max error",
                                                 "bound", "probable", "max relative", "max ulp", "SQNR (dB)", "drift"}};
    for (const GemmRow* row : chosen) {
        cells.push_back({row->machine, row->evidence, gemm_data_name(*row), row->output,
                         fmt::format("{} x {} x {}", row->m, row->n, row->k), figure(row->max_error),
                         row->bound ? figure(*row->bound) : std::string("-"),
                         row->probable_bound ? figure(*row->probable_bound) : std::string("-"),
                         row->max_rel ? figure(*row->max_rel) : std::string("-"), fmt::format("{:.4g}", row->max_ulp),
                         row->sqnr_db ? fmt::format("{:.1f}", *row->sqnr_db) : std::string("-"), figure(row->drift)});
        if (row->nonfinite > 0) cells.back().back() += fmt::format(" ({} not finite)", row->nonfinite);
        if (row->saturated.value_or(0) > 0) cells.back().back() += fmt::format(" ({} saturated)", *row->saturated);
    }
    return cells;
}

std::string gemm_table(std::span<const GemmRow> rows) {
    const auto cells = gemm_cells(rows);
    if (cells.empty()) return {};
    std::vector<std::size_t> widths(cells.front().size());
    for (const auto& line : cells) {
        for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
    }
    std::string out;
    for (const auto& line : cells) {
        std::string text;
        for (std::size_t i = 0; i < line.size(); ++i) {
            const std::string pad(widths[i] - width_of(line[i]), ' ');
            text += (i < word_columns ? line[i] + pad : pad + line[i]) + "  ";
        }
        out += text.substr(0, text.find_last_not_of(' ') + 1) + '\n';
    }
    return out +
           "max error: largest |error| / sum of |a||b|; bound: certain bound on it; probable: bound that few outputs "
           "exceed (mean truncation\n"
           "error plus a multiple of the standard deviation of the rounding errors); drift: mean error in the "
           "direction of the exact value,\n"
           "negative if sums are too small.\n";
}

std::string gemm_html(std::span<const GemmRow> rows) {
    const auto cells = gemm_cells(rows);
    if (cells.empty()) return {};
    std::string out = "<div class=\"table\"><table>";
    for (std::size_t r = 0; r < cells.size(); ++r) {
        out += r == 0 ? "<thead><tr>" : "<tr>";
        for (std::size_t i = 0; i < cells[r].size(); ++i) {
            const char* tag = r == 0 || i == 0 ? "th" : "td";
            out += fmt::format("<{}{}{}>{}</{}>", tag, i < word_columns ? "" : " class=\"n\"",
                               r > 0 && i == 0 ? " scope=\"row\"" : "", escape_html(cells[r][i]), tag);
        }
        out += r == 0 ? "</tr></thead><tbody>\n" : "</tr>\n";
    }
    return out + "</tbody></table></div>\n";
}

std::string gemm_title(std::span<const GemmRow> rows) {
    std::vector<std::string> machines, operands;
    const auto add = [](std::vector<std::string>& list, const std::string& name) {
        if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
    };
    for (const GemmRow& row : rows) add(machines, row.machine), add(operands, gemm_data_name(row));
    return fmt::format("Products of {} on {}", listed(operands, 2), listed(machines, 4));
}

}  // namespace macheps::reports
