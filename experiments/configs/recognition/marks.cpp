// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/recognition/marks.hpp"
#include "core/text/split.hpp"

#include <algorithm>

namespace macheps::configs {

namespace {

using files::ConfigFile;
using files::ConfigValue;

/// Returns whether a pattern matches a text. A `*` at the end of the pattern matches any rest.
bool fits(std::string_view pattern, std::string_view text) {
    if (!pattern.ends_with('*')) return pattern == text;
    return text.starts_with(pattern.substr(0, pattern.size() - 1));
}

/// Calls `test` with each value at a path whose parts may be `*`. Returns whether a call returns true.
template <class Test>
bool any_value(const ConfigValue& map, std::string_view path, const Test& test) {
    if (const ConfigValue::Entry* entry = map.entry(path)) return test(entry->value);  // the key may contain dots
    std::string_view rest = path;
    const std::string_view part = take_until(rest, '.');
    return std::any_of(map.entries.begin(), map.entries.end(), [&](const ConfigValue::Entry& entry) {
        if (part != "*" && part != entry.key) return false;
        return rest.empty() ? test(entry.value) : any_value(entry.value, rest, test);
    });
}

bool has_word(std::string_view words, const ConfigValue& value) {
    while (!words.empty()) {
        const std::string_view one = take_until(words, '|');
        if (!value.written.empty() && fits(one, value.written)) return true;
        for (const ConfigValue& item : value.items) {
            if (fits(one, item.written)) return true;
        }
    }
    return false;
}

bool has_program(std::string_view pattern, const ConfigFile& config) {
    const auto is_it = [&](std::string_view name) {
        return fits(pattern, name) || fits(pattern, name.substr(name.rfind('/') + 1));
    };
    const auto& modules = config.python_modules;
    if (std::any_of(modules.begin(), modules.end(), is_it)) return true;
    if (!config.command) return false;
    const auto& programs = config.command->programs;
    return is_it(config.command->launcher) || std::any_of(programs.begin(), programs.end(), is_it);
}

std::string_view form_of(const ConfigFile& config) {
    if (config.python_statement) return "program";
    switch (config.language) {
        case files::ConfigLanguage::json:
            return "json";
        case files::ConfigLanguage::yaml:
            return "yaml";
        case files::ConfigLanguage::toml:
            return "toml";
        case files::ConfigLanguage::python:
            return "python";
        case files::ConfigLanguage::arguments:
            return "arguments";
        case files::ConfigLanguage::command:
            break;
    }
    return "command";
}

bool holds(std::string_view condition, const ConfigFile& config) {
    if (condition.starts_with('!')) return !holds(condition.substr(1), config);
    if (condition.starts_with('#')) return form_of(config) == condition.substr(1);
    if (condition.starts_with('@')) return has_program(condition.substr(1), config);
    std::string_view words = condition;
    const std::string_view path = take_until(words, '=');
    return any_value(config.root, path,
                     [&](const ConfigValue& value) { return words.empty() || has_word(words, value); });
}

/// Returns a condition as a word of an error, or an empty text for a condition that is not a word of the file.
std::string shown(std::string_view condition, const ConfigFile& config) {
    if (condition.starts_with('!') || condition.starts_with('#')) return {};
    if (!condition.starts_with('@')) return std::string(condition);
    if (config.command && !config.command->programs.empty()) return config.command->programs.front();
    return std::string(condition.substr(1));
}

}  // namespace

std::vector<std::string> marks_of(std::string_view marks, const ConfigFile& config) {
    std::vector<std::string> found;
    for (std::string_view rest : listed_names(marks)) {
        std::string text;
        bool all_hold = true;
        while (all_hold && !rest.empty()) {
            const std::string_view condition = take_until(rest, '+');
            all_hold = holds(condition, config);
            const std::string word = shown(condition, config);
            if (!word.empty()) text += (text.empty() ? "" : ", ") + word;
        }
        if (all_hold) found.push_back(text);
    }
    return found;
}

}  // namespace macheps::configs
