// SPDX-License-Identifier: Apache-2.0
// Tests the fp8 systems of docs/systems.md: imports a config of each system, and trains a model under its policy. A
// title "row N: ..." is about system N of tests/configs/systems.toml.
#include "core/error.hpp"
#include "tests/training/trained.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace fp8_rows_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::configs;
using namespace macheps::training;
using test::policy_of;
using test::TinyRun;
using test::Told;

namespace {

/// Returns a model in which every layer filter selects some linears for fp8, because the sides of their weights are
/// multiples of 16.
ModelConfig model_of(ModelKind kind) {
    return {.kind = kind,
            .layers = 2,
            .width = 32,
            .heads = 2,
            .context = 8,
            .vocabulary = 48,
            .kv_heads = kind == ModelKind::llama ? 1 : 0,
            .hidden = 64,
            .tied = kind == ModelKind::gpt2};
}

ResolvedPolicy resolved(const Policy& policy, ModelKind kind = ModelKind::llama) {
    return resolve(policy, model_sites(model_of(kind)));
}

std::string cast(const ResolvedPolicy& policy, std::string_view slot) { return to_string(policy.cast(slot)); }

const Told four{.framework = "llamafactory", .versions = "transformers=4.57"};
const Told accelerate{.framework = "accelerate"};

constexpr const char* lf_ao =
    "{stage: sft, do_train: true, finetuning_type: full, fp8: true, fp8_backend: torchao, bf16: true}";
constexpr const char* lf_te =
    "{stage: sft, do_train: true, finetuning_type: full, fp8: true, fp8_backend: te, bf16: true}";

std::string accelerate_te(const std::string& more) {
    return "{compute_environment: LOCAL_MACHINE, distributed_type: \"NO\", mixed_precision: fp8, num_processes: 1, "
           "fp8_config: {backend: TE" +
           more + "}}";
}

/// The losses of a few training steps, and the state after these steps.
struct Trained {
    std::vector<double> losses;
    std::map<std::string, std::vector<float>> state;
    bool operator==(const Trained&) const = default;
};
Trained trained(const Policy& policy, ModelKind kind = ModelKind::llama, int steps = 4) {
    TinyRun run(policy, model_of(kind));
    Trained result;
    for (const StepResult& step : run.run(steps)) result.losses.push_back(step.loss);
    result.state = run.state();
    for (const double loss : result.losses) CHECK(std::isfinite(loss));
    return result;
}

/// Returns a policy with the rules of `policy` and with the optimiser, clipping and loss scaler of `other`.
Policy with_step_of(const Policy& other, Policy policy) {
    policy.training = other.training;
    policy.loss_scaler = other.loss_scaler;
    policy.optimizer_arithmetic = other.optimizer_arithmetic;
    return policy;
}

/// Returns the policy that a user would write for a recipe and a filter.
Policy written(const std::string& recipe, const std::string& more, const std::string& base = "amp-bf16") {
    return parse_policy(
        "extends = \"" + base +
            "\"\n[[rule]]\nsites = \"{block.*.{attn.qkv,attn.proj,mlp.gate,mlp.up,mlp.down},lm_head}\"\n"
            "recipe = \"" +
            recipe + "\"\n" + more,
        "written.toml");
}

}  // namespace

TEST_CASE("row 18: LLaMA-Factory's fp8 trains with tensorwise scales, not with the rowwise scales of its guide",
          "[experiments][systems]") {
    const Policy imported = policy_of(lf_ao, four);
    const ResolvedPolicy executed = resolved(imported);
    CHECK(cast(executed, "block.1.mlp.up:forward.a") == "e4m3fn/tensor");
    CHECK(cast(executed, "block.1.mlp.up:weight_grad.a") == "e5m2/tensor");
    CHECK(executed.left_out_sites() == std::vector<std::string>{"block.0.attn.qkv", "lm_head"});
    CHECK(executed.low_linears() == ResolvedPolicy::LowLinears{.low = 9, .asked = 11});
    const ResolvedPolicy documented = resolved(load_policy("lf-fp8-as-documented"));
    CHECK(cast(documented, "block.0.attn.qkv:forward.a") == "e4m3fn/row");
    CHECK(documented.left_out_sites() == std::vector<std::string>{"lm_head"});
    const ResolvedPolicy preset = resolved(load_policy("lf-fp8-as-executed"));
    CHECK(preset.casts == executed.casts);
    CHECK(preset.left_out == executed.left_out);
    const Trained run = trained(imported);
    CHECK(run.losses != trained(load_policy("lf-fp8-as-documented")).losses);
    CHECK(run.losses != trained(load_policy("amp-bf16")).losses);
    // With transformers 5, the request for fp8 has no effect, and the Trainer trains in bf16.
    const Policy five = policy_of(lf_ao, {.framework = "llamafactory"});
    CHECK(resolved(five).low_linears() == ResolvedPolicy::LowLinears{});
    CHECK(trained(five).losses == trained(with_step_of(five, load_policy("amp-bf16"))).losses);
}

TEST_CASE("row 19: LLaMA-Factory's Transformer Engine backend scales by a history of 16 amaxes",
          "[experiments][systems]") {
    const Policy imported = policy_of(lf_te, four);
    const ResolvedPolicy policy = resolved(imported);
    CHECK(policy.left_out.empty());
    for (const char* slot : {"lm_head:forward.a", "block.0.attn.qkv:forward.b", "block.1.mlp.down:input_grad.b"}) {
        CAPTURE(slot);
        const CastRule& rule = policy.cast(slot);
        CHECK(rule.format == e4m3fn);
        CHECK(rule.scale_rule == find_scale_rule("te_delayed"));
        CHECK(rule.delayed == DelayedScaling{.length = 16});
    }
    CHECK(policy.cast("block.0.mlp.up:input_grad.a").format == e5m2);
    CHECK(cast(policy, "block.0.mlp.up:weight_grad.out") == "bf16");
    const auto by_hand = [&](const char* recipe) {
        const Policy policy = written(recipe, "filter = \"accelerate-te\"\nweight_grad = { out = \"bf16\" }\n");
        return trained(with_step_of(imported, policy), ModelKind::llama, 20);
    };
    const Trained run = trained(imported, ModelKind::llama, 20);
    CHECK(run == by_hand("te-delayed:history=16"));
    CHECK(run.losses != by_hand("te-delayed:history=1").losses);
}

TEST_CASE("row 22: Axolotl's fp8 trains with tensorwise scales and bf16 weights", "[experiments][systems]") {
    const Policy imported =
        policy_of("{base_model: my/model, fp8: true, bf16: true, torch_compile: true}", {.framework = "axolotl"});
    const ResolvedPolicy policy = resolved(imported);
    CHECK(policy.left_out_sites() == std::vector<std::string>{"block.0.attn.qkv", "lm_head"});
    CHECK(cast(policy, "block.1.mlp.gate:forward.b") == "e4m3fn/tensor");
    CHECK(cast(policy, "block.1.mlp.gate.weight:value") == "bf16");
    CHECK_FALSE(policy.has_master("block.1.mlp.gate.weight"));
    const Trained run = trained(imported);
    CHECK(run.losses != trained(policy_of("{base_model: my/model, bf16: true}", {.framework = "axolotl"})).losses);
}

TEST_CASE("row 23: torchao's float8 in Accelerate is the tensorwise recipe with Accelerate's filter",
          "[experiments][systems]") {
    const std::string config =
        "{compute_environment: LOCAL_MACHINE, distributed_type: \"NO\", mixed_precision: fp8, num_processes: 1, "
        "fp8_config: {backend: AO}}";
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        const Policy imported = policy_of(config, accelerate);
        CHECK(resolved(imported, kind).left_out_sites() == std::vector<std::string>{"block.0.attn.qkv", "lm_head"});
        const Policy by_hand = written("ao-tensorwise", "filter = \"accelerate-ao\"\n");
        CHECK(trained(imported, kind) == trained(with_step_of(imported, by_hand), kind));
    }
}

TEST_CASE("row 24: Transformer Engine uses the amax algorithm max although Accelerate declares most_recent",
          "[experiments][systems]") {
    const auto policy = [](const std::string& more) { return policy_of(accelerate_te(more), accelerate); };
    const Policy unsaid = policy(", amax_history_len: 3");
    const auto by_hand = [&](const char* recipe) {
        const Policy hand = written(recipe, "weight_grad = { out = \"bf16\" }\n");
        return trained(with_step_of(unsaid, hand), ModelKind::gpt2, 12);
    };
    const Trained declared = trained(unsaid, ModelKind::gpt2, 12);
    CHECK(declared == trained(policy(", amax_history_len: 3, amax_compute_algo: max"), ModelKind::gpt2, 12));
    CHECK(declared == by_hand("te-delayed:history=3:max"));
    CHECK(declared.losses != by_hand("te-delayed:history=3:most_recent").losses);

    const ResolvedPolicy e4m3 = resolved(policy(", fp8_format: E4M3, margin: 2"));
    CHECK(e4m3.cast("block.0.mlp.up:input_grad.a").format == e4m3fn);
    CHECK(e4m3.cast("block.0.mlp.up:weight_grad.a").delayed == DelayedScaling{.length = 1024, .margin = 2});
    const ResolvedPolicy high = resolved(policy(", override_linear_precision: [false, false, true]"));
    CHECK(cast(high, "block.0.mlp.up:weight_grad.a") == "bf16");
    CHECK(cast(high, "block.0.mlp.up:weight_grad.b") == "bf16");
    CHECK(high.cast("block.0.mlp.up:input_grad.a").format == e5m2);
    const ResolvedPolicy mx = resolved(policy(", use_mxfp8_block_scaling: true"));
    CHECK(cast(mx, "block.0.mlp.up:forward.a") == "e4m3fn/mx32");
    CHECK(cast(mx, "block.0.mlp.up:input_grad.a") == "e4m3fn/mx32");
}

TEST_CASE("row 24: Megatron's fp8 arguments select Transformer Engine's recipes inside its blocks",
          "[experiments][systems]") {
    const auto imported = [](const std::string& arguments) {
        const test::ConfigFolder folder;
        const ImportResult result = test::import_files({folder.write("run.args", "--num-layers 2 --bf16 " + arguments)},
                                                       {.framework = "megatron", .device = "b200"});
        for (const Finding& one : result.findings) {
            CAPTURE(one.rule, one.message);
            CHECK(severity(one) != FindingSeverity::error);
        }
        CAPTURE(result.policy);
        return parse_policy(result.policy, "run.args");
    };
    struct Case {
        const char *arguments, *slot, *cast;
    };
    for (const Case& c :
         {Case{"--fp8-format hybrid", "block.0.mlp.up:forward.a", "e4m3fn/tensor:te_delayed:history=1:most_recent"},
          Case{"--fp8-format hybrid", "block.0.mlp.up:input_grad.a", "e5m2/tensor:te_delayed:history=1:most_recent"},
          Case{"--fp8-format e4m3 --fp8-amax-history-len 4 --fp8-amax-compute-algo max", "block.0.mlp.up:input_grad.a",
               "e4m3fn/tensor:te_delayed:history=4"},
          Case{"--fp8-format hybrid --no-fp8-wgrad", "block.0.mlp.up:weight_grad.a", "bf16"},
          Case{"--fp8-format hybrid --fp8-recipe tensorwise", "block.0.mlp.up:forward.a", "e4m3fn/tensor:te_current"},
          Case{"--fp8-format e4m3 --fp8-recipe blockwise", "block.0.mlp.up:forward.b", "e4m3fn/128x128"},
          Case{"--fp8-format e4m3 --fp8-recipe mxfp8", "block.0.mlp.up:forward.b", "e4m3fn/mx32"},
          Case{"--fp8-format hybrid --fp8-recipe mxfp8", "block.0.mlp.up:input_grad.a", "e5m2/mx32"},
          Case{"--fp4-format e2m1", "block.0.mlp.up:forward.b", "e2m1fn/nvfp4_16x16"}}) {
        CAPTURE(c.arguments, c.slot);
        const Policy policy = imported(c.arguments);
        const ResolvedPolicy on = resolved(policy, ModelKind::gpt2);
        CHECK(cast(on, c.slot) == c.cast);
        CHECK(cast(on, "lm_head:forward.a") == "bf16");
        CHECK(on.left_out_sites() == std::vector<std::string>{"lm_head"});
        // Weight gradients are written directly to Megatron's fp32 buffer, and the bf16 weights have fp32 masters.
        CHECK(cast(on, "block.0.mlp.up:weight_grad.out") == "fp32");
        CHECK(cast(on, "block.0.mlp.up.weight:value") == "bf16");
        CHECK(on.has_master("block.0.mlp.up.weight"));
        trained(policy, ModelKind::gpt2, 2);
    }
    ModelConfig deep = model_of(ModelKind::gpt2);
    deep.layers = 4;
    const ResolvedPolicy ends = resolve(
        imported("--fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-end-in-bf16 2"),
        model_sites(deep));
    CHECK(ends.low_linears() == ResolvedPolicy::LowLinears{.low = 4, .asked = 17});
}

TEST_CASE("an fp8 config that its framework refuses is refused with the framework's reason", "[experiments][systems]") {
    struct Case {
        std::string config, framework, device;
        const char *rule, *says;
    };
    const std::string arguments = "--num-layers 2 --bf16 ";
    for (const Case& c :
         std::vector<Case>{{accelerate_te(", fp8_format: E5M2"), "accelerate", "h100", "accelerate/fp8-format",
                            "Pure E5M2 training is not supported"},
                           {accelerate_te(", override_linear_precision: [true, false, false]"), "accelerate", "h100",
                            "accelerate/override-linear-precision", "only for the weight gradient"},
                           {accelerate_te(", amax_history_len: 0"), "accelerate", "h100", "accelerate/fp8-history",
                            "the amax history has length 0"},
                           {arguments + "--fp8-format hybrid --fp8-amax-history-len 0", "megatron", "h100",
                            "megatron/fp8-history", "the amax history has length 0"},
                           {arguments + "--fp8-format hybrid --first-last-layers-bf16", "megatron", "h100",
                            "megatron/first-last-with-delayed", "Delayed scaling does not support first / last layer"},
                           {arguments + "--fp8-format e4m3 --fp8-recipe mxfp8", "megatron", "h100",
                            "megatron/fp8-recipe-device", "compute capability 10.0 for MXFP8"},
                           {arguments + "--fp8-format e4m3 --fp8-recipe blockwise", "megatron", "l40",
                            "megatron/fp8-recipe-device", "compute capability 9.0 for block scaling"}}) {
        CAPTURE(c.config, c.rule);
        const test::ConfigFolder folder;
        const std::string file = c.framework == "megatron" ? "run.args" : "config.yaml";
        const ImportResult result =
            test::import_files({folder.write(file, c.config)}, {.framework = c.framework, .device = c.device});
        const Finding* finding = test::find_rule(result, c.rule, 'E');
        REQUIRE(finding != nullptr);
        CHECK(finding->message.find(c.says) != std::string::npos);
    }
}

}  // namespace fp8_rows_test
