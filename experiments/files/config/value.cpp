// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/value.hpp"
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/shown.hpp"
#include "experiments/files/config/command_line/launcher.hpp"
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

void merge_config_file(ConfigFile& base, const ConfigFile& over) {
    std::erase_if(base.unknown_values, [&](const UnknownValue& one) {
        const ConfigValue* value = over.root.find(one.path);
        return value != nullptr && !value->is_map();
    });
    merge_config(base.root, over.root);
    const auto join = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    join(base.repeated, over.repeated);
    join(base.ignored_rules, over.ignored_rules);
    join(base.unknown_values, over.unknown_values);
    join(base.python_modules, over.python_modules);
    base.written_files.insert(over.written_files.begin(), over.written_files.end());
    if (over.python_statement) base.python_statement = over.python_statement;
    if (!over.command) return;
    base.command = over.command;
    base.language = over.language;
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

/// Returns the language of a text without a byte order mark, judged by its first words.
ConfigLanguage language_of_text(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return ConfigLanguage::yaml;
    text.remove_prefix(first);
    if (text.front() == '{') {
        const std::size_t next = text.find_first_not_of(" \t\r\n", 1);
        return next != std::string_view::npos && text[next] == '"' ? ConfigLanguage::json : ConfigLanguage::yaml;
    }
    if (text.size() > 2 && text.starts_with("--") && text[2] != '-') return ConfigLanguage::arguments;
    return text.starts_with("#!") || begins_with_launcher(text) ? ConfigLanguage::command : ConfigLanguage::yaml;
}

/// Returns the language of a file of options or commands. A file whose first word is an option is a file of options.
ConfigLanguage options_or_command(std::string_view text) {
    while (!text.empty()) {
        const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
        text.remove_prefix(first);
        if (!text.starts_with('#')) break;
        text.remove_prefix(std::min(text.find('\n'), text.size()));
    }
    return text.starts_with('-') ? ConfigLanguage::arguments : ConfigLanguage::command;
}

/// Returns the language of a file. The extension of the file name determines it. If the extension is unknown, the first
/// words of the text determine it.
ConfigLanguage language_of(const std::filesystem::path& path, std::string_view text) {
    const std::string ending = path.extension().string();
    text = config_text::without_mark(text);
    if (ending == ".json") return ConfigLanguage::json;
    if (ending == ".yaml" || ending == ".yml") return ConfigLanguage::yaml;
    if (ending == ".toml") return ConfigLanguage::toml;
    if (ending == ".py") return ConfigLanguage::python;
    if (ending == ".args" || ending == ".sh") return options_or_command(text);
    return language_of_text(text);
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

ConfigFile read_config_text(std::string_view text, const std::string& path, const std::string& name,
                            std::uint32_t line) {
    config_text::check(text, name);
    const ConfigLanguage language = language_of(path, text);
    ConfigFile file;
    switch (language) {
        case ConfigLanguage::json:
            file = read_json_config(text, name);
            break;
        case ConfigLanguage::yaml:
            file = read_yaml_config(text, name);
            break;
        case ConfigLanguage::toml:
            file = read_toml_config(text, name);
            break;
        case ConfigLanguage::python:
            file = read_python_config(text, name);
            break;
        case ConfigLanguage::arguments:
            file = read_argument_config(text, name);
            break;
        case ConfigLanguage::command:
            file = read_command_config(text, name, line);
            break;
    }
    file.language = language;
    return file;
}

std::string normal_path(std::string_view path) { return std::filesystem::path(path).lexically_normal().string(); }

const WrittenFile* find_written_file(const WrittenFiles& files, std::string_view path) {
    const auto found = files.find(normal_path(path));
    return found == files.end() ? nullptr : &found->second;
}

ConfigFile read_written_file(const WrittenFile& file, const std::string& path) {
    if (file.unknown.empty()) return read_config_text(file.text, path, file.place.file);
    throw Error({.what = fmt::format("the text of '{}' is unknown: {}", path, file.unknown),
                 .where = to_string(file.place),
                 .fix = "give the file itself, without the commands that write it"});
}

ConfigFile read_config_file(const std::string& path, std::uint32_t line) {
    return read_config_text(bytes_of(path), path, path, line);
}

}  // namespace macheps::files
