// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/language/cast_language.hpp"

#include "experiments/policy/language/language.hpp"
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>

namespace macheps::policy {

CastRule read_cast(const files::TomlReader& toml, const toml::node& node, const std::string& slot) {
    if (node.is_string()) return parse_cast(node.as_string()->get(), toml.where(node, slot));
    if (!node.is_table()) toml.wrong_type(node, slot, "a cast such as \"bf16\" or \"e4m3fn/tensor\"");
    const toml::table& table = *node.as_table();
    toml.only(table, names_of(cast_keys), slot);
    const toml::node* format = table.get("format");
    if (format == nullptr) {
        throw Error(
            {.what = "the cast has no format", .where = toml.where(node, slot), .fix = "add format = \"bf16\""});
    }
    const auto text = [&](const char* key) -> std::string {
        const toml::node* value = table.get(key);
        return value == nullptr ? "" : toml.text(*value, fmt::format("{}.{}", slot, key));
    };
    const auto place = [&](const char* key) { return toml.where(*table.get(key), fmt::format("{}.{}", slot, key)); };
    const auto whole = [&](const char* key, int least, int most) {
        return static_cast<int>(toml.integer(*table.get(key), fmt::format("{}.{}", slot, key), least, most));
    };
    CastRule cast = parse_cast("fp32", place("format"));
    cast.format = parse_value_format(text("format"), place("format"));
    if (table.contains("scaling")) cast.granularity = parse_granularity(text("scaling"), place("scaling"));
    if (cast.has_scale()) cast.overflow = Overflow::saturate;
    cast.scale_rule = usual_rule(*cast.granularity);
    if (table.contains("round")) cast.round = parse_round(text("round"), place("round"));
    if (table.contains("overflow")) cast.overflow = parse_overflow(text("overflow"), place("overflow"));
    if (table.contains("scale_rule")) cast.scale_rule = parse_scale_rule(text("scale_rule"), place("scale_rule"));
    if (const toml::node* bits = table.get("random_bits")) {
        cast.random_bits = check_random_bits(toml.integer(*bits, slot + ".random_bits", 1), place("random_bits"));
    }
    if (table.contains("history")) cast.delayed.length = whole("history", 1, DelayedScaling::longest);
    if (table.contains("margin")) cast.delayed.margin = whole("margin", 0, DelayedScaling::widest);
    if (table.contains("algorithm")) cast.delayed.choice = parse_amax_choice(text("algorithm"), place("algorithm"));
    if (table.contains("via")) cast.via = parse_value_format(text("via"), place("via"));
    if (const toml::node* flag = table.get("hadamard")) cast.hadamard = toml.flag(*flag, slot + ".hadamard");
    check_scaling(cast, toml.where(node, slot));
    return cast;
}

}  // namespace macheps::policy
