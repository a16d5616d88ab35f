// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/matrix_market.hpp"

#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/print.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>

namespace macheps::files {

namespace {

constexpr std::uint64_t max_market_bytes = std::uint64_t{1} << 31;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Reads a Matrix Market file line by line, and splits lines into words.
class MarketLines {
  public:
    MarketLines(std::string_view text, std::string_view where) : rest_(text), where_(where) {}

    /// Returns the next line, or nothing at the end of the text.
    std::optional<std::string_view> next() {
        if (rest_.empty()) return std::nullopt;
        ++line_;
        const std::size_t end = rest_.find('\n');
        const std::string_view line = rest_.substr(0, end);
        rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
        return line;
    }

    /// Returns the words of the next line that is neither empty nor a comment, or none at the end of the text.
    std::vector<std::string_view> words() {
        while (const auto line = next()) {
            if (line->starts_with('%')) continue;
            std::vector<std::string_view> found = words_of(*line);
            if (!found.empty()) return found;
        }
        return {};
    }

    static std::vector<std::string_view> words_of(std::string_view line) {
        std::vector<std::string_view> found;
        for (std::size_t at = 0; at < line.size();) {
            if (is_blank(line[at])) {
                ++at;
                continue;
            }
            std::size_t end = at;
            while (end < line.size() && !is_blank(line[end])) ++end;
            found.push_back(line.substr(at, end - at));
            at = end;
        }
        return found;
    }

    Error error(std::string what, std::string fix) const {
        return Error({.what = std::move(what), .where = fmt::format("{}:{}", where_, line_), .fix = std::move(fix)});
    }

  private:
    std::string_view rest_, where_;
    std::size_t line_ = 0;
};

std::int64_t count_in(const MarketLines& lines, std::string_view word) {
    std::int64_t value = 0;
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || last != word.data() + word.size() || value < 0) {
        throw lines.error(fmt::format("'{}' is not a valid count", word), "give a whole number of at least 0");
    }
    return value;
}

double value_in(const MarketLines& lines, std::string_view word) {
    const std::optional<double> value = parse_number(word);
    if (!value) throw lines.error(fmt::format("'{}' is not a valid number", word), "give a decimal number");
    return *value;
}

enum class Symmetry : std::uint8_t { general, symmetric, skew };

struct MarketHeader {
    bool is_sparse = false, is_pattern = false;
    Symmetry symmetry = Symmetry::general;
};

std::string lower_case(std::string_view word) {
    std::string text(word);
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    return text;
}

MarketHeader header_of(MarketLines& lines) {
    const auto line = lines.next();
    std::vector<std::string> words;
    for (const std::string_view word : MarketLines::words_of(line.value_or(""))) words.push_back(lower_case(word));
    if (words.size() != 5 || words[0] != "%%matrixmarket" || words[1] != "matrix") {
        throw lines.error("the Matrix Market header is missing",
                          "begin with a header such as %%MatrixMarket matrix coordinate real general");
    }
    MarketHeader header;
    if (words[2] != "array" && words[2] != "coordinate") {
        throw lines.error(fmt::format("unknown layout '{}'", words[2]), "use array or coordinate");
    }
    header.is_sparse = words[2] == "coordinate";
    if (words[3] == "complex") throw lines.error("complex numbers are not supported", "give a real matrix");
    if (words[3] != "real" && words[3] != "double" && words[3] != "integer" && words[3] != "pattern") {
        throw lines.error(fmt::format("unknown kind of numbers '{}'", words[3]), "use real, integer or pattern");
    }
    header.is_pattern = words[3] == "pattern";
    if (header.is_pattern && !header.is_sparse) {
        throw lines.error("a pattern cannot be stored as an array", "give a coordinate file");
    }
    if (words[4] == "hermitian") throw lines.error("Hermitian matrices are not supported", "give a real matrix");
    if (words[4] != "general" && words[4] != "symmetric" && words[4] != "skew-symmetric") {
        throw lines.error(fmt::format("unknown symmetry '{}'", words[4]), "use general, symmetric or skew-symmetric");
    }
    header.symmetry = words[4] == "general"     ? Symmetry::general
                      : words[4] == "symmetric" ? Symmetry::symmetric
                                                : Symmetry::skew;
    return header;
}

/// Reads the elements column by column, in the order of the file. A symmetric matrix is stored as its columns from the
/// diagonal down, and a skew-symmetric matrix as its columns below the diagonal.
void read_dense(MarketLines& lines, const MarketHeader& header, StoredMatrix& a) {
    std::vector<std::string_view> words;
    std::size_t at = 0;
    const auto next = [&] {
        if (at == words.size()) words = lines.words(), at = 0;
        if (words.empty()) throw lines.error("the file ends before the matrix does", "give every element");
        return value_in(lines, words[at++]);
    };
    for (std::int64_t j = 0; j < a.n; ++j) {
        const std::int64_t first = header.symmetry == Symmetry::general ? 0
                                   : header.symmetry == Symmetry::skew  ? j + 1
                                                                        : j;
        for (std::int64_t i = first; i < a.n; ++i) {
            const double x = next();
            a.values[static_cast<std::size_t>(i * a.n + j)] = x;
            if (header.symmetry == Symmetry::general) continue;
            a.values[static_cast<std::size_t>(j * a.n + i)] = header.symmetry == Symmetry::skew ? -x : x;
        }
    }
    if (at != words.size() || !lines.words().empty())
        throw lines.error("there are more elements than the size says", "correct the size");
}

void read_sparse(MarketLines& lines, const MarketHeader& header, std::int64_t entries, StoredMatrix& a) {
    const std::size_t width = header.is_pattern ? 2 : 3;
    for (std::int64_t entry = 0; entry < entries; ++entry) {
        const std::vector<std::string_view> words = lines.words();
        if (words.empty())
            throw lines.error(fmt::format("the file has only {} of {} entries", entry, entries),
                              "correct the count or the file");
        if (words.size() != width) {
            throw lines.error(
                fmt::format("the line has {} words", words.size()),
                header.is_pattern ? "write an entry as ROW COLUMN" : "write an entry as ROW COLUMN VALUE");
        }
        const std::int64_t i = count_in(lines, words[0]), j = count_in(lines, words[1]);
        if (i < 1 || j < 1 || i > a.n || j > a.n) {
            throw lines.error(fmt::format("the entry in row {}, column {} is outside the matrix", i, j),
                              fmt::format("use rows and columns from 1 to {}", a.n));
        }
        if (header.symmetry == Symmetry::skew && i == j) {
            throw lines.error("a skew-symmetric matrix cannot have diagonal entries", "remove the entry");
        }
        const double x = header.is_pattern ? 1 : value_in(lines, words[2]);
        a.values[static_cast<std::size_t>((i - 1) * a.n + j - 1)] += x;
        if (header.symmetry == Symmetry::general || i == j) continue;
        a.values[static_cast<std::size_t>((j - 1) * a.n + i - 1)] += header.symmetry == Symmetry::skew ? -x : x;
    }
    if (!lines.words().empty()) throw lines.error("there are more entries than the count says", "correct the count");
}

}  // namespace

StoredMatrix parse_matrix_market(std::string_view text, std::string_view where, std::int64_t max_rows) {
    MarketLines lines(text, where);
    const MarketHeader header = header_of(lines);
    const std::vector<std::string_view> sizes = lines.words();
    if (sizes.size() != (header.is_sparse ? 3u : 2u)) {
        throw lines.error("the size is missing", header.is_sparse ? "give ROWS COLUMNS ENTRIES" : "give ROWS COLUMNS");
    }
    const std::int64_t rows = count_in(lines, sizes[0]), columns = count_in(lines, sizes[1]);
    if (rows != columns)
        throw lines.error(fmt::format("the matrix is {} x {}, which is not square", rows, columns),
                          "give a square matrix");
    if (rows < 1 || rows > max_rows) {
        throw lines.error(fmt::format("the matrix has {} rows", rows),
                          fmt::format("give a matrix of 1 to {} rows", max_rows));
    }
    const std::int64_t entries = header.is_sparse ? count_in(lines, sizes[2]) : 0;
    StoredMatrix a{.n = rows, .values = std::vector<double>(static_cast<std::size_t>(rows * rows))};
    if (header.is_sparse) {
        read_sparse(lines, header, entries, a);
    } else {
        read_dense(lines, header, a);
    }
    return a;
}

StoredMatrix read_matrix_market(const std::filesystem::path& path, std::int64_t max_rows) {
    return parse_matrix_market(read_file(path, max_market_bytes), path.string(), max_rows);
}

}  // namespace macheps::files
