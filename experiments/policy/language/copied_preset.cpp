// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/language/copied_preset.hpp"

#include "experiments/policy/language/expand.hpp"
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::policy {

namespace {

using Rule = Policy::Rule;

std::string changed_copy_text(std::string_view preset) { return fmt::format("a changed copy of {}", preset); }

bool has_settings_of(const Policy& policy, std::string_view preset) {
    return expanded_settings(policy) == expanded_settings(load_policy(preset));
}

/// Returns the preset with this description, or an empty text.
std::string_view preset_described_as(const std::string& description) {
    if (description.empty()) return {};
    for (const std::string_view name : preset_names()) {
        // Most presets are excluded without parsing them.
        if (preset_text(name).find(description) == std::string_view::npos) continue;
        if (load_policy(name).description == description) return name;
    }
    return {};
}

bool have_same_patterns(const Rule& a, const Rule& b) {
    return std::equal(a.patterns.begin(), a.patterns.end(), b.patterns.begin(), b.patterns.end(),
                      [](const Rule::Pattern& x, const Rule::Pattern& y) { return x.text == y.text; });
}

/// Adds a note for each cast of `later` that replaces a different cast of the recipe of `rule`.
void note_replaced_casts(const Rule& rule, const Rule& later, std::vector<std::string>& notes) {
    for (const Rule::SlotCast& own : later.casts) {
        const auto recipe = std::find_if(rule.casts.begin(), rule.casts.end(),
                                         [&](const Rule::SlotCast& each) { return each.slot == own.slot; });
        if (recipe == rule.casts.end() || recipe->cast == own.cast) continue;
        notes.push_back(fmt::format("{}: {} is {}, not {} as in the recipe {}", later.where(own.at), own.slot,
                                    to_string(own.cast), to_string(recipe->cast), rule.recipe));
    }
}

}  // namespace

void correct_description(Policy& policy) {
    const std::string_view preset = preset_described_as(policy.description);
    if (!preset.empty() && !has_settings_of(policy, preset)) policy.description = changed_copy_text(preset);
}

std::vector<std::string> notes_about(const Policy& policy) {
    if (policy.sources.empty() || !policy.sources.front().is_file) return {};
    const std::string& file = policy.sources.front().name;
    // Only the name of a file is an argument of `policy diff`; the baseline of `train --config` has no file.
    if (file.find('/') == std::string::npos && !file.ends_with(".toml")) return {};
    std::vector<std::string> notes;
    for (const std::string_view preset : preset_names()) {
        const bool has_description = policy.description == changed_copy_text(preset), has_name = policy.name == preset;
        if (!has_description && (!has_name || has_settings_of(policy, preset))) continue;
        const char* what = !has_name ? "description" : has_description ? "name and the description" : "name";
        notes.push_back(
            fmt::format("{} has the {} of the preset {}, but other settings: write your own. `macheps "
                        "policy diff {} {}` lists the changes",
                        file, what, preset, preset, file));
    }
    for (auto rule = policy.rules.begin(); rule != policy.rules.end(); ++rule) {
        if ((*rule)->recipe.empty() || (*rule)->source != file) continue;
        for (auto later = rule; later != policy.rules.end(); ++later) {
            if ((*later)->source == file && have_same_patterns(**rule, **later))
                note_replaced_casts(**rule, **later, notes);
        }
    }
    return notes;
}

}  // namespace macheps::policy
