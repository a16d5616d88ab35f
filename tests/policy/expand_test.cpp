// SPDX-License-Identifier: Apache-2.0
// Tests expanded policies, changed copies of presets, and short names of presets.
#include "experiments/policy/language/expand.hpp"
#include "core/error.hpp"
#include "experiments/policy/diff.hpp"
#include "experiments/policy/language/copied_preset.hpp"
#include "experiments/policy/language/preset_alias.hpp"
#include "experiments/training/model/config.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace expand_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

constexpr ModelKind both_kinds[] = {ModelKind::gpt2, ModelKind::llama};

/// Compares two policies on the tiny model of each kind: every cast, matmul and setting, and the linears that are left
/// out.
void check_same(const Policy& a, const Policy& b) {
    for (const ModelKind kind : both_kinds) {
        ModelConfig model = named_size("tiny", kind).model;
        if (kind == ModelKind::llama) model.kv_heads = 2;
        const SiteList sites = model_sites(model);
        const ResolvedPolicy x = resolve(a, sites), y = resolve(b, sites);
        CHECK(differences(x, y).empty());
        CHECK(x.casts == y.casts);
        CHECK(x.matmuls == y.matmuls);
        CHECK(x.left_out == y.left_out);
        CHECK(x.loss_scaler == y.loss_scaler);
        CHECK(x.optimizer_arithmetic == y.optimizer_arithmetic);
        CHECK(x.training == y.training);
        CHECK(x.reduce == y.reduce);
        CHECK(x.name == y.name);
        CHECK(x.description == y.description);
        CHECK(x.unverified() == y.unverified());
        for (const auto& parameter : sites.parameters) {
            CHECK(x.has_master(parameter.name) == y.has_master(parameter.name));
            CHECK(x.has_sum(parameter.name) == y.has_sum(parameter.name));
        }
    }
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string copy_of(std::string_view preset) { return std::string(preset_text(preset)); }

/// Returns `text` with its first `from` replaced by `to`.
std::string edited(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("the expanded text of every preset reads back as the same policy", "[policy][expand]") {
    for (const std::string_view name : preset_names()) {
        CAPTURE(std::string(name));
        const Policy preset = load_policy(name);
        const std::string text = expanded_text(preset);
        const Policy copy = parse_policy(text, "copy.toml");
        check_same(preset, copy);
        CHECK(copy.chain.empty());
        for (const char* word : {"\nextends", "\nrecipe"}) CHECK_FALSE(has(text, word));
        // A second expansion changes nothing, so the copy is not a changed copy.
        CHECK(expanded_settings(copy) == expanded_settings(preset));
        CHECK(notes_about(copy).empty());
    }
}

TEST_CASE("an expanded policy has every setting of a policy file", "[policy][expand]") {
    const Policy policy = parse_policy(R"(name = "all"
description = "a \"quoted\" word and a backslash \\"
extends = "te-delayed"
[[rule]]
sites = "block.*.{mlp.up,mlp.down}"
recipe = "te-delayed:history=16:margin=1:most_recent"
multiple_of = 8
skip_first_blocks = 1
model = "gpt2"
forward = { machine = "sm90.wgmma.fp8", promote = 128, bias_after = true }
[[rule]]
sites = "block.*.mlp.up"
forward.a = "e4m3fn/1x128:deepgemm"
forward.b = "e4m3fn/128x128:deepgemm"
forward.rule = "deepgemm.sm90.1d2d"
forward.split_k = 2
forward.slice_granule = 128
[[rule]]
sites = "block.1.mlp.down"
recipe = "dsv3"
forward = { machine = "fp32.chain" }
[[rule]]
sites = "block.*.attn.qkv"
recipe = "te-nvfp4"
[[rule]]
sites = "block.*.attn.proj:forward.out"
cast = "fp16:stochastic:random_bits=8:saturate"
[[rule]]
params = "*"
master = "fp32"
value = "bf16:stochastic"
[loss_scaler]
kind = "torch"
growth_interval = 7
[reduce]
wire = "bf16"
order = "tree"
average = "after"
predivide = 2
start = 3
[optimizer]
arithmetic = "bf16"
kind = "adam"
eps = 1e-5
[clip]
formula = "torch"
max_norm = 0.5
[accumulation]
micro_batches = 2
[backward]
recompute = true
[stress]
outliers = 2048
)",
                                       "all.toml");
    const std::string text = expanded_text(policy);
    CAPTURE(text);
    check_same(policy, parse_policy(text, "all.toml"));
    CHECK(has(text,
              "forward.a = { format = \"e4m3fn\", scaling = \"tensor\", scale_rule = \"te_delayed\", round = "
              "\"nearest_even\", overflow = \"saturate\", history = 16, margin = 1, algorithm = "
              "\"most_recent\" }"));
    CHECK(has(text, "cast = { format = \"fp16\", round = \"stochastic\", overflow = \"saturate\", random_bits = 8 }"));
    CHECK(has(text, "; recipe te-nvfp4: e2m1fn, an e4m3fn scale for each 16 terms"));
    // Each setting that changes is seen by the comparison.
    for (const auto& [from, to] :
         {std::pair("growth_interval = 7", "growth_interval = 8"), std::pair("0.5", "0.25"),
          std::pair("promote = 128", "promote = 64"), std::pair("start = 3", "start = 2"), std::pair("2048", "4096"),
          std::pair("\"gpt2\"", "\"llama\""), std::pair("bias_after = true", "bias_after = false")}) {
        CAPTURE(from);
        CHECK(expanded_settings(parse_policy(edited(policy.text, from, to), "all.toml")) != expanded_settings(policy));
    }
}

TEST_CASE("a preset that was copied and changed does not keep its description silently", "[policy][expand]") {
    // Comments, the order of keys and another name change no setting.
    const Policy same = parse_policy("# mine\n" + edited(copy_of("te-mxfp8"), "\"te-mxfp8\"", "\"mine\""), "x.toml");
    CHECK(same.description == load_policy("te-mxfp8").description);
    CHECK(notes_about(same).empty());

    const std::string rule = "recipe = \"te-mxfp8\"\n";
    const Policy replaced = parse_policy(
        edited(copy_of("te-mxfp8"), rule, rule + "forward = { a = \"e2m1fn/mx32\", b = \"e4m3fn/mx32\" }\n"), "x.toml");
    CHECK(replaced.description == "a changed copy of te-mxfp8");
    const std::vector<std::string> notes = notes_about(replaced);
    REQUIRE(notes.size() == 2);
    CHECK(notes[0] ==
          "x.toml has the name and the description of the preset te-mxfp8, but other settings: write your "
          "own. `macheps policy diff te-mxfp8 x.toml` lists the changes");
    CHECK(notes[1] == "x.toml:11:17 (rule 1): forward.a is e2m1fn/mx32, not e4m3fn/mx32 as in the recipe te-mxfp8");

    const std::string more =
        "[[rule]]\nsites = \"block.*.{attn.qkv,attn.proj,mlp.gate,mlp.up,mlp.down}\"\n"
        "input_grad = { a = \"e5m2/mx32\" }\n";
    const Policy later = parse_policy(copy_of("te-mxfp8") + more, "x.toml");
    CHECK(later.description == "a changed copy of te-mxfp8");
    REQUIRE(notes_about(later).size() == 2);
    CHECK(has(notes_about(later)[1], "(rule 2): input_grad.a is e5m2/mx32, not e4m3fn/mx32"));

    const Policy formats = parse_policy(edited(copy_of("pure-bf16"), "\"bf16\"", "\"e5m2\""), "x.toml");
    CHECK(formats.description == "a changed copy of pure-bf16");
    const Policy scaler = parse_policy(copy_of("fp16-noscale") + "[clip]\nmax_norm = 1\n", "x.toml");
    CHECK(scaler.description == "a changed copy of fp16-noscale");

    // A policy with its own name and description is not a copy.
    const Policy own =
        parse_policy("name = \"mine\"\ndescription = \"my own\"\nextends = \"te-mxfp8\"\n" + more, "x.toml");
    CHECK(own.description == "my own");
    CHECK(notes_about(own).empty());
    const Policy named = parse_policy("name = \"fp32\"\nextends = \"tf32\"\n", "x.toml");
    CHECK(named.description.empty());
    REQUIRE(notes_about(named).size() == 1);
    CHECK(has(notes_about(named)[0], "has the name of the preset fp32"));

    // The texts that a run records read back as the same policy.
    CHECK(parse_policy(replaced.sources).description == replaced.description);
    for (const std::string_view name : preset_names()) CHECK(notes_about(load_policy(name)).empty());
}

TEST_CASE("a short name loads its preset, and names of presets ignore case", "[policy][expand]") {
    CHECK(preset_aliases().size() == 5);
    const std::vector<std::string_view> presets = preset_names();
    for (const PresetAlias& alias : preset_aliases()) {
        CAPTURE(std::string(alias.name));
        CHECK(std::find(presets.begin(), presets.end(), alias.name) == presets.end());
        CHECK_FALSE(alias.why.empty());
        const Policy policy = load_policy(alias.name);
        CHECK(policy.name == alias.preset);
        CHECK(policy.sources.front().name == alias.preset);
        CHECK(policy.text == preset_text(alias.preset));
        CHECK(parse_policy(policy.sources).name == alias.preset);
    }
    CHECK(load_policy("BF16").name == "amp-bf16");
    CHECK(load_policy("Te_MXFP8").name == "te-mxfp8");
    const Policy mine = parse_policy("name = \"mine\"\nextends = \"NVFP4\"\n", "mine.toml");
    CHECK(mine.chain == std::vector<std::string>{"te-nvfp4", "amp-bf16"});
    // Words of the language also ignore case.
    const std::string rule = "[[rule]]\nsites = \"lm_head\"\n";
    check_same(
        parse_policy(rule + "forward = { a = \"e5m2/tensor:stochastic\", machine = \"fp32.kahan\" }\n", "x.toml"),
        parse_policy(rule + "forward = { a = \"E5M2/Tensor:Stochastic\", machine = \"FP32.Kahan\" }\n", "x.toml"));
    check_same(parse_policy(rule + "recipe = \"te-mxfp8\"\n", "x.toml"),
               parse_policy(rule + "recipe = \"TE-MXFP8\"\n", "x.toml"));
}

}  // namespace expand_test
