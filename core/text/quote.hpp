// SPDX-License-Identifier: Apache-2.0
// Quotes text as a word of another language. The scripts and jobs that the program writes quote all input through these
// functions. Pages, JUnit, CSV and JSON have their own writers (reports/pages/html.hpp, junit.hpp, csv.hpp,
// core/text/json.hpp). Host only.
#pragma once
#include "core/error.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// Returns whether a text needs no quotes in a shell and on an #SBATCH line.
inline bool is_plain_word(std::string_view text) {
    constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./,:=@%+";
    return !text.empty() && text.find_first_not_of(plain) == std::string_view::npos;
}

/// Returns the text in single quotes, as a POSIX shell reads it back.
inline std::string shell_quoted(std::string_view text) {
    std::string word = "'";
    for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + "'";
}

/// Does the same, but without quotes if the text needs none.
inline std::string shell_word(std::string_view text) {
    return is_plain_word(text) ? std::string(text) : shell_quoted(text);
}

/// Splits a text at its blanks, except inside single or double quotes, into the words that a shell would see. Nothing
/// is expanded, and `;` and `$` have no special meaning.
inline std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    bool has_word = false;
    char quote = 0;
    for (const char c : text) {
        if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
            has_word = false;
            continue;
        }
        if (!has_word) words.emplace_back();
        has_word = true;
        if (quote == c) {
            quote = 0;
        } else if (quote == 0 && (c == '\'' || c == '"')) {
            quote = c;
        } else {
            words.back() += c;
        }
    }
    return words;
}

/// Returns whether a text has a character that ends a line or controls a terminal.
inline bool has_control_character(std::string_view text) {
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return true;
    }
    return false;
}

/// Throws Error, Exit::usage, if the text has a control character, which a directive or value on one line cannot
/// contain.
inline void check_one_line(std::string_view text, std::string_view what, std::string_view where) {
    if (!has_control_character(text)) return;
    throw Error({.what = fmt::format("{} contains a control character, such as a line break", what),
                 .where = std::string(where),
                 .fix = "use a name without one",
                 .exit = Exit::usage});
}

/// Returns the text as the value of an option on an #SBATCH line. Slurm reads double quotes and a backslash there as a
/// shell does. The text has no control character (check_one_line).
inline std::string sbatch_word(std::string_view text) {
    if (is_plain_word(text)) return std::string(text);
    std::string word = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') word += '\\';
        word += c;
    }
    return word + "\"";
}

/// Returns the text as a scalar of YAML, in double quotes. The text is UTF-8 without control characters.
inline std::string yaml_quoted(std::string_view text) {
    std::string word = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') word += '\\';
        word += c;
    }
    return word + "\"";
}

}  // namespace macheps
