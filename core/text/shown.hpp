// SPDX-License-Identifier: Apache-2.0
// Makes the text of an input safe to show on a terminal, in the log of a job and in tables. Host only.
//
// The author of an input chooses the names of tensors, keys, sites, archive members and files. Such a name could
// control a terminal, reverse the direction of text, begin a new line, or contain a command for the service that reads
// a log (GitHub: a line that begins with `::`, or `##[` anywhere; Azure Pipelines: `##vso[`).
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace macheps {

/// The first character of a text in UTF-8 (Unicode 15, table 3-7).
struct Character {
    std::size_t bytes = 0;  ///< 0: the text does not begin with a well-formed character
    char32_t code = 0;
};
Character first_character(std::string_view text);

/// Returns true for control characters, format characters (some reverse the direction of text), line separators and
/// noncharacters.
bool is_invisible(char32_t code) noexcept;
/// Returns whether a text begins with `##[` or `##vso[`, which logs execute at any place of a line.
bool begins_log_command(std::string_view text) noexcept;

/// Returns `text` as one line of visible characters in valid UTF-8. Control characters become `\n`, `\t`, `\r` or
/// `\x1b`, other invisible characters become `\u202e`, and bytes that are not UTF-8 become `\xff`. A backslash is
/// inserted into commands of a log. All other text is unchanged, including backslashes. Therefore
/// printable(printable(x)) == printable(x).
std::string printable(std::string_view text);

/// Does the same for several lines. Line ends and tabs are kept, and a line may begin with `::`.
std::string printable_lines(std::string_view text);
/// Returns whether printable_lines() would change nothing. Allocates no memory.
bool is_printable_lines(std::string_view text) noexcept;

/// Maximum number of bytes of an error that is shown.
inline constexpr std::size_t longest_error = 8000;

/// Returns printable(name), without its middle if it has more than `most` bytes.
std::string shown(std::string_view name, std::size_t most = 120);

/// Returns the first names, joined by ", ", and how many more there are: `a, b and 15998 more`.
template <class Names>
std::string shown_list(const Names& names, std::size_t most = 8) {
    std::string text;
    std::size_t count = 0;
    for (const auto& name : names) {
        if (++count <= most) text += (count == 1 ? "" : ", ") + shown(name);
    }
    return count <= most ? text : text + " and " + std::to_string(count - most) + " more";
}

/// The type of a value in a message: a text is passed through printable(), any other value is unchanged.
template <class Value>
using ShownValue = std::conditional_t<std::is_convertible_v<const Value&, std::string_view>, std::string, const Value&>;
template <class Value>
ShownValue<Value> shown_value(const Value& value) {
    if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
        return printable(value);
    } else {
        return value;
    }
}
template <class... Values>
using ShownFormat = fmt::format_string<ShownValue<Values>...>;

/// Does fmt::format() after passing each text among the values through printable(). Only the literal can begin lines.
template <class... Values>
std::string format_shown(ShownFormat<Values...> format, const Values&... values) {
    return fmt::format(format, shown_value(values)...);
}

}  // namespace macheps
