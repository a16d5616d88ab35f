// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/value.hpp"
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/shown.hpp"
#include "experiments/files/config/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace macheps::files {

std::string to_string(const ConfigPlace& place) {
    const std::string file = printable(place.file);
    if (place.line == 0) return file;
    return fmt::format("{}:{}:{}", file, place.line, place.column);
}

const ConfigValue::Entry* ConfigValue::entry(std::string_view key) const {
    for (const Entry& each : entries) {
        if (each.key == key) return &each;
    }
    return nullptr;
}

const ConfigValue* ConfigValue::find(std::string_view path) const {
    const std::size_t dot = path.find('.');
    const Entry* found = entry(path.substr(0, dot));
    if (found == nullptr) return nullptr;
    return dot == std::string_view::npos ? &found->value : found->value.find(path.substr(dot + 1));
}

ConfigValue* ConfigValue::find(std::string_view path) {
    return const_cast<ConfigValue*>(std::as_const(*this).find(path));
}

void ConfigValue::set(std::string_view path, ConfigValue new_value) {
    const std::size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& each) { return each.key == key; });
    if (kind != Kind::map) {
        ConfigValue map;
        map.kind = Kind::map;
        map.place = new_value.place;
        *this = std::move(map);
        found = entries.end();
    }
    if (found == entries.end()) {
        entries.push_back({std::string(key), new_value.place, {}});
        found = std::prev(entries.end());
    }
    if (dot != std::string_view::npos) {
        found->value.set(path.substr(dot + 1), std::move(new_value));
        return;
    }
    found->place = new_value.place;
    found->value = std::move(new_value);
}

void ConfigValue::erase(std::string_view key) {
    std::erase_if(entries, [&](const Entry& each) { return each.key == key; });
}

std::optional<double> written_number(const ConfigValue& value) {
    if (value.is_number()) return value.number;
    if (!value.is_text()) return {};
    return config_text::number_of(value.written);
}

void merge_config(ConfigValue& base, const ConfigValue& over) {
    if (!base.is_map() || !over.is_map()) {
        base = over;
        return;
    }
    for (const ConfigValue::Entry& each : over.entries) {
        auto found = std::find_if(base.entries.begin(), base.entries.end(),
                                  [&](const ConfigValue::Entry& one) { return one.key == each.key; });
        if (found == base.entries.end()) {
            base.entries.push_back(each);
        } else {
            found->place = each.place;
            merge_config(found->value, each.value);
        }
    }
}

void apply_override(ConfigValue& root, std::string_view text, const std::string& name) {
    const std::size_t equals = text.find('=');
    const std::string_view path = text.substr(0, equals);
    const bool is_path = !path.empty() && path.front() != '.' && path.back() != '.' &&
                         path.find("..") == std::string_view::npos &&
                         std::count(path.begin(), path.end(), '.') < config_depth_limit;
    if (equals == std::string_view::npos || !is_path) {
        throw Error({.what = fmt::format("'{}' is not a valid override", text),
                     .where = name,
                     .fix = "write key=value, with dots between the keys of maps: fp16.loss_scale=128",
                     .exit = Exit::usage});
    }
    config_text::check(text, name);
    const std::string_view written = text.substr(equals + 1);
    const bool is_flow = !written.empty() && (written.front() == '[' || written.front() == '{' ||
                                              written.front() == '"' || written.front() == '\'');
    ConfigValue value = is_flow ? read_yaml_config(written, name).root : yaml_scalar(written, {name, 0, 0});
    if (const std::optional<double> number = written_number(value); number && !value.quoted) {
        value.kind = ConfigValue::Kind::number;
        value.number = *number;
    }
    config_text::place_all(value, {name, 0, 0});
    root.set(path, std::move(value));
}

namespace {

enum class Language : std::uint8_t { json, yaml, arguments };

/// Returns the language of a file. The extension of the file name determines it. If the extension is unknown, the first
/// characters of the text determine it.
Language language_of(const std::filesystem::path& path, std::string_view text) {
    const std::string ending = path.extension().string();
    if (ending == ".json") return Language::json;
    if (ending == ".yaml" || ending == ".yml") return Language::yaml;
    if (ending == ".args" || ending == ".sh") return Language::arguments;
    text = config_text::without_mark(text);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return Language::yaml;
    text.remove_prefix(first);
    if (text.front() == '{') {
        const std::size_t next = text.find_first_not_of(" \t\r\n", 1);
        return next != std::string_view::npos && text[next] == '"' ? Language::json : Language::yaml;
    }
    return text.size() > 2 && text.starts_with("--") && text[2] != '-' ? Language::arguments : Language::yaml;
}

std::string bytes_of(const std::string& path) {
    std::error_code failed;
    if (std::filesystem::is_directory(path, failed)) {
        throw Error({.what = "this is a directory", .where = path, .fix = "name a file in it, or use --each"});
    }
    // Reading one byte more than the limit is enough to detect a file that is too large, even a pipe that never ends.
    std::string text;
    read_blocks(path, config_size_limit + 1, [&](std::string_view block) { text += block; });
    return text;
}

}  // namespace

ConfigFile read_config_file(const std::string& path) {
    const std::string text = bytes_of(path);
    config_text::check(text, path);
    switch (language_of(path, text)) {
        case Language::json:
            return read_json_config(text, path);
        case Language::arguments:
            return read_argument_config(text, path);
        case Language::yaml:
            break;
    }
    return read_yaml_config(text, path);
}

}  // namespace macheps::files
