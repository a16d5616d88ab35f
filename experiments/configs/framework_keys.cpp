// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/framework_keys.hpp"
#include "core/text/split.hpp"

namespace macheps::configs {

namespace {

bool stands_for(std::string_view pattern, std::string_view path) {
    while (!pattern.empty() && !path.empty()) {
        const std::string_view part = take_until(pattern, '.');
        if (part == "**") return true;
        if (const std::string_view name = take_until(path, '.'); part != "*" && part != name) return false;
    }
    return pattern.empty() && path.empty();
}

/// Calls `observe` with each key in the text of a list of keys, until a call returns true.
template <class Observe>
void each_key(std::string_view text, Observe observe) {
    while (!text.empty()) {
        std::string_view line = take_until(text, '\n');
        if (line.empty() || line.front() == '#') continue;
        FrameworkKey key{.path = take_until(line, ' '), .since = take_until(line, ' '), .until = line};
        if (key.since == "-") key.since = {};
        if (key.until == "-") key.until = {};
        if (observe(key)) return;
    }
}

}  // namespace

std::optional<FrameworkKey> find_framework_key(std::string_view text, std::string_view path) {
    std::optional<FrameworkKey> found;
    each_key(text, [&](const FrameworkKey& key) {
        if (stands_for(key.path, path)) found = key;
        return found.has_value();
    });
    return found;
}

std::vector<FrameworkKey> framework_keys(std::string_view text) {
    std::vector<FrameworkKey> keys;
    each_key(text, [&](const FrameworkKey& key) {
        keys.push_back(key);
        return false;
    });
    return keys;
}

}  // namespace macheps::configs
