// SPDX-License-Identifier: Apache-2.0
// How deep a text may nest. Parsers and printers of trees call themselves for every level, so a text that others give
// is measured before it becomes a tree.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace macheps {

inline constexpr std::size_t most_levels = 256;

/// The 1-based line of a JSON text on which a bracket opens beyond most_levels; nothing where none does. What is no JSON
/// is measured as well as may be.
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
            if (++depth > most_levels) return line;
        } else if ((c == ']' || c == '}') && depth > 0) {
            --depth;
        }
    }
    return std::nullopt;
}

}  // namespace macheps
