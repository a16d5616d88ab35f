// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/row_table.hpp"

#include "core/text/print.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::cmd {

std::vector<std::string> aligned_lines(const std::vector<TextCells>& lines, const std::vector<Align>& alignment) {
    const auto shown = [](const std::string& cell) { return cell.empty() ? std::string("-") : cell; };
    std::vector<std::size_t> widths;
    for (const TextCells& line : lines) {
        widths.resize(std::max(widths.size(), line.size()));
        for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], shown(line[i]).size());
    }
    std::vector<std::string> all;
    for (const TextCells& line : lines) {
        std::string text;
        for (std::size_t i = 0; i < line.size(); ++i) {
            const bool is_right = i < alignment.size() && alignment[i] == Align::right;
            text += is_right ? fmt::format("{:>{}}  ", shown(line[i]), widths[i])
                             : fmt::format("{:<{}}  ", shown(line[i]), widths[i]);
        }
        all.push_back(text.substr(0, text.find_last_not_of(' ') + 1));
    }
    return all;
}

std::string joined_lines(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    return text;
}

std::string cell_text(const Json& value) {
    if (value.is_null()) return {};
    if (value.is_string()) return value.string();
    if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
    return value.is_number_float() ? decimal(value.get<double>()) : value.dump();
}

std::string csv_line(const TextCells& cells) {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (i > 0) text += ',';
        reports::csv::append_cell(text, std::string_view(cells[i]));
    }
    return text + '\n';
}

}  // namespace macheps::cmd
