// SPDX-License-Identifier: Apache-2.0
// Writes rows to CSV files and reads them back. A file contains only whole rows, even after a kill or on a full disk.
// Cells are quoted as in RFC 4180, and lines end with LF.
#pragma once
#include "core/host/descriptor.hpp"
#include "reports/rows/checksum.hpp"
#include "reports/rows/event.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace macheps::reports {

namespace csv {

void append_cell(std::string& line, std::string_view value);
void append_cell(std::string& line, bool value);
void append_cell(std::string& line, std::int64_t value);
void append_cell(std::string& line, std::uint64_t value);
void append_cell(std::string& line, float value);
void append_cell(std::string& line, double value);
void append_cell(std::string& line, ExponentBin value);
void append_cell(std::string& line, ExponentBin::Kind value);
template <class Value>
void append_cell(std::string& line, const std::optional<Value>& value) {
    if (value) append_cell(line, *value);
}

/// These functions parse a cell. They return false if `text` is not a value of the type of `value`.
[[nodiscard]] bool parse_cell(std::string_view text, std::string& value);
[[nodiscard]] bool parse_cell(std::string_view text, bool& value);
[[nodiscard]] bool parse_cell(std::string_view text, std::int64_t& value);
[[nodiscard]] bool parse_cell(std::string_view text, std::uint64_t& value);
[[nodiscard]] bool parse_cell(std::string_view text, float& value);
[[nodiscard]] bool parse_cell(std::string_view text, double& value);
[[nodiscard]] bool parse_cell(std::string_view text, ExponentBin& value);
[[nodiscard]] bool parse_cell(std::string_view text, ExponentBin::Kind& value);
template <class Value>
[[nodiscard]] bool parse_cell(std::string_view text, std::optional<Value>& value) {
    if (text.empty()) {
        value.reset();
        return true;
    }
    return parse_cell(text, value.emplace());
}

/// Returns the header of `Row` without its line end.
template <class Row>
std::string header() {
    std::string line;
    for_each_column<Row>([&](const auto& c) { line.append(line.empty() ? "" : ",").append(c.name); });
    return line;
}

/// Returns the columns of `Row` whose cells may be empty. A file of an older version may lack these columns.
template <class Row>
std::vector<std::string_view> optional_columns() {
    std::vector<std::string_view> names;
    const auto look = [&](const auto& c) {
        if (is_optional<std::decay_t<decltype(Row{}.*c.field)>>) names.push_back(c.name);
    };
    for_each_column<Row>(look);
    return names;
}

/// Appends `row` as one line with its line end. Omits the cells of the columns for which `lacks` is true. An empty
/// `lacks` omits none.
template <class Row>
void append_line(std::string& text, const Row& row, const std::vector<bool>& lacks = {}) {
    bool first = true;
    std::size_t index = 0;
    const auto cell = [&](const auto& c) {
        if (const std::size_t at = index++; at < lacks.size() && lacks[at]) return;
        if (!first) text += ',';
        first = false;
        append_cell(text, row.*c.field);
    };
    for_each_column<Row>(cell);
    text += '\n';
}

/// Returns the number of bytes up to and including the last line end that ends a row. A line end inside quotes does not
/// end a row.
std::size_t whole_rows(std::string_view text);

/// The state of a file: its length, and the checksum of its contents.
struct FileMark {
    std::uint64_t bytes = 0, checksum = 0;
    bool operator==(const FileMark&) const = default;
};

/// An append-only file of whole lines.
class LineFile {
  public:
    /// Opens or creates `path`. An existing file must begin with `header`, and loses an unterminated last row. A file
    /// from an older version may lack columns of `may_lack`. New rows omit these columns as well, so a resumed run
    /// keeps the columns with which it began. Any other header is refused with a list of the differences, because a
    /// file with rows of two widths could not be read.
    LineFile(std::filesystem::path path, std::string_view header, std::span<const std::string_view> may_lack = {});
    ~LineFile();
    LineFile(LineFile&&) = default;
    LineFile& operator=(LineFile&&) = delete;

    /// Returns the buffer. The caller appends whole lines to it and then calls written().
    std::string& buffer() { return buffer_; }
    void written() {
        if (buffer_.size() >= flush_bytes) flush();
    }
    void flush();
    /// Calls flush(), and then forces the data onto the disk.
    void sync();
    /// Returns the length and checksum of the flushed bytes.
    FileMark mark() const { return {sum_.bytes(), sum_.value()}; }
    const std::filesystem::path& path() const { return path_; }
    /// Returns for each column of the header whether the file lacks it. Empty if the file has all columns.
    const std::vector<bool>& lacks() const { return lacks_; }

  private:
    static constexpr std::size_t flush_bytes = 1 << 16;
    std::filesystem::path path_;
    std::string buffer_;
    Checksum sum_;
    Descriptor file_;
    std::vector<bool> lacks_;
};

/// A parsed file: its cells without quotes, and the line of each row.
struct Cells {
    std::vector<std::string> header;
    std::vector<std::vector<std::string>> rows;
    std::vector<std::size_t> lines;  ///< 1-based first line of each row
    std::vector<std::string> notes;  ///< in words: an unterminated last row was left out, or there is no header
};

/// Reads the cells of a file. If the header has no line end yet, because the writer was stopped in its first moments,
/// the result has no header, no rows and a note.
/// Errors: a file that cannot be read, text after a closing quote, a row with more or fewer cells than the header.
Cells read_cells(const std::filesystem::path& path);

/// Returns the index of column `name`, or nullopt if the header does not have it.
std::optional<std::size_t> find_column(const Cells& cells, std::string_view name);

/// Throws Error, Exit::bad_input, for a header of `path` that lacks a column which every version has written.
[[noreturn]] void throw_no_column(const std::filesystem::path& path, std::string_view name);

[[noreturn]] void throw_bad_cell(const std::filesystem::path& path, std::size_t line, std::string_view column,
                                 const std::string& text);

/// Returns all bytes of a file. Throws Error, Exit::bad_input.
std::string read_text(const std::filesystem::path& path);
/// Returns the length and checksum of the first `most` bytes of a file, or of all bytes if the file is shorter. Throws
/// Error, Exit::bad_input.
FileMark mark_of(const std::filesystem::path& path, std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
/// Forces everything that any process has written to `path` onto the disk.
void sync_file(const std::filesystem::path& path);
/// Truncates `path` to `bytes` and forces the change onto the disk. A shorter or missing file is not changed.
void cut_back(const std::filesystem::path& path, std::uint64_t bytes);

}  // namespace csv

/// Appends rows to a new or an existing file. The header comes from Row::columns. Rows stay in memory until flush() is
/// called, 64 KiB have accumulated, or the writer is destroyed. They are written as whole lines in one write(2), so
/// that a killed process leaves whole rows. (Readers ignore a last row without a line end.)
/// Errors: throws Error, Exit::cannot_write, if the file cannot be created or written. If a write fails, the file is
/// first truncated to whole rows. Throws Error, Exit::bad_input, if an existing file has a different header. The
/// destructor writes the remaining rows but does not throw, so call flush() first.
template <class Row>
class CsvWriter {
  public:
    explicit CsvWriter(std::filesystem::path path)
        : file_(std::move(path), csv::header<Row>(), csv::optional_columns<Row>()) {}

    void append(const Row& row) {
        csv::append_line(file_.buffer(), row, file_.lacks());
        file_.written();
    }
    void flush() { file_.flush(); }
    void sync() { file_.sync(); }
    csv::FileMark mark() const { return file_.mark(); }
    const std::filesystem::path& path() const { return file_.path(); }

  private:
    csv::LineFile file_;
};

/// Reads a CSV file by the column names in its header. The file may come from an older or a newer version. Columns that
/// `Row` does not have are ignored. Columns that the file lacks are handled as described at `Column`.
/// Errors: throws Error, Exit::bad_input, naming file, line and column.
template <class Row>
class CsvReader {
  public:
    explicit CsvReader(const std::filesystem::path& path) {
        csv::Cells cells = csv::read_cells(path);
        notes_ = std::move(cells.notes);
        if (cells.header.empty()) return;
        rows_.resize(cells.rows.size());
        const auto read_column = [&](const auto& c) {
            const std::optional<std::size_t> at = csv::find_column(cells, c.name);
            if (!at && !c.may_be_absent()) csv::throw_no_column(path, c.name);
            for (std::size_t i = 0; at && i < rows_.size(); ++i) {
                if (!csv::parse_cell(cells.rows[i][*at], rows_[i].*c.field)) {
                    csv::throw_bad_cell(path, cells.lines[i], c.name, cells.rows[i][*at]);
                }
            }
        };
        for_each_column<Row>(read_column);
    }

    const std::vector<Row>& rows() const& { return rows_; }
    std::vector<Row> rows() && { return std::move(rows_); }
    /// Describes problems that did not prevent reading the file.
    const std::vector<std::string>& notes() const { return notes_; }

  private:
    std::vector<Row> rows_;
    std::vector<std::string> notes_;
};

}  // namespace macheps::reports
