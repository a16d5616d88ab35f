// SPDX-License-Identifier: Apache-2.0
// Parses the rows of a CSV text one after the other. Only the current row is kept in memory.
#pragma once
#include "reports/rows/csv.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace macheps::reports {

namespace csv {

/// Removes the first line of `text`, which ends with LF or CRLF, and splits it into cells without their enclosing
/// quotes. A cell is a view of the line, or of a copy in `unquoted` if the cell contains quotes. Returns false if a
/// quote is in the wrong place.
[[nodiscard]] bool take_line(std::string_view& text, std::vector<std::string_view>& cells,
                             std::vector<std::string>& unquoted);

/// Throws Error, Exit::bad_input. `what` says why the header or a row of `path` cannot be read.
[[noreturn]] void throw_bad_row(const std::filesystem::path& path, std::string_view what);

}  // namespace csv

/// Parses rows whose columns are named in a header. Accepts headers of older and newer versions, as CsvReader does.
template <class Row>
class RowParser {
  public:
    /// Error messages name `path`. If `only` is not empty, only the columns in `only` are read; all other columns keep
    /// the value that they have in Row{}.
    RowParser(std::string_view header, std::filesystem::path path, std::span<const std::string_view> only = {})
        : path_(std::move(path)) {
        std::vector<std::string_view> names;
        const std::string text = std::string(header) + "\n";
        std::string_view rest = text;
        if (!csv::take_line(rest, names, unquoted_))
            csv::throw_bad_row(path_, "the header has a quote in the wrong place");
        width_ = names.size();
        std::size_t column = 0;
        const auto find = [&](const auto& c) {
            const auto found = std::find(names.begin(), names.end(), c.name);
            if (found == names.end() && !c.may_be_absent()) csv::throw_no_column(path_, c.name);
            const bool is_wanted = only.empty() || std::find(only.begin(), only.end(), c.name) != only.end();
            at_[column++] = found == names.end() || !is_wanted ? none : static_cast<std::size_t>(found - names.begin());
        };
        for_each_column<Row>(find);
    }

    /// Calls take(row) for each row of `rows`, which must consist of whole lines. Throws Error, Exit::bad_input, if a
    /// row cannot be read.
    template <class Take>
    void parse(std::string_view rows, const Take& take) {
        while (!rows.empty()) {
            if (!csv::take_line(rows, cells_, unquoted_))
                csv::throw_bad_row(path_, "a row has a quote in the wrong place");
            if (cells_.size() != width_) csv::throw_bad_row(path_, "a row has more or fewer cells than the header");
            Row row;
            std::size_t column = 0;
            const auto read = [&](const auto& c) {
                const std::size_t at = at_[column++];
                if (at != none && !csv::parse_cell(cells_[at], row.*c.field)) {
                    csv::throw_bad_row(path_, "'" + std::string(cells_[at]) + "' is not a valid value for column '" +
                                                  std::string(c.name) + "'");
                }
            };
            for_each_column<Row>(read);
            take(std::move(row));
        }
    }

  private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    std::filesystem::path path_;
    std::array<std::size_t, column_count<Row>> at_{};
    std::size_t width_ = 0;
    std::vector<std::string_view> cells_;
    std::vector<std::string> unquoted_;
};

}  // namespace macheps::reports
