// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/policy/language/recipes.hpp"
#include "experiments/policy/language/words.hpp"
#include "experiments/policy/rule.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/run/trainable.hpp"
#include "tests/test.hpp"

#include <string>

namespace recipe_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

constexpr const char* hidden = "block.*.{attn.qkv,attn.proj,mlp.up,mlp.down}";

ResolvedPolicy with_rule(const std::string& rule, const char* base = "amp-bf16") {
    return resolve(
        parse_policy("extends = \"" + std::string(base) + "\"\n[[rule]]\nsites = \"" + hidden + "\"\n" + rule,
                     "mine.toml"),
        model_sites({}));
}

std::string error_of(const std::string& rule) {
    try {
        with_rule(rule);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

std::string cast(const ResolvedPolicy& policy, const char* slot) {
    return to_string(policy.cast(std::string("block.0.mlp.up:") + slot));
}

}  // namespace

TEST_CASE("every recipe can be named in a rule and as a preset, with hyphens or underscores", "[experiments][recipe]") {
    const std::string_view wanted[] = {"te_delayed",     "te_current",     "te_block",   "te_mxfp8",
                                       "te_nvfp4",       "ao_tensorwise",  "ao_rowwise", "ao_rowwise_gw_hp",
                                       "ao_mxfp8_rceil", "ao_mxfp8_floor", "dsv3",       "mx_microxcaling",
                                       "e5m2_direct"};
    for (const std::string_view name : wanted) {
        CAPTURE(std::string(name));
        const Recipe* recipe = find_recipe(name);
        REQUIRE(recipe != nullptr);
        CHECK(find_recipe(recipe->name) == recipe);
        const std::string hyphens(recipe->name);
        CHECK(load_policy(name).name == hyphens);
        CHECK(load_policy(hyphens).name == hyphens);
        CHECK(parse_policy("extends = \"" + std::string(name) + "\"", "mine.toml").chain.front() == hyphens);
        // The preset casts operands in the same way as a rule that names the recipe.
        const ResolvedPolicy preset = resolve(load_policy(hyphens), model_sites({}));
        const ResolvedPolicy ruled =
            with_rule("recipe = \"" + std::string(name) + "\"", hyphens == "e5m2-direct" ? "amp-fp16" : "amp-bf16");
        for (const char* matmul : {"forward", "input_grad", "weight_grad"}) {
            for (const char* slot : {".a", ".b", ".out"}) {
                const std::string key = std::string(matmul) + slot;
                CHECK(cast(preset, key.c_str()) == cast(ruled, key.c_str()));
            }
            CHECK(to_string(preset.matmul("block.0.mlp.up", matmul)) ==
                  to_string(ruled.matmul("block.0.mlp.up", matmul)));
        }
    }
    for (const Recipe& recipe : all_recipes()) {
        CAPTURE(std::string(recipe.name));
        CHECK(load_policy(recipe.name).name == recipe.name);
        CHECK_FALSE(recipe.source.empty());
        CHECK_FALSE(recipe.summary.empty());
        bool is_listed = false;
        for (const PolicyWordGroup& group : policy_words()) {
            if (group.name != "recipes") continue;
            for (const PolicyWord& word : group.words) is_listed = is_listed || word.name == recipe.name;
        }
        CHECK(is_listed);
    }
}

TEST_CASE("recipes cast operands and sum products as their libraries do", "[experiments][recipe]") {
    struct Case {
        const char *preset, *slot, *cast;
    };
    // The cases are the rows of the specification's table of recipes.
    const Case cases[] = {
        {"te-delayed", "forward.a", "e4m3fn/tensor:te_delayed"},
        {"te-delayed", "input_grad.a", "e5m2/tensor:te_delayed"},
        {"te-delayed", "weight_grad.out", "fp32"},
        {"te-current", "forward.b", "e4m3fn/tensor:te_current"},
        {"te-current", "weight_grad.a", "e5m2/tensor:te_current"},
        {"te-block", "forward.a", "e4m3fn/1x128"},
        {"te-block", "forward.b", "e4m3fn/128x128"},
        {"te-block", "input_grad.a", "e4m3fn/1x128"},
        {"te-block", "input_grad.b", "e4m3fn/128x128"},
        {"te-block", "weight_grad.b", "e4m3fn/1x128"},
        {"te-mxfp8", "input_grad.b", "e4m3fn/mx32"},
        {"te-nvfp4", "forward.a", "e2m1fn/nvfp4"},
        {"te-nvfp4", "forward.b", "e2m1fn/nvfp4_16x16"},
        {"te-nvfp4", "input_grad.a", "e2m1fn/nvfp4:stochastic:random_bits=8"},
        {"te-nvfp4", "weight_grad.a", "e2m1fn/nvfp4:stochastic:random_bits=8:hadamard"},
        {"te-nvfp4", "weight_grad.b", "e2m1fn/nvfp4:hadamard"},
        {"ao-tensorwise", "forward.a", "e4m3fn/tensor"},
        {"ao-tensorwise", "input_grad.a", "e5m2/tensor"},
        {"ao-tensorwise", "weight_grad.out", "bf16"},
        {"ao-rowwise", "forward.a", "e4m3fn/row"},
        {"ao-rowwise", "weight_grad.b", "e4m3fn/column"},
        {"ao-rowwise-gw-hp", "input_grad.b", "e4m3fn/tensor:ao_fp8_power"},
        {"ao-rowwise-gw-hp", "weight_grad.a", "bf16"},
        {"ao-mxfp8-rceil", "forward.a", "e4m3fn/mx32:ao_rceil"},
        {"ao-mxfp8-floor", "forward.a", "e4m3fn/mx32:ao_floor"},
        {"dsv3", "forward.a", "e4m3fn/1x128:deepgemm"},
        {"dsv3", "forward.b", "e4m3fn/128x128:deepgemm"},
        {"mx-microxcaling", "forward.b", "e4m3fn/mx32:ao_floor:nearest_away:via=bf16"},
        {"mx-microxcaling", "forward.in", "bf16:nearest_away"},
        {"e5m2-direct", "forward.out", "e5m2"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.preset, c.slot);
        CHECK(cast(resolve(load_policy(c.preset), model_sites({})), c.slot) == c.cast);
    }
    struct Sum {
        const char *preset, *matmul, *text;
    };
    // If a machine does not apply block scales, its chain of additions is split where the scales change.
    const Sum sums[] = {
        {"te-delayed", "forward", "fp32.chain"},
        {"te-block", "forward", "fp32.chain, promote fma_joint 128"},
        {"te-mxfp8", "weight_grad", "fp32.chain, promote fma_joint 32"},
        {"te-nvfp4", "input_grad", "fp32.chain, promote fma_joint 16"},
        {"ao-tensorwise", "forward", "fp32.chain, bias after"},
        {"dsv3", "forward", "sm90.wgmma.fp8, deepgemm.sm90.1d2d"},
        {"dsv3", "weight_grad", "sm90.wgmma.fp8, deepgemm.sm90.1d1d"},
    };
    for (const Sum& sum : sums) {
        CAPTURE(sum.preset, sum.matmul);
        CHECK(to_string(resolve(load_policy(sum.preset), model_sites({})).matmul("block.0.mlp.up", sum.matmul)) ==
              sum.text);
    }
}

TEST_CASE("the other keys of a rule override parts of its recipe", "[experiments][recipe]") {
    const ResolvedPolicy p = with_rule(
        "recipe = \"te_delayed:history=16:margin=1:most_recent\"\nforward = { machine = \"sm90.wgmma.fp8\", promote = "
        "128 }\n"
        "weight_grad = { a = \"bf16\" }\nmultiple_of = 64");
    CHECK(cast(p, "forward.a") == "e4m3fn/tensor:te_delayed:history=16:margin=1:most_recent");
    CHECK(cast(p, "input_grad.a") == "e5m2/tensor:te_delayed:history=16:margin=1:most_recent");
    CHECK(cast(p, "weight_grad.a") == "bf16");
    CHECK(to_string(p.matmul("block.0.mlp.up", "forward").rule) == "sm90.wgmma.fp8, promote add 128");
    // A block-scaled machine applies the scales itself.
    const ResolvedPolicy mx = with_rule("recipe = \"te-mxfp8\"\nforward = { machine = \"sm100.tcgen05.mxfp8\" }");
    CHECK(to_string(mx.matmul("block.0.mlp.up", "forward").rule) == "sm100.tcgen05.mxfp8");
    const ResolvedPolicy hopper = with_rule("recipe = \"te-mxfp8\"\nforward = { machine = \"sm90.wgmma.fp8\" }");
    CHECK(to_string(hopper.matmul("block.0.mlp.up", "forward").rule) == "sm90.wgmma.fp8, promote fma_joint 32");
    // The same cast can be written as a table of keys.
    const ResolvedPolicy table = with_rule(
        "forward = { a = { format = \"e4m3fn\", scaling = \"tensor\", scale_rule = \"te_delayed\", "
        "history = 16, margin = 1, algorithm = \"most_recent\" } }");
    CHECK(cast(table, "forward.a") == cast(p, "forward.a"));
}

TEST_CASE("every cast of a recipe can be written and read back", "[experiments][recipe]") {
    for (const Recipe& recipe : all_recipes()) {
        const ResolvedPolicy policy = resolve(load_policy(recipe.name), model_sites({}));
        for (const auto& [slot, rule] : policy.casts) {
            CAPTURE(slot, to_string(rule));
            CHECK(parse_cast(to_string(rule), "") == rule);
        }
    }
}

TEST_CASE("unknown recipes and invalid histories are refused with a remedy", "[experiments][recipe]") {
    using Catch::Matchers::Contains;
    struct Case {
        const char *rule, *what, *fix;
    };
    const Case cases[] = {
        {"recipe = \"te-blok\"", "unknown recipe 'te-blok'", "did you mean 'te-block'?"},
        {"recipe = \"te_delaid\"", "unknown recipe 'te_delaid'", "did you mean 'te-delayed'?"},
        {"recipe = 1", "'recipe' is an integer", "give a string"},
        {"recipe = \"te-delayed:history=0\"", "history is 0", "give 1 to"},
        {"recipe = \"te-delayed:history=\"", "history is missing", "give 1 to"},
        {"recipe = \"te-delayed:margin=-1\"", "margin is -1", "give 0 to"},
        {"recipe = \"te-delayed:most_recen\"", "'most_recen'", "did you mean 'most_recent'?"},
        {"recipe = \"te-current:history=4\"", "no history", "te_delayed"},
        {"forward = { a = \"e4m3fn/1x128:te_delayed\" }", "'te_delayed' does not support '1x128'", "te_block"},
        {"forward = { a = { format = \"e4m3fn\", scaling = \"tensor\", scale_rule = \"te_delayed\", history = 0 } }",
         "'forward.a.history' is 0", "give 1 to"},
        {"forward = { a = \"e2m1fn/nvfp4:hadamard\", b = \"e2m1fn/nvfp4\" }",
         "only one operand of 'block.0.attn.qkv:forward'", "set `hadamard` for both"},
        {"forward = { a = \"bf16:hadamard\" }", "'hadamard' needs a cast with a scale", "nvfp4"},
        // This machine does not multiply numbers in the recipe's format.
        {"recipe = \"te-delayed\"\nforward = { machine = \"sm80.mma.bf16\" }",
         "rounded to e4m3fn, but sm80.mma.bf16 reads", "use another machine"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.rule);
        CHECK_THAT(error_of(c.rule), Contains(c.what));
        CHECK_THAT(error_of(c.rule), Contains(c.fix));
    }
    CHECK_THROWS_AS(load_policy("te-blok"), Error);
}

TEST_CASE("batches that a recipe cannot handle are refused before training", "[experiments][recipe]") {
    const ModelConfig model;
    const ResolvedPolicy nvfp4 = resolve(load_policy("te-nvfp4"), model_sites(model));
    const ResolvedPolicy delayed = resolve(load_policy("te-delayed"), model_sites(model));
    TrainOptions options;
    CHECK_NOTHROW(check_batches(nvfp4, model, options));
    CHECK_NOTHROW(check_batches(delayed, model, options));
    ModelConfig odd = model;
    odd.context = 7;
    options.batch = 3;
    CHECK_THROWS_AS(check_batches(nvfp4, odd, options), Error);
    CHECK_NOTHROW(check_batches(delayed, odd, options));
    options.batch = 16;
    options.ranks = 2;
    CHECK_NOTHROW(check_batches(delayed, model, options));
    options.micro_batches = 2;
    CHECK_THROWS_AS(check_batches(delayed, model, options), Error);
    options.ranks = 1;
    CHECK_NOTHROW(check_batches(delayed, model, options));
}

}  // namespace recipe_test
