// SPDX-License-Identifier: Apache-2.0
// `macheps policy list`: the presets in groups, and their short names.
#include "experiments/cmd/policy/preset_list.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/training/model/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

namespace macheps::cmd::policies {

using namespace training;

using namespace policy;

namespace {

constexpr const char* list_help = R"(Lists the presets in groups.

Examples:
  macheps policy list
  macheps policy list --json)";

constexpr const char* list_notes =
    R"(In brackets: the matrix units that the matmuls run on, if they are not fp32.chain. The short names of
a policy may be used in its place. Results are recorded under the name of the preset.

JSON:
  [{"name", "description", "extends", "loss_scaler", "machines", "group", "aliases"}, ...])";

/// Presets that belong together. A preset is in the first group with a matching pattern; the last pattern matches all.
struct PresetGroup {
    std::string_view title, pattern;
};

constexpr PresetGroup groups[] = {
    {"Baselines", "{fp32,tf32}"},
    {"Mixed precision with 16 bits, as in autocast", "{amp-*,fp16-noscale,static-*}"},
    {"Weights in 16 bits", "{pure-*,infer-*}"},
    {"fp8", "{fp8-*,te-delayed,te-current,te-block,ao-tensorwise,ao-rowwise*,dsv3,e5m2-*,lf-fp8-*}"},
    {"MX and NVFP4 (scales for 16 or 32 terms)", "{te-mxfp8,te-nvfp4,ao-mxfp8-*,mx-*}"},
    {"On the matrix units of an A100", "a100-*"},
    {"On the matrix units of an H100", "h100-*"},
    {"On the matrix units of a B200", "b200-*"},
    {"On a CPU", "cpu-*"},
    {"Others", "*"},
};

constexpr std::string_view first_four[] = {"fp32", "amp-bf16", "amp-fp16", "fp8-tensorwise"};

const PresetGroup& group_of(std::string_view preset) {
    return *std::find_if(std::begin(groups), std::end(groups),
                         [&](const PresetGroup& group) { return glob_match(group.pattern, preset); });
}

Json setting_json(const ScalerKey& key, std::optional<double> value) {
    if (!value) return nullptr;
    switch (key.type) {
        case ScalerValue::fp32:
            return json_number(static_cast<float>(*value));
        case ScalerValue::count:
            return static_cast<std::int64_t>(*value);
        case ScalerValue::flag:
            return *value != 0;
        case ScalerValue::version:
            return to_string(key, value);
        case ScalerValue::number:
            break;
    }
    return json_number(*value);
}

/// Returns the machines that a policy uses, each once. Resolves the policy for the tiny gpt2, because this model has
/// every kind of matmul.
std::vector<std::string_view> machine_names(const Policy& policy) {
    const ResolvedPolicy resolved = resolve(policy, model_sites(named_size("tiny").model));
    std::vector<std::string_view> names;
    for (const auto& [matmul, choice] : resolved.matmuls) {
        const std::string_view name = choice.rule.machine->name;
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

/// Returns the name of a preset with its short names, such as `amp-bf16 (bf16)`.
std::string name_with_aliases(const Policy& policy) {
    const std::vector<std::string_view> aliases = aliases_of(policy);
    return aliases.empty() ? policy.name : fmt::format("{} ({})", policy.name, fmt::join(aliases, ", "));
}

Json list_json(const std::vector<Policy>& policies) {
    Json json = Json::array();
    for (const Policy& p : policies) {
        json.push_back({{"name", p.name},
                        {"description", p.description},
                        {"extends", p.chain},
                        {"loss_scaler", scaler_json(p.loss_scaler)},
                        {"machines", machine_names(p)},
                        {"group", group_of(p.name).title},
                        {"aliases", aliases_of(p)}});
    }
    return json;
}

std::string list_text(const std::vector<Policy>& policies) {
    std::size_t width = 0;
    for (const Policy& p : policies) width = std::max(width, name_with_aliases(p).size());
    std::string text = fmt::format("Begin with these four: {}.\n", fmt::join(first_four, ", "));
    for (const PresetGroup& group : groups) {
        bool is_first = true;
        for (const Policy& p : policies) {
            if (&group_of(p.name) != &group) continue;
            if (is_first) text += fmt::format("\n{}\n", group.title);
            is_first = false;
            const std::string machines = fmt::format("{}", fmt::join(machine_names(p), ", "));
            text += fmt::format("  {:<{}}  {}{}\n", name_with_aliases(p), width, p.description,
                                machines == fp32_chain.name ? "" : fmt::format(" [{}]", machines));
        }
    }
    text += "\nShort names (in parentheses)\n";
    std::vector<TextCells> cells;
    for (const PresetAlias& alias : preset_aliases())
        cells.push_back({"  " + std::string(alias.name), std::string(alias.preset), std::string(alias.why)});
    return text + joined_lines(aligned_lines(cells));
}

Exit list(bool json) {
    std::vector<Policy> policies;
    for (const std::string_view name : preset_names()) policies.push_back(load_policy(name));
    if (json) {
        print_json(list_json(policies));
    } else {
        print_text(list_text(policies));
    }
    return Exit::ok;
}

void describe_list(Command& verb) {
    const auto json = std::make_shared<bool>(false);
    verb.flag("--json", *json, "Print as JSON");
    verb.runs([json] { return list(*json); });
}

}  // namespace

bool is_alias_of(const PresetAlias& alias, const Policy& policy) {
    return alias.preset == policy.name && !policy.sources.front().is_file;
}

std::vector<std::string_view> aliases_of(const Policy& policy) {
    std::vector<std::string_view> names;
    for (const PresetAlias& alias : preset_aliases()) {
        if (is_alias_of(alias, policy)) names.push_back(alias.name);
    }
    return names;
}

Json scaler_json(const LossScalerConfig& config) {
    Json json{{"kind", config.kind->name}};
    for (const ScalerKey& key : config.kind->keys)
        json[std::string(key.name)] = setting_json(key, config.find(key.name));
    return json;
}

const VerbRow list_verb{"list", list_help, describe_list, list_notes};

}  // namespace macheps::cmd::policies
