// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/folded_table.hpp"

#include "core/text/shown.hpp"
#include "reports/rows/html_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace macheps::reports {

namespace {

/// Returns the number of code points: the bytes that are not UTF-8 continuation bytes.
std::size_t shown_width(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

void FoldedTable::add(std::string name, Cells cells, bool is_words) {
    assert(columns_.empty() || cells.size() == rows());
    const bool is_empty = std::all_of(cells.begin(), cells.end(), [](const std::string& cell) { return cell.empty(); });
    for (std::string& cell : cells) cell = printable(cell);
    if (!cells.empty() && !is_empty) columns_.push_back({std::move(name), std::move(cells), is_words});
}

bool FoldedTable::is_folded(const Column& column) const {
    return column.is_words && rows() > 1 &&
           std::equal(column.cells.begin() + 1, column.cells.end(), column.cells.begin());
}

std::vector<const FoldedTable::Column*> FoldedTable::shown() const {
    std::vector<const Column*> list;
    for (const Column& column : columns_) {
        if (!is_folded(column)) list.push_back(&column);
    }
    return list;
}

std::string FoldedTable::caption() const {
    std::string words;
    for (const Column& column : columns_) {
        if (is_folded(column))
            words += fmt::format("{}{} {}", words.empty() ? "" : ", ", column.name, column.cells.front());
    }
    return words;
}

std::string FoldedTable::text() const {
    if (rows() == 0) return {};
    const std::string above = caption();
    std::string out = above.empty() ? "" : above + "\n\n";
    const std::vector<const Column*> list = shown();
    std::vector<std::size_t> widths;
    for (const Column* column : list) {
        std::size_t width = shown_width(column->name);
        for (const std::string& cell : column->cells) width = std::max(width, shown_width(cell));
        widths.push_back(width);
    }
    const auto add_line = [&](const auto& cell_of) {
        std::string line;
        for (std::size_t i = 0; i < list.size(); ++i) {
            const std::string& cell = cell_of(*list[i]);
            const std::string pad(widths[i] - shown_width(cell), ' ');
            line += (list[i]->is_words ? cell + pad : pad + cell) + "  ";
        }
        out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    };
    add_line([](const Column& column) -> const std::string& { return column.name; });
    for (std::size_t row = 0; row < rows(); ++row)
        add_line([row](const Column& column) -> const std::string& { return column.cells[row]; });
    return explanation_.empty() ? out : out + "\n" + explanation_ + "\n";
}

std::string FoldedTable::html(std::size_t most) const {
    if (rows() == 0) return {};
    const std::string above = caption();
    std::string out = above.empty() ? "" : fmt::format("<p class=\"how\">All rows: {}.</p>\n", escape_html(above));
    out += "<div class=\"table\"><table class=\"narrow\"><thead><tr>";
    const std::vector<const Column*> list = shown();
    for (const Column* column : list) {
        out += fmt::format("<th{}>{}</th>", column->is_words ? "" : " class=\"n\"", escape_html(column->name));
    }
    out += "</tr></thead><tbody>\n";
    for (std::size_t row = 0; row < std::min(most, rows()); ++row) {
        out += "<tr>";
        for (const Column* column : list) {
            out +=
                fmt::format("<td{}>{}</td>", column->is_words ? "" : " class=\"n\"", escape_html(column->cells[row]));
        }
        out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
    if (most < rows()) out += fmt::format("<p class=\"how\">{} more rows are not shown.</p>\n", rows() - most);
    return explanation_.empty() ? out : out + fmt::format("<p class=\"how\">{}</p>\n", escape_html(explanation_));
}

}  // namespace macheps::reports
