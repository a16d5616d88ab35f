// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/toml_lines.hpp"

#include <algorithm>

namespace macheps::files {

namespace {

/// Where on its line the text outside of strings is. A quote begins a string only where TOML has one; anywhere else it is a
/// character of a number or a name that cannot be read, and the parser looks at what follows as it does at those.
class Place {
  public:
    /// Strings of several lines are values, and stand behind the sign of their key.
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
    /// Where such a string may end, nobody knows.
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
    std::string_view quote;  // that ends the string that is open
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
                // The string may end in two quotes of its own.
                while (quote.size() == 3 && taken < 5 && taken < rest.size() && rest[taken] == quote[0]) ++taken;
                quote = {};
                place.pass_string();
            } else if (c == '\n' && quote.size() == 1) {
                quote = {};  // a string that nothing ends: the parser says so
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
            const bool is_mark = i < 3 && text.starts_with("\xEF\xBB\xBF");  // of UTF-8, which may begin a file
            if (static_cast<unsigned char>(c) >= 0x80 && !is_mark && !lines.stray) lines.stray = {line, column};
            if (c == ';') lines.text[i] = '\n';
            if (quote.empty() && !is_mark) place.pass(c);
        }
        if (c == '\n') {
            if (is_comment) place.pass(c);
            is_comment = false;
        }
        // Columns count characters: of several bytes of UTF-8 the first.
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
