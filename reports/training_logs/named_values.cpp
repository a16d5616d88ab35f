// SPDX-License-Identifier: Apache-2.0
#include "reports/training_logs/named_values.hpp"

namespace macheps::reports {

namespace {

void skip_blanks(std::string_view& text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    text.remove_prefix(first == std::string_view::npos ? text.size() : first);
}

/// Removes a text in quotes from the front of `text` and returns its contents, or nothing if the end is missing.
std::optional<std::string_view> take_quoted(std::string_view& text) {
    const char quote = text.front();
    for (std::size_t i = 1; i < text.size(); ++i) {
        if (text[i] == '\\') {
            ++i;
        } else if (text[i] == quote) {
            const std::string_view inside = text.substr(1, i - 1);
            text.remove_prefix(i + 1);
            return inside;
        }
    }
    return std::nullopt;
}

bool is_quote(char c) { return c == '"' || c == '\''; }

/// Removes a value from the front of `text`: everything up to a comma or the end of the map that contains it.
std::optional<std::string_view> take_value(std::string_view& text) {
    if (!text.empty() && is_quote(text.front())) return take_quoted(text);
    const std::string_view all = text;
    int depth = 0;
    while (!text.empty()) {
        const char c = text.front();
        if (is_quote(c)) {
            if (!take_quoted(text)) return std::nullopt;
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}')) return all.substr(0, all.size() - text.size());
        if (c == '{' || c == '[' || c == '(') ++depth;
        if (c == '}' || c == ']' || c == ')') --depth;
        text.remove_prefix(1);
    }
    return std::nullopt;
}

}  // namespace

std::optional<NamedValues> take_named_values(std::string_view& text) {
    NamedValues values;
    std::string_view rest = text.substr(1);
    skip_blanks(rest);
    while (!rest.empty() && is_quote(rest.front())) {
        const std::optional<std::string_view> name = take_quoted(rest);
        skip_blanks(rest);
        if (!name || !rest.starts_with(':')) return std::nullopt;
        rest.remove_prefix(1);
        skip_blanks(rest);
        const std::optional<std::string_view> value = take_value(rest);
        if (!value) return std::nullopt;
        values.emplace_back(*name, *value);
        skip_blanks(rest);
        if (!rest.starts_with(',')) break;
        rest.remove_prefix(1);
        skip_blanks(rest);
    }
    if (!rest.starts_with('}')) return std::nullopt;
    text = rest.substr(1);
    return values;
}

}  // namespace macheps::reports
