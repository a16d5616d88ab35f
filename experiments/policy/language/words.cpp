// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/language/words.hpp"

#include "core/format_table.hpp"
#include "core/rounding_names.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/scaling/rules.hpp"
#include "experiments/policy/language/language.hpp"
#include "experiments/policy/language/recipes.hpp"
#include "experiments/policy/language/reduce_language.hpp"
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace macheps::policy {

namespace {

using Words = std::vector<PolicyWord>;

std::string text(std::string_view view) { return std::string(view); }

template <class Rows>
Words key_words(const Rows& rows) {
    Words words;
    for (const PolicyKey& key : rows) words.push_back({.of = {}, .name = text(key.name), .summary = text(key.summary)});
    return words;
}

Words name_words(const std::vector<std::string_view>& names) {
    Words words;
    for (const std::string_view name : names) words.push_back({.of = {}, .name = text(name)});
    return words;
}

Words slot_words() {
    Words words;
    for (const SiteKind* kind : all_site_kinds) {
        for (const SlotRow& slot : kind->slots) {
            words.push_back({.of = text(kind->name), .name = text(slot.name), .summary = text(slot.summary)});
        }
    }
    return words;
}

Words parameter_slot_words() {
    Words words;
    for (const SlotRow& slot : parameter_slots) {
        words.push_back({.of = {}, .name = text(slot.name), .summary = text(slot.summary)});
    }
    return words;
}

Words matmul_key_words() {
    Words words;
    for (const MatmulKey& key : matmul_keys()) {
        words.push_back({.of = {}, .name = text(key.name), .source = text(key.source), .summary = text(key.summary)});
    }
    return words;
}

/// Returns the valid names for each matmul key that takes a name. Machines and library rules also have a source and a
/// summary.
Words matmul_name_words() {
    Words words;
    for (const MatmulKey& key : matmul_keys()) {
        if (key.names == nullptr) continue;
        for (const std::string_view name : key.names()) words.push_back({.of = text(key.name), .name = text(name)});
    }
    for (PolicyWord& word : words) {
        if (const NamedMatmulRule* rule = word.of == "rule" ? find_matmul_rule(word.name) : nullptr) {
            word.source = rule->source, word.summary = rule->summary;
        } else if (const Machine* machine = word.of == "machine" ? find_machine(word.name) : nullptr) {
            word.source = machine->source, word.summary = machine->summary;
        }
    }
    return words;
}

Words scaler_words() {
    Words words;
    for (const ScalerKind* kind : scaler_kinds()) {
        words.push_back(
            {.of = {}, .name = text(kind->name), .source = text(kind->source), .summary = text(kind->summary)});
        for (const std::string_view alias : kind->aliases) {
            words.push_back({.of = {}, .name = text(alias), .summary = fmt::format("another name for {}", kind->name)});
        }
    }
    return words;
}

Words scaler_key_words() {
    Words words = key_words(loss_scaler_keys);
    for (const ScalerKind* kind : scaler_kinds()) {
        for (const ScalerKey& key : kind->keys) {
            words.push_back({.of = text(kind->name),
                             .name = text(key.name),
                             .initial = to_string(key, key.initial),
                             .summary = text(key.summary)});
        }
    }
    return words;
}

Words format_words() {
    Words words;
    for (const NamedFormat& row : all_formats) {
        if (!can_hold_values(row.format)) continue;
        words.push_back({.of = {}, .name = text(row.name), .source = text(row.source), .summary = text(row.summary)});
    }
    return words;
}

/// Converts table rows that have a name, a source and a summary to words.
template <class Rows>
Words row_words(const Rows& rows) {
    Words words;
    for (const auto& row : rows) {
        words.push_back({.of = {}, .name = text(row.name), .source = text(row.source), .summary = text(row.summary)});
    }
    return words;
}

/// Returns the keys of [optimizer], [clip], [accumulation], [backward] or [stress].
Words training_words(std::string_view table) {
    Words words = table == "optimizer" ? key_words(optimizer_keys) : Words{};
    for (const TrainingKey* key : training_keys_of(table))
        words.push_back({.of = {}, .name = text(key->name), .summary = text(key->summary)});
    return words;
}

Words granularity_words() {
    Words words = row_words(granularities);
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (!granularities[i].is_scaled()) continue;
        words[i].summary += fmt::format("; uses {} unless a rule is named", granularities[i].usual_rule);
    }
    return words;
}

/// Converts table rows that have a name and a summary to words.
template <class Rows>
Words named_words(const Rows& rows) {
    Words words;
    for (const auto& row : rows) words.push_back({.of = {}, .name = text(row.name), .summary = text(row.summary)});
    return words;
}

}  // namespace

std::vector<PolicyWordGroup> policy_words() {
    std::vector<PolicyWordGroup> groups{
        {"file_keys", "at the top of a policy file", key_words(file_keys)},
        {"site_rule_keys", "in a [[rule]] for sites, which also has a table for each group of slots: forward = { ... }",
         key_words(site_rule_keys)},
        {"parameter_rule_keys", "in a [[rule]] for parameters, which also has the slots of a parameter",
         key_words(parameter_rule_keys)},
        {"models", "the `model` of a rule", name_words({model_names().begin(), model_names().end()})},
        {"slots",
         "slots of a site, by kind of site: forward = { out = \"bf16\" }, or \"SITE:forward.out\". X is the input of "
         "the site, W its weight, Y its output, dY the gradient of Y",
         slot_words()},
        {"parameter_slots", "slots of a parameter: value = \"bf16\", or \"PARAMETER:value\"", parameter_slot_words()},
        {"matmul_keys",
         "in the table of a matmul, which also has its slots: forward = { machine = \"sm90.wgmma.bf16\" }",
         matmul_key_words()},
        {"matmul_names", "values of the keys of a matmul", matmul_name_words()},
        {"cast_keys", "in a cast that is written as a table: { format = \"bf16\", round = \"stochastic\" }",
         key_words(cast_keys)},
        {"formats", "the first word of a cast, and the value of [optimizer] arithmetic", format_words()}};
    groups.push_back({"scalings", "after the slash of a cast, or in its key `scaling`: which elements share a scale",
                      granularity_words()});
    groups.push_back(
        {"scale_rules",
         "after a colon of a cast, or in its key `scale_rule`: how a scale is computed from the largest magnitude",
         row_words(scale_rules)});
    groups.push_back({"amax_algorithms",
                      "after a colon of a cast whose scale rule has a history, or in its key `algorithm`",
                      named_words(amax_choices)});
    groups.push_back({"recipes", "the `recipe` of a [[rule]] for sites", row_words(all_recipes())});
    groups.push_back(
        {"layer_filters", "the `filter` of a rule: which linears a framework converts", row_words(layer_filters())});
    groups.push_back({"roundings", "after a colon of a cast, or in its key `round`", named_words(round_names)});
    groups.push_back({"overflows", "after a colon of a cast, or in its key `overflow`", named_words(overflow_names)});
    groups.push_back({"reduce_keys", "in [reduce]", key_words(reduce_keys())});
    groups.push_back({"reduce_orders", "the `order` of [reduce]", row_words(reduce_orders)});
    groups.push_back({"reduce_averages", "the `average` of [reduce]", row_words(averagings)});
    groups.push_back({"reduce_buckets", "the `bucket` of [reduce]", row_words(bucketings)});
    groups.push_back({"loss_scalers", "the `kind` of [loss_scaler]", scaler_words()});
    groups.push_back({"loss_scaler_keys", "in [loss_scaler], by kind", scaler_key_words()});
    groups.push_back({"optimizer_keys", "in [optimizer]", training_words("optimizer")});
    groups.push_back({"clip_keys", "in [clip]", training_words("clip")});
    groups.push_back({"accumulation_keys", "in [accumulation]", training_words("accumulation")});
    groups.push_back({"backward_keys", "in [backward]", training_words("backward")});
    groups.push_back({"stress_keys", "in [stress]", training_words("stress")});
    groups.push_back({"clip_formulas", "the `formula` of [clip]", row_words(clip_formulas)});
    groups.push_back({"adam_kernels", "the `kernel` of [optimizer]", row_words(adam_kernels)});
    return groups;
}

std::string policy_words_text(const std::vector<PolicyWordGroup>& groups) {
    std::string lines;
    for (const PolicyWordGroup& group : groups) {
        std::size_t of = 0, name = 0;
        for (const PolicyWord& word : group.words) {
            of = std::max(of, word.of.size());
            name = std::max(name, word.name.size());
        }
        lines += fmt::format("{}{}: {}\n", lines.empty() ? "" : "\n", group.name, group.title);
        for (const PolicyWord& word : group.words) {
            std::string line = "  ";
            if (of > 0) line += fmt::format("{:<{}}  ", word.of, of);
            line += fmt::format("{:<{}}", word.name, name);
            std::string_view before = "  ";
            const auto part = [&](const std::string& what) {
                if (!what.empty()) line += fmt::format("{}{}", std::exchange(before, " "), what);
            };
            part(word.summary);
            part(word.initial.empty() ? "" : fmt::format("(default: {})", word.initial));
            part(word.source.empty() ? "" : fmt::format("[{}]", word.source));
            lines += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
        }
    }
    return lines;
}

}  // namespace macheps::policy
