// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/edit.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace macheps::files {

namespace {

using Language = ConfigLanguage;

/// Returns the offset of a place in a text, or npos if the text is shorter.
std::size_t offset_of(std::string_view text, const ConfigPlace& place) {
    if (place.line == 0) return std::string_view::npos;
    std::size_t start = 0;
    for (std::uint32_t line = 1; line < place.line; ++line) {
        start = text.find('\n', start);
        if (start == std::string_view::npos) return start;
        ++start;
    }
    const std::size_t offset = start + place.column - 1;
    return offset < text.size() ? offset : std::string_view::npos;
}

/// Returns the characters of a scalar that begins at `start`, with its quotes.
std::string_view scalar_at(std::string_view text, std::size_t start) {
    std::size_t end = start;
    const char quote = text[start];
    if (quote == '"' || quote == '\'') {
        for (++end; end < text.size() && text[end] != quote; ++end) end += text[end] == '\\' && quote == '"';
        return text.substr(start, end + 1 - start);
    }
    const auto is_end = [&](std::size_t i) {
        return std::string_view(",}]\r\n").find(text[i]) != std::string_view::npos || text.substr(i).starts_with(" #");
    };
    while (end < text.size() && !is_end(end)) ++end;
    while (end > start && (text[end - 1] == ' ' || text[end - 1] == '\t')) --end;
    return text.substr(start, end - start);
}

/// Returns a scalar as the language writes it.
std::string written_in(Language language, std::string_view written) {
    const std::string value(written);
    if (language == Language::yaml) return value;
    ConfigValue root;
    root.kind = ConfigValue::Kind::map;
    apply_override(root, "key=" + value, "setting");
    const ConfigValue& scalar = root.entries.front().value;
    switch (scalar.kind) {
        case ConfigValue::Kind::boolean:
            if (language == Language::python) return scalar.boolean ? "True" : "False";
            return scalar.boolean ? "true" : "false";
        case ConfigValue::Kind::null:
            return language == Language::python ? "None" : "null";
        case ConfigValue::Kind::text:
            return fmt::format("\"{}\"", scalar.written);
        default:
            return value;
    }
}

/// Returns a key with its value: `"stage": 1`. Keys of `path` that follow the first become maps in braces.
std::string entry_text(Language language, std::string_view path, std::string_view value) {
    const std::size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    const std::string inner = dot == std::string_view::npos
                                  ? written_in(language, value)
                                  : fmt::format("{{{}}}", entry_text(language, path.substr(dot + 1), value));
    switch (language) {
        case Language::json:
            return fmt::format("\"{}\": {}", key, inner);
        case Language::yaml:
            return fmt::format("{}: {}", key, inner);
        default:
            return fmt::format("{} = {}", key, inner);
    }
}

/// Returns the start of the line that contains an offset.
std::size_t line_start(std::string_view text, std::size_t offset) {
    const std::size_t end = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
    return end == std::string_view::npos ? 0 : end + 1;
}

/// Returns the blanks at the start of the line of an offset, or nothing if other characters precede the offset.
std::optional<std::string_view> indent_before(std::string_view text, std::size_t offset) {
    const std::size_t start = line_start(text, offset);
    const std::string_view before = text.substr(start, offset - start);
    if (before.find_first_not_of(" \t") != std::string_view::npos) return {};
    return before;
}

/// Adds a key to a map in braces.
std::optional<std::string> added_in_braces(std::string_view text, const ConfigValue& map, std::size_t brace,
                                           const std::string& entry) {
    std::string edited(text);
    if (map.entries.empty()) return edited.insert(brace + 1, entry);
    const std::size_t first = offset_of(text, map.entries.front().place);
    if (first == std::string_view::npos) return {};
    if (const auto indent = indent_before(text, first); indent && line_start(text, first) > brace)
        return edited.insert(line_start(text, first), fmt::format("{}{},\n", *indent, entry));
    return edited.insert(brace + 1, entry + ", ");
}

/// Adds a key on a line before the first key of a map without braces.
std::optional<std::string> added_as_line(std::string_view text, const ConfigValue& map, const std::string& entry) {
    std::string edited(text);
    if (map.entries.empty()) return {};
    const std::size_t first = offset_of(text, map.entries.front().place);
    if (first == std::string_view::npos) return {};
    const auto indent = indent_before(text, first);
    if (!indent) return {};
    return edited.insert(line_start(text, first), fmt::format("{}{}\n", *indent, entry));
}

std::optional<std::string> added(std::string_view text, const ConfigFile& file, std::string_view path,
                                 std::string_view value) {
    // The longest part of the path that exists is a map.
    const ConfigValue* map = &file.root;
    std::string_view rest = path;
    while (map->is_map()) {
        const std::size_t dot = rest.find('.');
        const ConfigValue::Entry* next = dot == std::string_view::npos ? nullptr : map->entry(rest.substr(0, dot));
        if (next == nullptr) break;
        map = &next->value;
        rest = rest.substr(dot + 1);
    }
    if (!map->is_map()) return {};
    const std::string entry = entry_text(file.language, rest, value);
    if (file.language == Language::python) {
        const bool ends_line = text.empty() || text.ends_with('\n');
        return fmt::format("{}{}{}\n", text, ends_line ? "" : "\n", entry);
    }
    const std::size_t place = map == &file.root ? text.find_first_not_of(" \t\r\n") : offset_of(text, map->place);
    if (place != std::string_view::npos && text[place] == '{') return added_in_braces(text, *map, place, entry);
    return added_as_line(text, *map, entry);
}

std::optional<std::string> replaced(std::string_view text, const ConfigFile& file, const ConfigValue& old,
                                    std::string_view value) {
    if (old.is_map() || old.is_list()) return {};
    const std::size_t start = offset_of(text, old.place);
    if (start == std::string_view::npos) return {};
    std::string edited(text);
    return edited.replace(start, scalar_at(text, start).size(), written_in(file.language, value));
}

}  // namespace

bool means_the_same(const ConfigValue& a, const ConfigValue& b) {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
        case ConfigValue::Kind::null:
            return true;
        case ConfigValue::Kind::boolean:
            return a.boolean == b.boolean;
        case ConfigValue::Kind::number:
            return a.number == b.number;
        case ConfigValue::Kind::text:
            return a.written == b.written;
        case ConfigValue::Kind::list:
            return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), means_the_same);
        case ConfigValue::Kind::map:
            break;
    }
    return a.entries.size() == b.entries.size() &&
           std::all_of(a.entries.begin(), a.entries.end(), [&](const ConfigValue::Entry& one) {
               const ConfigValue::Entry* other = b.entry(one.key);
               return other != nullptr && means_the_same(one.value, other->value);
           });
}

std::optional<std::string> with_setting(std::string_view text, const ConfigFile& file, std::string_view path,
                                        std::string_view value) {
    if (file.language == Language::command || file.language == Language::arguments) return {};
    const ConfigValue* old = file.root.find(path);
    std::optional<std::string> edited =
        old == nullptr ? added(text, file, path, value) : replaced(text, file, *old, value);
    if (!edited) return {};
    ConfigValue wanted = file.root;
    apply_override(wanted, fmt::format("{}={}", path, value), "setting");
    constexpr std::string_view names[] = {"a.json", "a.yaml", "a.toml", "a.py"};
    const std::string name(names[static_cast<std::size_t>(file.language)]);
    try {
        if (!means_the_same(read_config_text(*edited, name, name).root, wanted)) return {};
    } catch (const Error&) {
        return {};
    }
    return edited;
}

}  // namespace macheps::files
