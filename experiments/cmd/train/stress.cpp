// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/train/stress.hpp"

#include "core/format_table.hpp"
#include "core/text/json.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/train/defaults.hpp"
#include "reports/findings/value_range.hpp"
#include "reports/logs/manifest_facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace macheps::cmd::train {

using namespace reports;

using namespace training;

using namespace policy;

namespace {

/// Returns a TOML string. Every JSON string is a valid TOML string.
std::string quoted(const std::string& text) { return Json(text).dump(); }

std::vector<std::string_view> stress_names() {
    std::vector<std::string_view> names;
    for (const TrainingKey* key : training_keys_of("stress")) names.push_back(key->name);
    return names;
}

const TrainingKey& stress_key(const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    for (const TrainingKey* key : training_keys_of("stress")) {
        if (key->name == name && name.size() < word.size()) return *key;
    }
    throw Error(
        {.what = fmt::format("'{}' is not a valid stress", word),
         .where = "--stress",
         .fix = fmt::format("pass {}=VALUE, such as {}, or none", fmt::join(stress_names(), "=VALUE, "), usual_stress),
         .exit = Exit::usage});
}

/// Returns whether a forward value is cast without a scale to a format that overflows earlier than fp32.
bool has_narrow_forward(const ResolvedPolicy& policy) {
    return std::any_of(policy.casts.begin(), policy.casts.end(), [](const auto& each) {
        const auto& [slot, cast] = each;
        if (slot.find(":forward") == std::string::npos || cast.has_scale()) return false;
        const FormatRange range{.largest = largest_of(format_name(cast.format)).value_or(0)};
        return range.largest > 0 && range.is_narrow();
    });
}

}  // namespace

std::string stress_help() {
    return fmt::format(
        "Train every policy a second time with values as large as in pretrained models: {}=VALUE, or none. "
        "Default: none. "
        "With --config: {} if a policy casts forward values to a format of narrow range (fp16, or fp8 without scales)",
        fmt::join(stress_names(), "=VALUE, "), usual_stress);
}

Policy stressed(const Policy& policy, const TrainingKey& key, double value) {
    const PolicySource& base = policy.sources.front();
    const std::string stress = fmt::format("{}={}", key.name, power_words(value)),
                      name = stressed_name(policy.name, stress);
    // The policy that a policy file extends is looked up in the folder of the file.
    const std::filesystem::path path = base.name;
    const std::string extends = base.is_file ? "./" + path.filename().string() : base.name;
    PolicySource own{.name = base.is_file ? (path.parent_path() / name).lexically_normal().string() : name,
                     .is_file = base.is_file,
                     .text = fmt::format("name = {}\ndescription = {}\nextends = {}\n\n[stress]\n{} = {:.1f}\n",
                                         quoted(name), quoted(fmt::format("{}, stressed with {}", policy.name, stress)),
                                         quoted(extends), key.name, value)};
    std::vector<PolicySource> sources{std::move(own)};
    sources.insert(sources.end(), policy.sources.begin(), policy.sources.end());
    Policy out = parse_policy(sources);
    out.config = policy.config;
    return out;
}

void add_stressed(Experiment& experiment, const std::string& word, bool has_configs) {
    if (word == "none") return;
    std::vector<Policy>& policies = experiment.policies;
    if (word.empty()) {
        if (!has_configs) return;
        const SiteList sites = model_sites(experiment.model);
        const auto is_narrow = [&](const Policy& policy) { return has_narrow_forward(resolve(policy, sites)); };
        if (std::none_of(policies.begin(), policies.end(), is_narrow)) return;
        eprint(
            "macheps: every policy is trained a second time with {}, because one of them computes in a format of "
            "narrow range; --stress none turns this off\n",
            usual_stress);
    }
    const std::string said = word.empty() ? usual_stress : word;
    const TrainingKey& key = stress_key(said);
    const double value = parse_weight(said.substr(said.find('=') + 1), "--stress");
    if (!key.is_good(value)) {
        throw Error({.what = fmt::format("{} cannot be {:g}", key.name, value),
                     .where = "--stress",
                     .fix = fmt::format("pass {}", key.wanted),
                     .exit = Exit::usage});
    }
    const std::size_t count = policies.size();
    for (std::size_t i = 0; i < count; ++i) policies.push_back(stressed(policies[i], key, value));
}

}  // namespace macheps::cmd::train
