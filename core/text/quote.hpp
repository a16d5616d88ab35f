// SPDX-License-Identifier: Apache-2.0
// Quotes text for shells, Slurm and YAML. The scripts and job files that macheps writes quote all user input with these
// functions. HTML, JUnit, CSV and JSON have their own writers (reports/pages/html.hpp, junit.hpp, csv.hpp,
// core/text/json.hpp). Host only.
#pragma once
#include "core/error.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// Returns whether a text can be written without quotes in a shell and on an #SBATCH line.
inline bool is_plain_word(std::string_view text) {
    constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./,:=@%+";
    return !text.empty() && text.find_first_not_of(plain) == std::string_view::npos;
}

/// Returns the text in single quotes, so that a POSIX shell reads back the same text.
inline std::string shell_quoted(std::string_view text) {
    std::string word = "'";
    for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + "'";
}

/// Returns the text as one word for a POSIX shell: in single quotes if it needs quotes, unchanged otherwise.
inline std::string shell_word(std::string_view text) {
    return is_plain_word(text) ? std::string(text) : shell_quoted(text);
}

/// Splits a text into words at its blanks, except inside single or double quotes, and removes the quotes. All other
/// characters are ordinary: nothing is expanded, and `;`, `$` and backslashes have no special meaning.
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

/// Returns whether a text contains an ASCII control character, such as a line break or an escape.
inline bool has_control_character(std::string_view text) {
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return true;
    }
    return false;
}

/// Throws Error with Exit::usage if the text contains a control character, such as a line break. A directive or value
/// that must stay on one line cannot contain such a text.
inline void check_one_line(std::string_view text, std::string_view what, std::string_view where) {
    if (!has_control_character(text)) return;
    throw Error({.what = fmt::format("{} contains a control character, such as a line break", what),
                 .where = std::string(where),
                 .fix = "use a name without control characters",
                 .exit = Exit::usage});
}

/// Returns the text as the value of an option on an #SBATCH line, where Slurm reads double quotes and backslashes as a
/// shell does. The text must not contain control characters (see check_one_line).
inline std::string sbatch_word(std::string_view text) {
    if (is_plain_word(text)) return std::string(text);
    std::string word = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') word += '\\';
        word += c;
    }
    return word + "\"";
}

/// Returns the text as a YAML scalar in double quotes. The text must be UTF-8 without control characters.
inline std::string yaml_quoted(std::string_view text) {
    std::string word = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') word += '\\';
        word += c;
    }
    return word + "\"";
}

}  // namespace macheps
