// SPDX-License-Identifier: Apache-2.0
#include "reports/logs/method_facts.hpp"

#include "core/text/json.hpp"
#include "reports/logs/folder_settings.hpp"
#include "reports/logs/manifest_facts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::reports {

namespace {

std::string manifest_word(const Json& object, std::string_view key) {
    const Json* value = object.find(key);
    return value != nullptr && value->is_string() ? value->string() : std::string{};
}

void add_different(std::vector<std::string>& list, std::string text) {
    if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

/// Returns the line `description = "..."` of a policy's TOML text, or an empty text. Descriptions have no escapes.
std::string description_in(const std::string& toml) {
    constexpr std::string_view key = "\ndescription";
    const std::size_t at = ("\n" + toml).find(key);
    if (at == std::string::npos) return {};
    const std::string line = toml.substr(at, toml.find('\n', at) - at);
    const std::size_t first = line.find('"'), last = line.rfind('"');
    return first < last && last != std::string::npos ? line.substr(first + 1, last - first - 1) : std::string{};
}

template <class Map>
typename Map::mapped_type facts_at(const Map& map, const std::string& key) {
    const auto found = map.find(key);
    return found == map.end() ? typename Map::mapped_type{} : found->second;
}

}  // namespace

void MethodFacts::add(const Json& manifest) {
    for (const auto& [name, value] : folder_settings(manifest)) {
        const auto is_same = [&name = name](const Setting& one) { return one.name == name; };
        const auto found = std::find_if(settings.begin(), settings.end(), is_same);
        Setting& setting = found == settings.end() ? settings.emplace_back(Setting{.name = name}) : *found;
        if (std::find(setting.values.begin(), setting.values.end(), value) == setting.values.end())
            setting.values.push_back(value);
    }
    if (const auto count = manifest_facts(manifest).parameters) parameters.insert(*count);
    const std::string program = manifest_word(manifest, "created_by"), revision = manifest_word(manifest, "git");
    add_different(programs, revision.empty()
                                ? program
                                : fmt::format("{} (revision {})", program.empty() ? "macheps" : program, revision));
    add_different(devices, manifest_word(manifest, "device"));
}

void MethodFacts::add_policy(const std::string& shown, const std::string& name, const Json& manifest) {
    const auto is_same = [&](const Policy& one) { return one.name == shown; };
    if (std::any_of(policies.begin(), policies.end(), is_same)) return;
    const ManifestFacts facts = manifest_facts(manifest);
    Policy policy{.name = shown,
                  .beside_precision = facts_at(facts.beside_precision, name),
                  .machines = facts_at(facts.machines, name),
                  .not_emulated = facts_at(facts.not_emulated, name)};
    const Json* all = manifest.find("policies");
    const Json* json = all != nullptr ? all->find(name) : nullptr;
    if (json != nullptr) {
        policy.description = manifest_word(*json, "description");
        if (const Json* bases = json->find("extends"); bases != nullptr && bases->is_array()) {
            for (const Json& base : *bases) add_different(policy.bases, description_in(manifest_word(base, "toml")));
        }
    }
    policies.push_back(std::move(policy));
}

void MethodFacts::add_run(const std::string& shown, const RunRow& row) {
    ++runs;
    seeds.insert(row.seed);
    const auto is_same = [&](const Policy& one) { return one.name == shown; };
    const auto found = std::find_if(policies.begin(), policies.end(), is_same);
    Policy& policy = found == policies.end() ? policies.emplace_back(Policy{.name = shown}) : *found;
    ++policy.runs;
    if (policy.matmul_formats.empty() && row.matmul_formats) policy.matmul_formats = *row.matmul_formats;
}

std::vector<std::string> MethodFacts::values_of(std::string_view name) const {
    const auto found =
        std::find_if(settings.begin(), settings.end(), [&](const Setting& one) { return one.name == name; });
    return found == settings.end() ? std::vector<std::string>{} : found->values;
}

}  // namespace macheps::reports
