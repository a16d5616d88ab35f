// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/toml_lines.hpp"

#include <algorithm>

namespace macheps::files {

namespace {

/// Decides whether a quote begins a string. TOML allows a string only at some positions of a line. At any other
/// position, a quote is an error, such as a part of a malformed number. The parser begins no string there, so this
/// class does not begin one there or on the rest of the line.
class Place {
  public:
    /// Returns whether `quote` begins a string here. A multi-line string can only be a value, after the `=` of its key.
    bool may_begin(std::string_view quote) const {
        const bool is_behind_dot = before_ == '.' && !is_value_;
        return !is_broken_ && !is_lost_ && (quote.size() == 1 || has_sign_) &&
               (is_behind_dot || std::string_view(" \t\r\n=,[{;").find(before_) != std::string_view::npos);
    }
    void pass(char c) {
        if (c == '\n' || c == ';') is_broken_ = is_value_ = has_sign_ = false;
        if (c == '=') is_value_ = has_sign_ = true;
        if (c == ',' || c == '{') is_value_ = false;
        if (c == '"' || c == '\'') is_broken_ = true;
        before_ = c;
    }
    /// After this call, no quote begins a string. Called for the quotes of a multi-line string at a position where TOML
    /// does not allow one, because it is then unknown where the string ends.
    void lose() { is_lost_ = true; }
    void pass_string() { before_ = '"'; }

  private:
    char before_ = '\n';
    bool is_value_ = false, has_sign_ = false, is_broken_ = false, is_lost_ = false;
};

}  // namespace

TomlLines split_toml_lines(std::string_view text) {
    TomlLines lines{.text = std::string(text), .starts = {{}}, .stray = {}};
    std::uint32_t line = 1, column = 1;
    std::string_view quote;  // the quotes that close the open string; empty outside strings
    bool is_comment = false;
    Place place;
    for (std::size_t i = 0; i < text.size();) {
        const std::string_view rest = text.substr(i);
        const char c = rest[0];
        std::size_t taken = 1;
        if (!quote.empty()) {
            if (c == '\\' && quote[0] == '"' && rest.size() > 1 && rest[1] != '\n') {
                taken = 2;
            } else if (rest.starts_with(quote)) {
                taken = quote.size();
                // Up to two quotes before the closing quotes belong to the string.
                while (quote.size() == 3 && taken < 5 && taken < rest.size() && rest[taken] == quote[0]) ++taken;
                quote = {};
                place.pass_string();
            } else if (c == '\n' && quote.size() == 1) {
                quote = {};  // the string is not closed: the parser reports it
                place.pass(c);
            }
        } else if (!is_comment) {
            for (const std::string_view begin : {"\"\"\"", "'''", "\"", "'"}) {
                if (!rest.starts_with(begin)) continue;
                if (!place.may_begin(begin)) {
                    if (begin.size() == 3) place.lose();
                    continue;
                }
                quote = begin;
                taken = begin.size();
                break;
            }
            is_comment = c == '#';
            const bool is_mark = i < 3 && text.starts_with("\xEF\xBB\xBF");  // UTF-8 byte order mark
            if (static_cast<unsigned char>(c) >= 0x80 && !is_mark && !lines.stray) lines.stray = {line, column};
            if (c == ';') lines.text[i] = '\n';
            if (quote.empty() && !is_mark) place.pass(c);
        }
        if (c == '\n') {
            if (is_comment) place.pass(c);
            is_comment = false;
        }
        // Columns count characters, so only the first byte of each UTF-8 sequence counts.
        const auto bytes = rest.substr(0, taken);
        column += static_cast<std::uint32_t>(std::count_if(
            bytes.begin(), bytes.end(), [](char b) { return (static_cast<unsigned char>(b) & 0xC0) != 0x80; }));
        if (c == '\n') ++line, column = 1;
        if (lines.text[i] == '\n') lines.starts.push_back({line, column});
        i += taken;
    }
    return lines;
}

}  // namespace macheps::files
