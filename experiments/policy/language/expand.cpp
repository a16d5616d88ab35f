// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/language/expand.hpp"

#include "core/format_table.hpp"
#include "core/rounding_names.hpp"
#include "core/text/json.hpp"
#include "emulation/machine/machine.hpp"
#include "experiments/policy/diff.hpp"
#include "experiments/policy/language/recipes.hpp"
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <span>

namespace macheps::policy {

namespace {

using Setting = Policy::Rule::MatmulSetting;

/// Returns a TOML string. JSON has the same escapes.
std::string toml_string(std::string_view text) { return Json(text).dump(); }

std::string cast_table(const CastRule& cast) {
    std::string text = fmt::format(R"({{ format = "{}")", format_name(cast.format));
    if (cast.has_scale())
        text += fmt::format(R"(, scaling = "{}", scale_rule = "{}")", cast.granularity->name, cast.scale_rule->name);
    text += fmt::format(R"(, round = "{}", overflow = "{}")", name_of(cast.round), name_of(cast.overflow));
    if (cast.round == Round::stochastic) text += fmt::format(", random_bits = {}", cast.random_bits);
    if (cast.has_history()) {
        const auto row = std::find_if(std::begin(amax_choices), std::end(amax_choices),
                                      [&](const auto& each) { return each.value == cast.delayed.choice; });
        text += fmt::format(R"(, history = {}, margin = {}, algorithm = "{}")", cast.delayed.length,
                            cast.delayed.margin, row->name);
    }
    if (!(cast.via == fp32)) text += fmt::format(R"(, via = "{}")", format_name(cast.via));
    if (cast.hadamard) text += ", hadamard = true";
    return text + " }";
}

std::string value_text(const MatmulKey& key, std::int64_t value) {
    switch (key.takes) {
        case MatmulKey::Takes::name:
            return toml_string(key.names()[static_cast<std::size_t>(value)]);
        case MatmulKey::Takes::flag:
            return value != 0 ? "true" : "false";
        case MatmulKey::Takes::count:
            break;
    }
    return fmt::format("{}", value);
}

/// Returns the lines that say which sites a rule is about.
std::string head_of(const Policy::Rule& rule) {
    std::vector<std::string> patterns;
    for (const Policy::Rule::Pattern& each : rule.patterns) patterns.push_back(toml_string(each.text));
    std::string text =
        fmt::format("\n[[rule]]\n{} = [{}]\n", rule.about_parameters ? "params" : "sites", fmt::join(patterns, ", "));
    if (!rule.model.empty()) text += fmt::format("model = \"{}\"\n", rule.model);
    const LayerChoice& layers = rule.layers;
    if (layers.filter != nullptr) text += fmt::format("filter = \"{}\"\n", layers.filter->name);
    for (const auto& [name, number] :
         {std::pair("multiple_of", layers.multiple_of), std::pair("skip_first_blocks", layers.skip_first_blocks),
          std::pair("skip_last_blocks", layers.skip_last_blocks)}) {
        if (number > 0) text += fmt::format("{} = {}\n", name, number);
    }
    if (rule.gathers_codes) text += "all_gather = \"fp8\"\n";
    return text;
}

/// Returns the casts of a rule. If a slot has several casts, the last one is valid: it replaces that of a recipe.
std::string casts_of(const Policy::Rule& rule) {
    std::map<std::string, const CastRule*> casts;
    for (const Policy::Rule::SlotCast& each : rule.casts) casts[each.slot] = &each.cast;
    std::string text;
    for (const auto& [slot, cast] : casts)
        text += fmt::format("{} = {}\n", slot.empty() ? "cast" : slot, cast_table(*cast));
    return text;
}

std::string matmul_text(const Setting& setting) {
    std::map<std::string_view, std::string> keys;
    for (const Setting::KeyValue& each : setting.keys) keys[each.key->name] = value_text(*each.key, each.value);
    std::string text;
    for (const auto& [name, value] : keys) text += fmt::format("{}.{} = {}\n", setting.matmul, name, value);
    return text;
}

/// Returns the settings of a rule's matmuls as one text for each rule that has to be written. The keys of a table are
/// applied together, so a second table for the same matmul (a key next to a recipe) needs a rule of its own. A setting
/// that does not change the matmul's rule is valid in the first one, and its last value counts.
std::vector<std::string> matmuls_of(const Policy::Rule& rule) {
    std::vector<std::string> texts(1);
    std::map<std::string, std::size_t> written;
    std::map<std::string, std::string> independent;
    for (const Setting& each : rule.matmuls) {
        if (!each.changes_rule()) {
            independent[each.matmul] = matmul_text(each);
            continue;
        }
        const std::size_t at = written[each.matmul]++;
        if (at == texts.size()) texts.emplace_back();
        texts[at] += matmul_text(each);
    }
    for (const auto& [matmul, text] : independent) texts.front() += text;
    return texts;
}

std::string rule_text(const Policy::Rule& rule) {
    const std::string head = head_of(rule);
    const std::vector<std::string> matmuls = matmuls_of(rule);
    std::string text = head + casts_of(rule) + matmuls.front();
    for (auto more = matmuls.begin() + 1; more != matmuls.end(); ++more) text += head + *more;
    return text;
}

/// Returns the two rules for everything that no other rule sets. `sites = "*"` matches sites of every kind.
std::string first_rules() {
    std::string text = "\n[[rule]]\nsites = [\"*:*\"]\ncast = " + cast_table({}) + "\n\n[[rule]]\nsites = [\"*\"]\n";
    for (const char* matmul : {"forward", "grad_a", "grad_b", "input_grad", "weight_grad"})
        text += fmt::format("{}.machine = \"{}\"\n", matmul, fp32_chain.name);
    return text;
}

/// Returns the rules of a policy without the first two if these are first_rules(), as in a file that expanded_text()
/// wrote.
std::span<const std::shared_ptr<const Policy::Rule>> own_rules(const Policy& policy) {
    const std::span all(policy.rules);
    const bool is_expanded = all.size() >= 2 && rule_text(*all[0]) + rule_text(*all[1]) == first_rules();
    return is_expanded ? all.subspan(2) : all;
}

/// Returns a value as TOML. TrainingKey::text writes some numbers as powers of two, such as 2^11.
std::string value_text(const TrainingKey& key, const std::string& text) {
    if (key.takes == TrainingKey::Takes::name) return toml_string(text);
    return text.starts_with("2^") ? fmt::format("{}", std::exp2(std::stoi(text.substr(2)))) : text;
}

std::string reduce_table(const ReduceConfig& reduce) {
    std::string text;
    for (const auto& [key, value] : settings_of(reduce)) {
        if (key == "predivide" && reduce.average->name != "after") continue;  // the parser refuses it
        const bool is_text = key != "start" && key != "predivide" && key != "by_division";
        text += fmt::format("{} = {}\n", key, is_text ? toml_string(value) : value);
    }
    return "\n[reduce]\n" + text;
}

std::string training_tables_of(const Policy& policy) {
    std::string text;
    for (const std::string_view table : training_tables()) {
        std::string lines;
        if (table == "optimizer")
            lines = fmt::format("arithmetic = \"{}\"\n", format_name(policy.optimizer_arithmetic));
        for (const TrainingKey* key : training_keys_of(table)) {
            if (const std::optional<std::string> text = key->text(policy.training))
                lines += fmt::format("{} = {}\n", key->name, value_text(*key, *text));
        }
        if (!lines.empty()) text += fmt::format("\n[{}]\n{}", table, lines);
    }
    return text;
}

std::string tables_of(const Policy& policy) {
    return reduce_table(policy.reduce) + "\n" + to_toml(policy.loss_scaler) + training_tables_of(policy);
}

}  // namespace

std::string expanded_settings(const Policy& policy) {
    std::string text = first_rules();
    for (const auto& rule : own_rules(policy)) text += rule_text(*rule);
    return text + tables_of(policy);
}

std::string expanded_text(const Policy& policy) {
    std::string text = fmt::format("# SPDX-License-Identifier: Apache-2.0\nname = {}\n", toml_string(policy.name));
    if (!policy.description.empty()) text += fmt::format("description = {}\n", toml_string(policy.description));
    text +=
        "\n# Every slot is fp32 and every matmul runs on fp32.chain, unless a rule below says something else. Later "
        "rules win.";
    text += first_rules();
    for (const auto& rule : own_rules(policy)) {
        text += fmt::format("\n# {}", rule->origin());
        if (const Recipe* recipe = find_recipe(rule->recipe.substr(0, rule->recipe.find(':'))))
            text += fmt::format("; recipe {}: {}", rule->recipe, recipe->summary);
        text += rule_text(*rule);
    }
    return text + tables_of(policy);
}

}  // namespace macheps::policy
