// SPDX-License-Identifier: Apache-2.0
// Lists of rows that a verb prints as JSON, as CSV and as a table for people. The columns are described once.
// Rows of reports/rows, which are written to files and read back, are printed by row_output.hpp.
#pragma once
#include "core/text/json.hpp"
#include "reports/rows/rows_json.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::cmd {

enum class Align : std::uint8_t { left, right };

/// A line of a table, not aligned yet.
using TextCells = std::vector<std::string>;

/// Returns the lines with aligned columns. There are two spaces between columns. Lines have no trailing spaces and no
/// line ends. An empty cell becomes `-`. Columns beyond the length of `alignment` are aligned to the left.
std::vector<std::string> aligned_lines(const std::vector<TextCells>& lines, const std::vector<Align>& alignment = {});
/// Returns the lines as one text, each with a line end.
std::string joined_lines(const std::vector<std::string>& lines);

/// Returns a scalar as the text of a cell: an empty text for null, `1` or `0` for a bool, and a number with the fewest
/// digits that read back exactly.
std::string cell_text(const Json& value);

/// Returns a line of CSV with its line end.
std::string csv_line(const TextCells& cells);

/// A function that reads one value of a row. It is made from a pointer to a member, from a member function or from a
/// lambda. An empty std::optional becomes null, and an infinity or NaN becomes a word.
template <class Row>
class RowValue {
  public:
    RowValue() {}  // GCC 12 ends with an internal error if this is defaulted
    template <class Get>
    RowValue(Get get) : get_([get](const Row& row) { return reports::json_cell(std::invoke(get, row)); }) {}

    bool is_there() const { return static_cast<bool>(get_); }
    Json operator()(const Row& row) const { return get_(row); }

  private:
    std::function<Json(const Row&)> get_{};
};

/// How the cells of a column are printed. By default, they are printed like the column's value.
template <class Row>
struct RowCell {
    using Text = std::function<std::string(const Row&)>;
    Text table{};  ///< the cell of the table. Default: the cell of the CSV
    Text csv{};    ///< the cell of the CSV, before it is quoted. Default: cell_text(value)
    Align align = Align::left;
    bool is_in_json_only = false;
};

/// One column of a list. A column without a key is only in the table. A column without a heading is not in the table. A
/// column without a value is not in JSON.
template <class Row>
struct RowColumn {
    std::string key;  ///< name in JSON and CSV
    RowValue<Row> value{};
    std::string_view heading{};  ///< heading in the table
    RowCell<Row> cell{};

    bool is_in_csv() const { return !key.empty() && !cell.is_in_json_only; }
    bool is_in_table() const { return !heading.empty(); }
    std::string csv_cell(const Row& row) const { return cell.csv ? cell.csv(row) : cell_text(value(row)); }
    std::string table_cell(const Row& row) const { return cell.table ? cell.table(row) : csv_cell(row); }
};

/// The columns of a list, in their order in all three forms. `Rows` is any range of rows, or of pointers to rows.
template <class Row>
class RowTable {
  public:
    RowTable(std::vector<RowColumn<Row>> columns) : columns_(std::move(columns)) {}

    Json json_of(const Row& row) const {
        Json object = Json::object();
        for (const Column& column : columns_) {
            if (column.value.is_there()) object[column.key] = column.value(row);
        }
        return object;
    }
    template <class Rows>
    Json json(const Rows& rows) const {
        Json list = Json::array();
        for (const auto& row : rows) list.push_back(json_of(row_of(row)));
        return list;
    }

    std::string csv_header() const {
        return csv_line(cells(&Column::is_in_csv, [](const Column& column) { return column.key; }));
    }
    template <class Rows>
    std::string csv_lines(const Rows& rows) const {
        std::string text;
        for (const auto& row : rows)
            text +=
                csv_line(cells(&Column::is_in_csv, [&](const Column& column) { return column.csv_cell(row_of(row)); }));
        return text;
    }
    template <class Rows>
    std::string csv(const Rows& rows) const {
        return csv_header() + csv_lines(rows);
    }

    /// Returns the lines of the table: the headings, then a line for each row. The lines have no line ends.
    template <class Rows>
    std::vector<std::string> lines(const Rows& rows) const {
        std::vector<TextCells> lines{
            cells(&Column::is_in_table, [](const Column& column) { return std::string(column.heading); })};
        for (const auto& row : rows)
            lines.push_back(
                cells(&Column::is_in_table, [&](const Column& column) { return column.table_cell(row_of(row)); }));
        std::vector<Align> alignment;
        for (const Column& column : columns_) {
            if (column.is_in_table()) alignment.push_back(column.cell.align);
        }
        return aligned_lines(lines, alignment);
    }
    template <class Rows>
    std::string text(const Rows& rows) const {
        return joined_lines(lines(rows));
    }

  private:
    using Column = RowColumn<Row>;

    static const Row& row_of(const Row& row) { return row; }
    static const Row& row_of(const Row* row) { return *row; }

    /// Returns the texts cell(column) of all columns for which `is_in` returns true.
    template <class Cell>
    TextCells cells(bool (Column::*is_in)() const, const Cell& cell) const {
        TextCells all;
        for (const Column& column : columns_) {
            if ((column.*is_in)()) all.push_back(cell(column));
        }
        return all;
    }

    std::vector<Column> columns_;
};

}  // namespace macheps::cmd
