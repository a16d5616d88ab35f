// SPDX-License-Identifier: Apache-2.0
// Compares the words that `macheps policy words` prints with the parser: at every place in a policy file, the parser
// accepts a word if and only if the command prints the word for that place.
#include "experiments/policy/language/words.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace words_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

using Names = std::set<std::string>;

/// Returns the sites of a model that has every kind of site with every slot.
SiteList sites_of_all_kinds() {
    return model_sites(ModelConfig{
        .kind = ModelKind::llama, .layers = 1, .width = 16, .heads = 4, .context = 8, .vocabulary = 16, .kv_heads = 2});
}

/// Resolves a policy with this text for a model. Returns the error message, or an empty string without an error.
std::string complaint(const std::string& toml) {
    static const SiteList sites = sites_of_all_kinds();
    try {
        resolve(parse_policy(toml, "mine.toml"), sites);
    } catch (const Error& error) {
        return error.parts().what;
    }
    return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Returns the words that the command prints for a group. If `of` is not empty, returns only the words that belong to
/// this kind of site, loss scaler or key.
Names words_of(std::string_view group, std::string_view of = {}) {
    Names names;
    for (const PolicyWordGroup& each : policy_words()) {
        if (each.name != group) continue;
        for (const PolicyWord& word : each.words) {
            if (of.empty() || word.of == of) names.insert(word.name);
        }
    }
    REQUIRE_FALSE(names.empty());
    return names;
}

/// Returns parts of the names of slots, such as "forward.out". If `group` is empty, returns the parts before the dot.
/// Otherwise returns the parts after the dot of all names whose part before the dot is `group`.
Names parts_of_slots(const std::string& group = {}) {
    Names names;
    for (const std::string& slot : words_of("slots")) {
        const std::size_t dot = slot.find('.');
        if (group.empty()) names.insert(slot.substr(0, dot));
        if (slot.substr(0, dot) == group) names.insert(slot.substr(dot + 1));
    }
    return names;
}

/// Returns every word of the language, and some texts that are not words.
const Names& candidates() {
    static const Names all = [] {
        Names names{"zzz", ""};
        for (const PolicyWordGroup& group : policy_words()) {
            for (const PolicyWord& word : group.words) names.insert(word.name);
        }
        for (const std::string& group : parts_of_slots()) {
            names.insert(group);
            names.merge(parts_of_slots(group));
        }
        for (const NamedFormat& row : all_formats) names.insert(std::string(row.name));
        return names;
    }();
    return all;
}

/// Checks that the parser accepts exactly the words in `printed` at one place. `place` returns a policy that has the
/// given word at that place. A word counts as refused if the error contains one of `refusals`.
void check_place(const std::string& what, const Names& printed,
                 const std::function<std::string(const std::string&)>& place,
                 const std::vector<std::string>& refusals) {
    for (const std::string& word : candidates()) {
        const std::string text = complaint(place(word));
        CAPTURE(what, word, text);
        const bool is_refused = std::any_of(refusals.begin(), refusals.end(),
                                            [&](const std::string& refusal) { return contains(text, refusal); });
        CHECK(is_refused != printed.contains(word));
    }
    for (const std::string& word : printed) CHECK(candidates().contains(word));
}

Names joined(Names a, const Names& b) {
    a.insert(b.begin(), b.end());
    return a;
}

}  // namespace

TEST_CASE("the parser accepts each key exactly in the tables of a policy for which `policy words` lists it",
          "[experiments][policy]") {
    const std::vector<std::string> unknown{"unknown key"};
    check_place(
        "file", words_of("file_keys"), [](const auto& word) { return fmt::format("\"{}\" = 3", word); }, unknown);
    for (const std::string table : {"optimizer", "clip", "accumulation", "backward", "stress"}) {
        check_place(
            table, words_of(table + "_keys"),
            [&](const auto& word) { return fmt::format("[{}]\n\"{}\" = 3", table, word); }, unknown);
    }
    check_place("site rule", joined(words_of("site_rule_keys"), parts_of_slots()),
                [](const auto& word) { return fmt::format("[[rule]]\nsites = \"lm_head\"\n\"{}\" = 3", word); },
                {"unknown key", "both 'sites' and 'params'"});
    check_place("parameter rule", joined(words_of("parameter_rule_keys"), words_of("parameter_slots")),
                [](const auto& word) { return fmt::format("[[rule]]\nparams = \"*\"\n\"{}\" = 3", word); },
                {"unknown key", "both 'sites' and 'params'"});
    check_place(
        "reduce", words_of("reduce_keys"), [](const auto& word) { return fmt::format("[reduce]\n\"{}\" = []", word); },
        unknown);
    for (const std::string group : {"forward", "weight_grad", "grad"}) {
        Names printed = parts_of_slots(group);
        if (group != "grad") printed = joined(printed, words_of("matmul_keys"));
        if (group != "forward") printed.erase("bias_after");
        check_place(
            group, printed,
            [&](const auto& word) {
                return fmt::format("[[rule]]\nsites = \"lm_head\"\n{} = {{ \"{}\" = [] }}", group, word);
            },
            unknown);
    }
    check_place(
        "cast", words_of("cast_keys"),
        [](const auto& word) {
            return fmt::format("[[rule]]\nsites = \"lm_head\"\nforward = {{ out = {{ \"{}\" = [] }} }}", word);
        },
        unknown);
}

TEST_CASE("the parser accepts each slot exactly at the kinds of site for which `policy words` lists it",
          "[experiments][policy]") {
    const std::map<std::string, std::string> site_of{
        {"linear", "lm_head"},      {"elementwise", "embed"},      {"product", "block.0.attn.scores"}, {"loss", "loss"},
        {"rms_norm", "final_norm"}, {"rope", "block.0.attn.rope"}, {"gated", "block.0.mlp.act"}};
    CHECK(site_of.size() == std::size(all_site_kinds));
    for (const auto& each : site_of) {
        const std::string &kind = each.first, &site = each.second;
        check_place(
            kind, words_of("slots", kind),
            [&](const auto& word) { return fmt::format("[[rule]]\nsites = \"{}:{}\"\ncast = \"bf16\"", site, word); },
            {"matches no site"});
    }
    check_place("parameter", words_of("parameter_slots"),
                [](const auto& word) {
                    return fmt::format("[[rule]]\nparams = \"embed.token.weight:{}\"\ncast = \"bf16\"", word);
                },
                {"matches no parameter"});
}

TEST_CASE("no slot has the same name as a key of a matmul", "[experiments][policy]") {
    for (const std::string& group : parts_of_slots()) {
        for (const std::string& slot : parts_of_slots(group)) CHECK_FALSE(words_of("matmul_keys").contains(slot));
    }
}

TEST_CASE("the parser accepts each name exactly for the keys of a policy for which `policy words` lists it",
          "[experiments][policy]") {
    const auto forward = [](const std::string& table) { return "[[rule]]\nsites = \"lm_head\"\nforward = " + table; };
    for (const std::string key : {"machine", "rule", "promotion", "join", "scale_order"}) {
        check_place(key, words_of("matmul_names", key),
                    [&](const auto& word) { return forward(fmt::format("{{ {} = \"{}\" }}", key, word)); },
                    {"unknown"});
    }
    check_place("formula", words_of("clip_formulas"),
                [&](const auto& word) { return fmt::format("[clip]\nformula = \"{}\"", word); }, {"unknown formula"});
    check_place("kernel", words_of("adam_kernels"),
                [&](const auto& word) { return fmt::format("[optimizer]\nkernel = \"{}\"", word); },
                {"unknown kernel"});
    check_place("model", words_of("models"),
                [&](const auto& word) { return forward("{ out = \"bf16\" }") + fmt::format("\nmodel = \"{}\"", word); },
                {"unknown model"});
    check_place("format", words_of("formats"),
                [&](const auto& word) { return forward(fmt::format("{{ out = \"{}\" }}", word)); },
                {"unknown format", "cannot hold"});
    check_place("scaling", words_of("scalings"),
                [&](const auto& word) { return forward(fmt::format("{{ a = \"e2m1fn/{}\" }}", word)); },
                {"unknown scaling"});
    const auto of_cast = [&](const char* key) {
        return [=](const std::string& word) {
            return forward(fmt::format("{{ a = {{ format = \"e2m1fn\", {} = \"{}\" }} }}", key, word));
        };
    };
    check_place("scale rule", words_of("scale_rules"), of_cast("scale_rule"), {"unknown scale rule"});
    check_place("rounding", words_of("roundings"), of_cast("round"), {"unknown rounding mode"});
    check_place("overflow", words_of("overflows"), of_cast("overflow"), {"unknown overflow"});
    for (const std::string key : {"order", "average", "bucket"}) {
        const std::string group = "reduce_" + key + "s";
        check_place(key, words_of(group),
                    [&](const auto& word) { return fmt::format("[reduce]\n{} = \"{}\"", key, word); },
                    {"unknown " + key});
    }
    check_place("algorithm", words_of("amax_algorithms"), of_cast("algorithm"), {"unknown algorithm"});
    // The parser reads '_' as '-' in the name of a recipe. Therefore, it also accepts the names of some scale rules as
    // names of recipes.
    check_place("recipe", joined(words_of("recipes"), {"te_delayed", "te_current", "te_block", "te_mxfp8", "te_nvfp4"}),
                [](const auto& word) { return fmt::format("[[rule]]\nsites = \"lm_head\"\nrecipe = \"{}\"", word); },
                {"unknown recipe"});
    const Names of_colons = joined(joined(words_of("scale_rules"), words_of("roundings")), words_of("overflows"));
    check_place("after a colon", joined(joined(of_colons, words_of("amax_algorithms")), {"hadamard"}),
                [&](const auto& word) { return forward(fmt::format("{{ a = \"bf16:{}\" }}", word)); },
                {"unknown rounding mode"});
}

TEST_CASE("a loss scaler accepts the keys that `policy words` lists for it, and some further keys that it ignores",
          "[experiments][policy]") {
    check_place("kind", words_of("loss_scalers"),
                [](const auto& word) { return fmt::format("[loss_scaler]\nkind = \"{}\"", word); },
                {"unknown loss scaler"});
    for (const ScalerKind* kind : scaler_kinds()) {
        Names printed{"kind"};
        if (!kind->keys.empty()) printed = joined(printed, words_of("loss_scaler_keys", kind->name));
        for (const ScalerKey& key : kind->ignored) printed.insert(std::string(key.name));
        check_place(std::string(kind->name), printed,
                    [&](const auto& word) {
                        return fmt::format("[loss_scaler]\nkind = \"{}\"\n\"{}\" = []", kind->name, word);
                    },
                    {"unknown key"});
    }
}

TEST_CASE("the output of `policy words` contains every word, and every key and slot has a summary",
          "[experiments][policy]") {
    const std::string text = policy_words_text(policy_words());
    for (const PolicyWordGroup& group : policy_words()) {
        CHECK(contains(text, fmt::format("{}: {}\n", group.name, group.title)));
        for (const PolicyWord& word : group.words) {
            CAPTURE(std::string(group.name), word.name);
            CHECK(contains(text, word.name));
            const bool is_key = group.name.ends_with("keys") || group.name.ends_with("slots");
            if (is_key) CHECK_FALSE(word.summary.empty());
        }
    }
    CHECK(contains(text, "torch            init_scale              the scale of the first step (default: 65536)\n"));
    CHECK(contains(
        text,
        "ds-zero          version                 version of DeepSpeed; since 0.17.1 the scale grows one step later "
        "after an overflow (default: 0.19.6)\n"));
    CHECK(contains(text, "  deepspeed-zero   another name for ds-zero\n"));
}

}  // namespace words_test
