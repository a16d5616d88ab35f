// SPDX-License-Identifier: Apache-2.0
// Tests of the layer filters of frameworks on a GPT-2 and a Llama: the names of linears, the reasons for leaving
// linears out, the linears that remain, and the errors.
#include "experiments/policy/layer_filter.hpp"
#include "core/error.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace layer_filter_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

ModelConfig gpt2() {
    return {.kind = ModelKind::gpt2, .layers = 2, .width = 32, .heads = 4, .context = 8, .vocabulary = 48};
}
ModelConfig llama() {
    return {.kind = ModelKind::llama,
            .layers = 2,
            .width = 32,
            .heads = 4,
            .context = 8,
            .vocabulary = 48,
            .kv_heads = 2,
            .hidden = 96,
            .tied = false};
}

/// Returns the sites that a filter leaves out.
std::vector<std::string> left_out(std::string_view filter, const ModelConfig& model) {
    REQUIRE(find_layer_filter(filter) != nullptr);
    std::vector<std::string> sites;
    for (const auto& [site, verdict] : left_out_by({.filter = find_layer_filter(filter)}, model_sites(model))) {
        CHECK_FALSE(verdict.why.empty());
        sites.push_back(site);
    }
    return sites;
}

std::string why(std::string_view filter, const ModelConfig& model, const std::string& site) {
    const auto all = left_out_by({.filter = find_layer_filter(filter)}, model_sites(model));
    const auto found = all.find(site);
    return found == all.end() ? "" : found->second.why;
}

std::vector<std::string> names(ModuleNames whose, const ModelConfig& model) {
    std::vector<std::string> list;
    for (const FrameworkLinear& linear : framework_linears(whose, model_sites(model))) list.push_back(linear.name);
    return list;
}

using Sites = std::vector<std::string>;

Policy with_filter(const std::string& more, const std::string& sites = "*") {
    return parse_policy(fmt::format("[[rule]]\nsites = \"{}\"\n{}\nforward = {{ a = \"e4m3fn/tensor\", b = "
                                    "\"e4m3fn/tensor\", bias_after = true }}\n",
                                    sites, more),
                        "filter.toml");
}

const std::string linears = "{block.*.{attn.qkv,attn.proj,mlp.gate,mlp.up,mlp.down},lm_head}";

}  // namespace

TEST_CASE("linears have the names that each framework gives them, in the order in which it registers them",
          "[policy][filter]") {
    const std::vector<std::string> transformers{"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj",
                                                "model.layers.0.self_attn.v_proj", "model.layers.0.self_attn.o_proj",
                                                "model.layers.0.mlp.gate_proj",    "model.layers.0.mlp.up_proj",
                                                "model.layers.0.mlp.down_proj",    "lm_head"};
    ModelConfig one = llama();
    one.layers = 1;
    CHECK(names(ModuleNames::transformers, one) == transformers);
    CHECK(names(ModuleNames::transformers, gpt2()).front() == "transformer.h.0.attn.c_attn");
    CHECK(names(ModuleNames::transformers, gpt2()).back() == "lm_head");
    CHECK(names(ModuleNames::transformers, gpt2()).size() == 9);
    CHECK(names(ModuleNames::torchtitan, one).back() == "output");
    CHECK(names(ModuleNames::megatron, gpt2()).front() == "decoder.layers.0.self_attention.linear_proj");
    // Every linear of the model has a name in each framework. If a framework splits a linear, such as qkv, the parts
    // together have the rows of the whole linear.
    for (const ModelConfig& model : {gpt2(), llama()}) {
        const SiteList sites = model_sites(model);
        for (const ModuleNames whose : {ModuleNames::transformers, ModuleNames::torchtitan}) {
            std::map<std::string, std::int64_t> rows;
            for (const FrameworkLinear& linear : framework_linears(whose, sites)) rows[linear.site] += linear.out;
            for (const Site& site : sites.sites) {
                if (site.kind.has_weight) CHECK(rows[site.name] == site.out);
            }
        }
    }
    const auto megatron = framework_linears(ModuleNames::megatron, model_sites(one));
    CHECK(megatron[2].name == "decoder.layers.0.mlp.linear_fc1");
    CHECK(megatron[2].out == 2 * 96);
}

TEST_CASE("Accelerate converts every Linear except the first and the last", "[policy][filter]") {
    CHECK(left_out("accelerate-ao", gpt2()) == Sites{"block.0.attn.qkv", "lm_head"});
    CHECK(left_out("accelerate-ao", llama()) == Sites{"block.0.attn.qkv", "lm_head"});
    CHECK(why("accelerate-ao", gpt2(), "block.0.attn.qkv") == "transformer.h.0.attn.c_attn: it is the first Linear");
    CHECK(why("accelerate-ao", llama(), "block.0.attn.qkv") ==
          "model.layers.0.self_attn.q_proj: it is the first Linear; block.0.attn.qkv is one matrix, so all of "
          "it stays in high precision");
    CHECK(why("accelerate-ao", llama(), "lm_head") == "lm_head: it is the last Linear");
    ModelConfig odd = llama();
    odd.hidden = 40;
    CHECK(left_out("accelerate-ao", odd).size() == 2 + 2 * 3);
    CHECK(why("accelerate-ao", odd, "block.1.mlp.down") ==
          "model.layers.1.mlp.down_proj: 16 does not divide its sides 32 x 40");
    // With one key head of 8 channels, k_proj has a side of 8. The filter checks k_proj, not the fused qkv matrix.
    ModelConfig narrow = llama();
    narrow.kv_heads = 1;
    CHECK(why("accelerate-ao", narrow, "block.1.attn.qkv") ==
          "model.layers.1.self_attn.k_proj: 16 does not divide its sides 8 x 32; block.1.attn.qkv is one matrix, so "
          "all of it stays in high precision");
}

TEST_CASE("Accelerate's conversion of a module to Transformer Engine stops at the first Linear that does not fit",
          "[policy][filter]") {
    CHECK(left_out("accelerate-te", llama()).empty());
    CHECK(left_out("accelerate-te", gpt2()).empty());
    ModelConfig narrow = llama();
    narrow.kv_heads = 1;
    // The sides of o_proj are multiples of 16. Nevertheless it is not converted, because the conversion of the module
    // stops at k_proj, which comes before o_proj.
    CHECK(left_out("accelerate-te", narrow) ==
          Sites{"block.0.attn.proj", "block.0.attn.qkv", "block.1.attn.proj", "block.1.attn.qkv"});
    CHECK(why("accelerate-te", narrow, "block.0.attn.proj") ==
          "model.layers.0.self_attn.o_proj: the conversion of model.layers.0.self_attn stops at "
          "model.layers.0.self_attn.k_proj, whose sides are not multiples of 16");
    ModelConfig odd = gpt2();
    odd.vocabulary = 50;
    CHECK(left_out("accelerate-te", odd) == Sites{"lm_head"});
}

TEST_CASE("a filter by name leaves out the same linears as the filter of its framework", "[policy][filter]") {
    // Axolotl compares whole components of a name, so gate_proj does not count as a gate.
    CHECK(left_out("axolotl", llama()) == left_out("accelerate-ao", llama()));
    CHECK(left_out("blocks", llama()) == Sites{"lm_head"});
    CHECK(left_out("llamafactory", llama()) == Sites{"lm_head"});
    CHECK(why("llamafactory", gpt2(), "lm_head") == "lm_head: its name contains \"lm_head\"");
    CHECK(left_out("torchao-mxfp8", llama()) == Sites{"block.0.attn.qkv", "block.1.attn.qkv", "lm_head"});
    CHECK(why("torchao-mxfp8", llama(), "lm_head") == "output: its name contains \"output\"");
    CHECK(left_out("torchao-mxfp8", gpt2()).empty());  // torchtitan has no names for the linears of a GPT-2

    // The following names do not occur in the GPT-2 and the Llama of this test.
    const auto judged = [](std::string_view filter, std::vector<std::string> own, std::size_t i) {
        std::vector<FrameworkLinear> all;
        for (std::string& name : own)
            all.push_back({.name = std::move(name), .site = "", .in = 64, .out = 64, .block = 0, .blocks = 1});
        return find_layer_filter(filter)->judge(all, i).why;
    };
    for (const char* name : {"model.layers.0.mlp.gate", "model.layers.0.router.linear"}) {
        CAPTURE(name);
        CHECK(judged("axolotl", {"first", name, "last"}, 1).find("router") != std::string::npos);
        CHECK(judged("blocks", {"first", name, "last"}, 1).find("router") != std::string::npos);
        CHECK(judged("accelerate-ao", {"first", name, "last"}, 1).empty());
    }
    for (const char* name : {"bert.embeddings.projection", "attention.output.dense", "Classifier.out", "LM_HEAD"}) {
        CAPTURE(name);
        CHECK_FALSE(judged("llamafactory", {"a", name}, 1).empty());
    }
    CHECK_FALSE(judged("torchao-mxfp8", {"a", "layers.0.moe.router.gate"}, 1).empty());
    CHECK(judged("torchao-mxfp8", {"a", "layers.0.attention.wo"}, 1).empty());
}

TEST_CASE("torchao's automatic filters decide by sizes alone", "[policy][filter]") {
    struct Case {
        std::int64_t k, n;
        bool tensorwise, rowwise;  ///< whether the filter converts the linear
        const char* why;
    };
    for (const Case& c : {Case{4096, 1024, false, false, "both are small"},
                          {4112, 1024, true, false, "K beyond 4096"},
                          {4096, 1040, true, false, "N beyond 1024"},
                          {1024, 4112, true, false, "K of 1024"},
                          {1040, 4112, true, true, "K and N beyond"},
                          {2048, 4096, true, false, "both exactly at the limits"},
                          {2064, 4096, true, true, "K beyond 2048"},
                          {2048, 4112, true, true, "N beyond 4096"},
                          {2064, 2048, true, false, "N of 2048"},
                          {2064, 2064, true, true, "N beyond 2048"},
                          {8200, 8192, false, false, "not a multiple of 16"}}) {
        CAPTURE(c.k, c.n, c.why);
        const FrameworkLinear linear{.name = "l", .site = "l", .in = c.k, .out = c.n};
        CHECK(find_layer_filter("torchao-auto-tensorwise")->judge({&linear, 1}, 0).why.empty() == c.tensorwise);
        CHECK(find_layer_filter("torchao-auto-rowwise")->judge({&linear, 1}, 0).why.empty() == c.rowwise);
    }
}

TEST_CASE("the filter of the NVFP4 paper leaves out the last sixth of the hidden linears", "[policy][filter]") {
    CHECK(left_out("nvfp4-paper", gpt2()) == Sites{"block.1.mlp.down", "lm_head"});
    ModelConfig deep = gpt2();
    deep.layers = 12;
    CHECK(left_out("nvfp4-paper", deep).size() == 1 + 8);  // lm_head, and 16 % of 48 linears: 7.68 is rounded to 8
    CHECK(why("nvfp4-paper", deep, "block.10.attn.qkv") ==
          "transformer.h.10.attn.c_attn: it is one of the last 8 of 48 hidden linears");
    CHECK(why("nvfp4-paper", deep, "block.9.mlp.down").empty());
}

TEST_CASE("with Transformer Engine, a linear with a side that is not a multiple of 16 is an error",
          "[policy][filter]") {
    ModelConfig odd = gpt2();
    odd.hidden = 40;
    const auto refused = [](const Policy& policy, const ModelConfig& model) -> std::string {
        try {
            resolve(policy, model_sites(model));
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    const std::string told = refused(with_filter("filter = \"transformer-engine\"", "block.*.mlp.up"), odd);
    CHECK(told ==
          "filter.toml:1:1 (rule 1): the framework raises an error for this model: transformer.h.0.mlp.c_fc: "
          "transformer_engine/pytorch/utils.py asserts multiples of 16, but 16 does not divide its sides 40 x 32 (use "
          "sizes that fit, or exclude that layer from the rule)");
    CHECK(refused(with_filter("filter = \"transformer-engine\"", "block.*.attn.*"), odd).empty());
    // Megatron never runs its output layer in fp8, so the size of that layer causes no error.
    ModelConfig vocabulary = gpt2();
    vocabulary.vocabulary = 50;
    const ResolvedPolicy megatron = resolve(with_filter("filter = \"megatron\"", linears), model_sites(vocabulary));
    CHECK(megatron.left_out_sites() == Sites{"lm_head"});
    CHECK(megatron.low_linears() == ResolvedPolicy::LowLinears{.low = 8, .asked = 9});
    CHECK_FALSE(refused(with_filter("filter = \"transformer-engine\"", linears), vocabulary).empty());
}

TEST_CASE("a rule leaves the linears that its filter excludes unchanged, and a reason is recorded for each of them",
          "[policy][filter]") {
    const ResolvedPolicy policy = resolve(with_filter("filter = \"accelerate-ao\"", linears), model_sites(llama()));
    CHECK(policy.left_out_sites() == Sites{"block.0.attn.qkv", "lm_head"});
    CHECK(policy.low_linears() == ResolvedPolicy::LowLinears{.low = 9, .asked = 11});
    CHECK(to_string(policy.cast("lm_head:forward.a")) == "fp32");
    CHECK(to_string(policy.cast("block.0.attn.proj:forward.a")) == "e4m3fn/tensor");
    // A site is reported as left out only if the patterns of the rule match it.
    const ResolvedPolicy some =
        resolve(with_filter("filter = \"accelerate-ao\"", "block.*.{attn.qkv,mlp.up}"), model_sites(llama()));
    CHECK(some.left_out_sites() == Sites{"block.0.attn.qkv"});
    const ResolvedPolicy ends =
        resolve(with_filter("skip_first_blocks = 1\nskip_last_blocks = 1\nfilter = \"blocks\"", linears), [] {
            ModelConfig deep = gpt2();
            deep.layers = 4;
            return model_sites(deep);
        }());
    CHECK(ends.low_linears() == ResolvedPolicy::LowLinears{.low = 8, .asked = 17});
    CHECK(ends.left_out.front() ==
          ResolvedPolicy::LeftOut{"block.0.attn.qkv", "transformer.h.0.attn.c_attn: its block is one of the first 1",
                                  true});
    CHECK(resolve(load_policy("amp-bf16"), model_sites(gpt2())).low_linears() == ResolvedPolicy::LowLinears{});
}

TEST_CASE("a filter that leaves no linear in low precision is refused", "[policy][filter]") {
    const auto what = [](const std::string& more, const ModelConfig& model) -> std::string {
        try {
            resolve(with_filter(more, linears), model_sites(model));
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::bad_input);
            return error.what();
        }
        return "";
    };
    CHECK(what("filter = \"torchao-auto-rowwise\"", gpt2()) ==
          "filter.toml:1:1 (rule 1): the filter 'torchao-auto-rowwise' excludes every matching linear layer: "
          "transformer.h.0.attn.c_attn: not faster in fp8: N = 96 <= 2048 (train a model of other sizes, or use "
          "another filter)");
    CHECK(what("skip_first_blocks = 2", gpt2()).empty());  // lm_head remains
    // multiple_of describes the alignment that a kernel needs. It is not a choice of layers, so a policy is accepted
    // even if no linear fits. The linears that do not fit are reported.
    CHECK(what("multiple_of = 64", gpt2()).empty());
    CHECK(resolve(with_filter("multiple_of = 64", linears), model_sites(gpt2())).low_linears() ==
          ResolvedPolicy::LowLinears{.low = 0, .asked = 9});
    CHECK(what("filter = \"blocks\"\nskip_last_blocks = 2", gpt2()).find("excludes every matching linear layer") !=
          std::string::npos);
    CHECK(what("filter = \"blocks\"\nskip_last_blocks = 1", gpt2()).empty());
    try {
        with_filter("filter = \"acelerate-ao\"");
        FAIL("nothing was refused");
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find("unknown layer filter 'acelerate-ao'") != std::string::npos);
        CHECK(std::string(error.what()).find("did you mean 'accelerate-ao'?") != std::string::npos);
    }
}

TEST_CASE("every filter has a unique name, a source and a summary", "[policy][filter]") {
    std::set<std::string_view> seen;
    for (const LayerFilter& filter : layer_filters()) {
        CAPTURE(std::string(filter.name));
        CHECK(seen.insert(filter.name).second);
        CHECK_FALSE(filter.source.empty());
        CHECK_FALSE(filter.summary.empty());
        REQUIRE(filter.judge != nullptr);
        for (const ModelConfig& model : {gpt2(), llama()}) CHECK_NOTHROW(left_out(filter.name, model));
    }
}

}  // namespace layer_filter_test
