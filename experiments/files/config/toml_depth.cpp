// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/toml_depth.hpp"

#include "core/text/nesting.hpp"

#include <algorithm>
#include <vector>

namespace macheps::files {

namespace {

/// Returns the index of the line end that follows the comment at `at`.
std::size_t comment_end(std::string_view toml, std::size_t at) { return std::min(toml.find('\n', at), toml.size()); }

/// Returns the index of the last character of the string that the quote at `at` opens. The string may be basic or
/// literal, on one line or on several.
std::size_t string_end(std::string_view toml, std::size_t at) {
    const char quote = toml[at];
    const std::string_view three = toml.substr(at, 3);
    const bool is_long = three.size() == 3 && three[1] == quote && three[2] == quote;
    for (std::size_t i = at + (is_long ? 3 : 1); i < toml.size(); ++i) {
        if (toml[i] == '\\' && quote == '"') {
            ++i;
        } else if (is_long ? toml.substr(i, 3) == three : toml[i] == quote) {
            return i + (is_long ? 2 : 0);
        } else if (!is_long && toml[i] == '\n') {
            return i - 1;
        }
    }
    return toml.size() - 1;
}

}  // namespace

std::optional<std::size_t> toml_nested_too_deep(std::string_view toml) {
    std::vector<std::size_t> outside;            // for each open bracket, the number of dots in the key before it
    std::size_t levels = 0, dots = 0, line = 1;  // levels: depth of the open brackets; dots: number in the current key
    for (std::size_t i = 0; i < toml.size(); ++i) {
        switch (toml[i]) {
            case '#':
                i = comment_end(toml, i) - 1;
                break;
            case '"':
            case '\'': {
                const std::size_t end = string_end(toml, i);
                line += static_cast<std::size_t>(std::count(toml.begin() + static_cast<std::ptrdiff_t>(i),
                                                            toml.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
                i = end;
                break;
            }
            case '\n':
                ++line;
                if (outside.empty()) dots = 0;
                break;
            case '[':
            case '{':
                outside.push_back(dots);
                levels += dots + 1;
                dots = 0;
                break;
            case ']':
            case '}':
                if (outside.empty()) break;
                dots = outside.back();
                levels -= dots + 1;
                outside.pop_back();
                break;
            case ',':
                dots = 0;
                break;
            case '.':
                ++dots;
                break;
            default:
                break;
        }
        if (levels + dots > max_levels) return line;
    }
    return std::nullopt;
}

}  // namespace macheps::files
