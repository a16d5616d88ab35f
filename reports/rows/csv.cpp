// SPDX-License-Identifier: Apache-2.0
#include "reports/rows/csv.hpp"

#include "core/error.hpp"
#include "core/host/float_environment.hpp"
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/text/float_chars.hpp"
#include "core/text/print.hpp"
#include "core/text/shown.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

namespace macheps::reports::csv {

namespace {

/// Truncates the file to `bytes`. Returns false, and sets errno, if that fails. Tries again after a signal.
bool shortened(const Descriptor& file, std::uint64_t bytes) {
    while (::ftruncate(file.number(), off_t(bytes)) != 0) {
        if (errno != EINTR) return false;
    }
    return true;
}

/// The CSV words for the values of ExponentBin::Kind, in the order of the enumeration.
constexpr std::array<std::string_view, 4> exponent_kinds{"number", "zero", "inf", "nan"};

template <class Number>
void append_number(std::string& line, Number value) {
    char text[40];
    const auto end = number_to_chars(text, text + sizeof text, value).ptr;
    line.append(text, end);
}

template <class Number>
void append_float(std::string& line, Number value) {
    // to_chars prints the sign of a NaN, which differs between processors.
    if (value != value) {
        line += "nan";
    } else {
        append_number(line, value);
    }
}

template <class Number>
bool parse_number(std::string_view text, Number& value) {
    const DefaultFloatModes modes;  // from_chars multiplies, so its result depends on the rounding mode
    const auto [end, error] = number_from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

template <class Number>
bool parse_float(std::string_view text, Number& value) {
    using Limits = std::numeric_limits<Number>;
    if (text == "nan") return value = Limits::quiet_NaN(), true;
    if (text == "inf") return value = Limits::infinity(), true;
    if (text == "-inf") return value = -Limits::infinity(), true;
    // from_chars also accepts other spellings of NaN and infinity ("nan(1)", "infinity"). macheps never writes these.
    if (text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return false;
    return parse_number(text, value);
}

std::vector<std::string_view> names_in(std::string_view header) {
    std::vector<std::string_view> names;
    for (std::size_t at = 0; at <= header.size();) {
        const std::size_t end = std::min(header.find(',', at), header.size());
        names.push_back(header.substr(at, end - at));
        at = end + 1;
    }
    return names;
}

/// Describes how the header of a file differs from `ours`: `: it lacks 'x', and has 'y'`.
std::string difference(std::string_view theirs, std::string_view ours) {
    const std::vector<std::string_view> their_names = names_in(theirs), our_names = names_in(ours);
    const auto only_in = [](const std::vector<std::string_view>& these, const std::vector<std::string_view>& others) {
        std::string list;
        for (const std::string_view name : these) {
            if (std::find(others.begin(), others.end(), name) != others.end()) continue;
            list += fmt::format("{}'{}'", list.empty() ? "" : ", ", name);
        }
        return list;
    };
    const std::string lacks = only_in(our_names, their_names), has = only_in(their_names, our_names);
    if (lacks.empty() && has.empty()) return ": they are in a different order";
    return (lacks.empty() ? "" : ": it lacks " + lacks) +
           (has.empty() ? "" : (lacks.empty() ? ": it has " : ", and has ") + has);
}

/// Returns for each column of the header `ours` whether the header `theirs` lacks it. Only columns in `may_lack` may be
/// missing. Returns nothing if the headers differ in any other way.
std::optional<std::vector<bool>> lacking(std::string_view theirs, std::string_view ours,
                                         std::span<const std::string_view> may_lack) {
    const std::vector<std::string_view> their_names = names_in(theirs);
    std::vector<bool> lacks;
    std::size_t at = 0;
    for (const std::string_view name : names_in(ours)) {
        const bool is_there = at < their_names.size() && their_names[at] == name;
        if (!is_there && std::find(may_lack.begin(), may_lack.end(), name) == may_lack.end()) return std::nullopt;
        lacks.push_back(!is_there);
        at += is_there ? 1 : 0;
    }
    if (at != their_names.size()) return std::nullopt;
    return lacks;
}

/// Returns true for numbers joined by blanks, a fraction, or a histogram such as `-8:4;zero:1`. In a spreadsheet, such
/// a cell cannot call a function or a program.
bool is_list_of_numbers(std::string_view cell) {
    while (true) {
        const std::size_t end = cell.find_first_of(" /:;");
        const std::string_view item = cell.substr(0, end);
        if (item != exponent_kinds[std::size_t(ExponentBin::Kind::zero)] && !macheps::parse_number(item)) return false;
        if (end == cell.npos) return true;
        cell.remove_prefix(end + 1);
    }
}

/// Returns whether a spreadsheet would evaluate the cell as a formula. A number with a sign is not a formula.
bool is_formula(std::string_view cell) {
    const std::size_t begin = cell.find_first_not_of(" \t\r\n");
    if (begin == cell.npos || begin + 1 == cell.size() ||
        std::string_view("=+-@").find(cell[begin]) == std::string_view::npos)
        return false;
    return !is_list_of_numbers(cell);
}

}  // namespace

std::string read_text(const std::filesystem::path& path) { return read_regular_file(path); }

FileMark mark_of(const std::filesystem::path& path, std::uint64_t most) {
    Checksum sum;
    read_blocks(open_regular_file(path), path, most, [&](std::string_view block) { sum.update(block); });
    return {sum.bytes(), sum.value()};
}

void append_cell(std::string& line, std::string_view value) {
    const std::string text = is_formula(value) ? "'" + printable(value) : printable(value);
    if (text.find_first_of(",\"") == std::string_view::npos) {
        line += text;
        return;
    }
    line += '"';
    for (const char c : text) line.append(c == '"' ? 2 : 1, c);
    line += '"';
}

void append_cell(std::string& line, bool value) { line += value ? '1' : '0'; }
void append_cell(std::string& line, std::int64_t value) { append_number(line, value); }
void append_cell(std::string& line, std::uint64_t value) { append_number(line, value); }
void append_cell(std::string& line, float value) { append_float(line, value); }
void append_cell(std::string& line, double value) { append_float(line, value); }

void append_cell(std::string& line, ExponentBin value) {
    if (value.kind == ExponentBin::Kind::number) return append_number(line, value.exponent);
    append_cell(line, value.kind);
}

void append_cell(std::string& line, ExponentBin::Kind value) { line += exponent_kinds[std::size_t(value)]; }

bool parse_cell(std::string_view text, std::string& value) { return value = printable(text), true; }
bool parse_cell(std::string_view text, bool& value) {
    value = text == "1";
    return text == "0" || text == "1";
}
bool parse_cell(std::string_view text, std::int64_t& value) { return parse_number(text, value); }
bool parse_cell(std::string_view text, std::uint64_t& value) { return parse_number(text, value); }
bool parse_cell(std::string_view text, float& value) { return parse_float(text, value); }
bool parse_cell(std::string_view text, double& value) { return parse_float(text, value); }

bool parse_cell(std::string_view text, ExponentBin& value) {
    value = {};
    if (parse_cell(text, value.kind)) return value.kind != ExponentBin::Kind::number;
    value.kind = ExponentBin::Kind::number;
    // Readers allocate a bin for each exponent, so larger exponents than ExponentBin::largest are refused. The
    // exponents of all formats and of double are smaller.
    return parse_number(text, value.exponent) && std::abs(std::int64_t{value.exponent}) <= ExponentBin::largest;
}

bool parse_cell(std::string_view text, ExponentBin::Kind& value) {
    const auto found = std::find(exponent_kinds.begin(), exponent_kinds.end(), text);
    value = ExponentBin::Kind(found - exponent_kinds.begin());
    return found != exponent_kinds.end();
}

std::size_t whole_rows(std::string_view text) {
    std::size_t end = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '"') quoted = !quoted;  // a doubled quote toggles twice
        if (text[i] == '\n' && !quoted) end = i + 1;
    }
    return end;
}

LineFile::LineFile(std::filesystem::path path, std::string_view header, std::span<const std::string_view> may_lack)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
    if (!file_) throw_cannot_write(path_, errno, "open for writing");
    struct stat status {};
    if (::fstat(file_.number(), &status) != 0) throw_cannot_write(path_, errno, "inspect");
    const bool is_file = S_ISREG(status.st_mode);
    const std::string there = is_file && status.st_size > 0 ? read_text(path_) : std::string{};
    const std::size_t whole = whole_rows(there);
    sum_.update(std::string_view(there).substr(0, whole));
    if (whole < there.size() && !shortened(file_, whole)) {
        throw_cannot_write(path_, errno, "cut off an unterminated last row");
    }
    if (whole == 0) {
        buffer_.append(header).append("\n");
        flush();
    } else if (const auto begun = std::string_view(there).substr(0, there.find('\n')); begun != header) {
        if (std::optional<std::vector<bool>> lacks = lacking(begun, header, may_lack)) {
            lacks_ = std::move(*lacks);
            return;
        }
        throw Error(
            {.what = "the columns of this file are not those that this version writes" + difference(begun, header),
             .where = path_.string(),
             .fix = "continue with the version that created the file, or use a new folder"});
    }
}

LineFile::~LineFile() {
    if (!file_) return;
    try {
        flush();
    } catch (...) {  // a destructor cannot report errors; writers call flush() first
    }
}

void LineFile::flush() {
    if (buffer_.empty()) return;
    std::size_t done = 0;
    const int error = file_.write_all(buffer_, &done);
    if (error == 0) {
        sum_.update(buffer_);
        buffer_.clear();
        return;
    }
    // The file may now end with a part of a row. Cut this part off, and keep it in the buffer for a later flush.
    const std::size_t kept = whole_rows(std::string_view(buffer_).substr(0, done));
    struct stat status {};
    const bool cut = done == kept || (::fstat(file_.number(), &status) == 0 &&
                                      shortened(file_, std::uint64_t(status.st_size) - (done - kept)));
    sum_.update(std::string_view(buffer_).substr(0, cut ? kept : done));
    buffer_.erase(0, cut ? kept : done);
    throw_cannot_write(path_, error, "write");
}

void LineFile::sync() {
    flush();
    if (const int error = file_.sync()) throw_cannot_write(path_, error, "write to the disk");
}

Cells read_cells(const std::filesystem::path& path) {
    const std::string text = read_text(path);
    const std::size_t end = whole_rows(text);
    Cells cells;
    if (end == 0) {
        cells.notes.push_back(
            fmt::format("{}: the header is incomplete, so there are no rows (did the run just start?)", path.string()));
    } else if (end < text.size()) {
        cells.notes.push_back(
            fmt::format("{}: the last row has no line end and was left out (was the run cut off?)", path.string()));
    }
    std::vector<std::string> row;
    std::string cell;
    std::size_t line = 1, row_line = 1;
    bool quoted = false, closed = false;
    const auto bad = [&](std::string what) {
        return Error({.what = std::move(what),
                      .where = fmt::format("{}:{}", path.string(), row_line),
                      .fix = "restore the file, or delete the damaged row"});
    };
    for (std::size_t i = 0; i < end; ++i) {
        const char c = text[i];
        if (c == '\n') ++line;
        if (quoted) {
            if (c != '"') {
                cell += c;
            } else if (i + 1 < end && text[i + 1] == '"') {
                cell += text[++i];
            } else {
                quoted = false, closed = true;
            }
        } else if (c == '"' && cell.empty() && !closed) {
            quoted = true;
        } else if (c == ',') {
            row.push_back(std::exchange(cell, {})), closed = false;
        } else if (c == '\n' || (c == '\r' && text[i + 1] == '\n')) {
            if (c == '\r') continue;
            row.push_back(std::exchange(cell, {})), closed = false;
            if (cells.header.empty()) {
                cells.header = std::move(row);
            } else if (row.size() != cells.header.size()) {
                throw bad(fmt::format("the row has {} cells, but the header has {}", row.size(), cells.header.size()));
            } else {
                cells.rows.push_back(std::move(row));
                cells.lines.push_back(row_line);
            }
            row.clear();
            row_line = line;
        } else if (closed || c == '"') {
            throw bad("the row has a quote in the wrong place");
        } else {
            cell += c;
        }
    }
    return cells;
}

std::optional<std::size_t> find_column(const Cells& cells, std::string_view name) {
    const auto found = std::find(cells.header.begin(), cells.header.end(), name);
    if (found == cells.header.end()) return std::nullopt;
    return std::size_t(found - cells.header.begin());
}

void throw_no_column(const std::filesystem::path& path, std::string_view name) {
    throw Error({.what = fmt::format("the header has no column '{}'", name),
                 .where = path.string(),
                 .fix = "check that macheps wrote this file"});
}

void throw_bad_cell(const std::filesystem::path& path, std::size_t line, std::string_view column,
                    const std::string& text) {
    throw Error({.what = fmt::format("'{}' is not a valid value for column '{}'", text, column),
                 .where = fmt::format("{}:{}", path.string(), line),
                 .fix = "restore the file, or delete the damaged row"});
}

void sync_file(const std::filesystem::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const int error = file ? file.sync() : errno;
    if (error != 0) throw_cannot_write(path, error, "write to the disk");
}

void cut_back(const std::filesystem::path& path, std::uint64_t bytes) {
    const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file) {
        if (errno == ENOENT) return;
        throw_cannot_write(path, errno, "open for writing");
    }
    struct stat status {};
    int error = ::fstat(file.number(), &status) == 0 ? 0 : errno;
    if (error == 0 && std::uint64_t(status.st_size) > bytes) {
        if (!shortened(file, bytes)) error = errno;
        if (error == 0) error = file.sync();
    }
    if (error != 0) throw_cannot_write(path, error, "truncate the file");
}

}  // namespace macheps::reports::csv
