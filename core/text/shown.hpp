// SPDX-License-Identifier: Apache-2.0
// Makes text from an input file safe to show on a terminal, in the log of a CI job and in tables. Host only.
//
// The author of an input file chooses the names of tensors, keys, sites, archive members and files. Such a name could
// control a terminal, reverse the direction of text, begin a new line, or contain a command for the CI service that
// reads the log (GitHub: a line that begins with `::`, or `##[` anywhere; Azure Pipelines: `##vso[`).
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
/// Returns whether a text begins with `##[` or `##vso[`. CI services execute such a command at any position of a log
/// line.
bool begins_log_command(std::string_view text) noexcept;

/// Returns `text` as one line of visible characters in valid UTF-8. Control characters become escapes such as `\n` or
/// `\x1b`. Other invisible characters become escapes such as `\u202e`, and bytes that are not UTF-8 become escapes such
/// as `\xff`. A backslash is inserted into log commands. All other text is unchanged, including backslashes. Therefore
/// printable(printable(x)) == printable(x).
std::string printable(std::string_view text);

/// Returns text of several lines as visible characters, like printable(), but keeps line ends and tabs and allows a
/// line to begin with `::`.
std::string printable_lines(std::string_view text);
/// Returns whether printable_lines() would return `text` unchanged. Allocates no memory.
bool is_printable_lines(std::string_view text) noexcept;

/// Maximum length, in bytes, of an error message that is shown.
inline constexpr std::size_t longest_error = 8000;

/// Returns printable(name). If this is longer than `most` bytes, `[...]` replaces its middle.
std::string shown(std::string_view name, std::size_t most = 120);

/// Returns the first `most` names, joined by ", ", and the number of further names: `a, b and 15998 more`.
template <class Names>
std::string shown_list(const Names& names, std::size_t most = 8) {
    std::string text;
    std::size_t count = 0;
    for (const auto& name : names) {
        if (++count <= most) text += (count == 1 ? "" : ", ") + shown(name);
    }
    return count <= most ? text : text + " and " + std::to_string(count - most) + " more";
}

/// The type of the argument that format_shown() passes to fmt for a value. A text is passed as a std::string, the
/// result of printable(). Any other value is passed unchanged, as a reference.
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

/// Formats like fmt::format(), but passes each text value through printable() first. Therefore only the format string
/// can begin new lines.
template <class... Values>
std::string format_shown(ShownFormat<Values...> format, const Values&... values) {
    return fmt::format(format, shown_value(values)...);
}

}  // namespace macheps
