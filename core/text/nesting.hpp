// SPDX-License-Identifier: Apache-2.0
// Limits the nesting of a text. Parsers and printers of trees are recursive, so a text from outside is checked before
// it is parsed.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace macheps {

inline constexpr std::size_t max_levels = 256;

/// Returns the line of a JSON text, counted from 1, on which a bracket opens beyond max_levels, or nothing if there is
/// none. For text that is not valid JSON, the result is approximate.
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
