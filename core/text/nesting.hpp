// SPDX-License-Identifier: Apache-2.0
// Limits the nesting depth of text from outside. Parsers and printers of trees are recursive, so the depth is checked
// before a text is parsed.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace macheps {

inline constexpr std::size_t max_levels = 256;

/// Returns the line, counted from 1, of the first bracket in a JSON text that is nested deeper than max_levels. Returns
/// nothing if the text is not nested that deep. For text that is not valid JSON, the result is approximate.
constexpr std::optional<std::size_t> line_nested_too_deep(std::string_view json) {
    std::size_t depth = 0, line = 1;
    bool quoted = false;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (c == '\n') ++line;
        if (quoted) {
            if (c == '\\') ++i;
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > max_levels) return line;
        } else if ((c == ']' || c == '}') && depth > 0) {
            --depth;
        }
    }
    return std::nullopt;
}

}  // namespace macheps
