// SPDX-License-Identifier: Apache-2.0
// Compares each preset with tables of the format that it must use at each slot. The tables are written by hand from the
// frameworks' rules, for a GPT-2 block in nanoGPT's form (nn.GELU, explicit softmax, cross entropy on the logits) and
// for a Llama block in the form of Hugging Face transformers (eager attention, logits.float()).
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/policy/rule.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/model/rounder.hpp"
#include "experiments/training/model/transformer.hpp"
#include "tests/emulation/backends.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace preset_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

/// The format that each kind of preset must use for one operation. F: fp32. T: a matmul operand that is read as tf32.
/// L: the low format of the preset.
struct OpRow {
    const char *what, *slots;
    char fp32, tf32, amp, pure;
};

#define LINEARS "{block.?.{attn.qkv,attn.proj,mlp.gate,mlp.up,mlp.down},lm_head}"
#define NORMS "{block.?.norm?,final_norm}"
#define PRODUCTS "block.?.attn.{scores,mix}"

const std::vector<OpRow> gpt2_rows{
    // forward
    {"token and position embeddings, their sum", "embed:forward.out", 'F', 'F', 'F', 'L'},
    {"layer norms", "{block.?.norm?,final_norm}:forward.out", 'F', 'F', 'F', 'L'},
    {"linears: operands", LINEARS ":forward.{a,b}", 'F', 'T', 'L', 'L'},
    {"linears: input on entry, bias, output", LINEARS ":forward.{in,bias,out}", 'F', 'F', 'L', 'L'},
    {"q k^T and p v: operands", PRODUCTS ":forward.{a,b}", 'F', 'T', 'L', 'L'},
    {"q k^T and p v: outputs; the scaled scores", PRODUCTS ":forward.{out,scaled}", 'F', 'F', 'L', 'L'},
    {"softmax", "block.?.attn.softmax:forward.out", 'F', 'F', 'F', 'L'},
    {"GELU", "block.?.mlp.act:forward.out", 'F', 'F', 'L', 'L'},
    {"residual additions", "block.?.residual?:forward.out", 'F', 'F', 'F', 'L'},
    {"log_softmax is passed the logits' dtype", "loss:forward.out", 'F', 'F', 'L', 'L'},
    {"mean loss: nll_loss is on the fp32 list", "loss:forward.mean", 'F', 'F', 'F', 'L'},
    // backward
    {"gradient of the logits", "loss:grad.out", 'F', 'F', 'L', 'L'},
    {"dX and dW: operands", LINEARS ":{input_grad,weight_grad}.{a,b}", 'F', 'T', 'L', 'L'},
    {"dX, dW, db: outputs", LINEARS ":{input_grad,weight_grad,bias_grad}.out", 'F', 'F', 'L', 'L'},
    {"attention's backward products: operands", PRODUCTS ":grad_?.{a,b}", 'F', 'T', 'L', 'L'},
    {"attention's backward products: outputs", PRODUCTS ":grad_?.out", 'F', 'F', 'L', 'L'},
    {"gradient of the scores' scaling", "block.?.attn.scores:grad.scaled", 'F', 'F', 'L', 'L'},
    {"GELU'", "block.?.mlp.act:grad.{in,out}", 'F', 'F', 'L', 'L'},
    {"softmax' reads the fp32 probabilities' gradient", "block.?.attn.softmax:grad.in", 'F', 'F', 'F', 'L'},
    {"softmax' gives the scores' format", "block.?.attn.softmax:grad.out", 'F', 'F', 'L', 'L'},
    {"layer norm'", "{block.?.norm?,final_norm}:grad.{in,out}", 'F', 'F', 'F', 'L'},
    {"a branch's output gradient, from the residual stream", "{" LINEARS "," PRODUCTS "}:grad.in", 'F', 'F', 'L', 'L'},
    {"residual stream and embedding, backward", "{block.?.residual?,embed}:grad.{in,out}", 'F', 'F', 'F', 'L'},
    // parameters
    {"stored weights, .grad, moments", "*:{value,grad,moment1,moment2}", 'F', 'F', 'F', 'L'},
    {"no master copy, no separate sum of micro-batches, no rounding of the update itself", "*:{master,accum,update}",
     'F', 'F', 'F', 'F'},
};

const std::vector<OpRow> llama_rows{
    // forward
    {"token embeddings", "embed:forward.out", 'F', 'F', 'F', 'L'},
    {"RMSNorm: x rsqrt(mean x^2 + eps), computed in fp32, then x weight", NORMS ":forward.{normed,out}", 'F', 'F', 'F',
     'L'},
    {"linears: operands", LINEARS ":forward.{a,b}", 'F', 'T', 'L', 'L'},
    {"linears: input on entry, output", LINEARS ":forward.{in,bias,out}", 'F', 'F', 'L', 'L'},
    {"cos, sin: stored; the module's cast has rounded inv_freq", "block.?.attn.rope:forward.{inv_freq,cos,sin}", 'F',
     'F', 'F', 'L'},
    {"q cos, rot(q) sin, their sum", "block.?.attn.rope:forward.{direct,rotated,out}", 'F', 'F', 'F', 'L'},
    {"q k^T and p v: operands", PRODUCTS ":forward.{a,b}", 'F', 'T', 'L', 'L'},
    {"q k^T and p v: outputs; the scaled scores", PRODUCTS ":forward.{out,scaled}", 'F', 'F', 'L', 'L'},
    {"softmax in fp32; the cast to the format of q is the operand's", "block.?.attn.softmax:forward.out", 'F', 'F', 'F',
     'F'},
    {"SiLU, then times up", "block.?.mlp.act:forward.{activated,out}", 'F', 'F', 'L', 'L'},
    {"residual additions", "block.?.residual?:forward.out", 'F', 'F', 'F', 'L'},
    {"cross entropy of logits.float()", "loss:forward.{out,mean}", 'F', 'F', 'F', 'F'},
    // backward
    {"gradient of the logits", "loss:grad.out", 'F', 'F', 'L', 'L'},
    {"dX and dW: operands", LINEARS ":{input_grad,weight_grad}.{a,b}", 'F', 'T', 'L', 'L'},
    {"dX, dW: outputs", LINEARS ":{input_grad,weight_grad,bias_grad}.out", 'F', 'F', 'L', 'L'},
    {"attention's backward products: operands", PRODUCTS ":grad_?.{a,b}", 'F', 'T', 'L', 'L'},
    {"attention's backward products: outputs", PRODUCTS ":grad_?.out", 'F', 'F', 'L', 'L'},
    {"dK of heads that share a key head: rotated keys are fp32 under autocast", "block.?.attn.scores:grad_b.sum", 'F',
     'F', 'F', 'L'},
    {"dV of heads that share a key head: values are low", "block.?.attn.mix:grad_b.sum", 'F', 'F', 'L', 'L'},
    {"gradient of the scores' scaling", "block.?.attn.scores:grad.scaled", 'F', 'F', 'L', 'L'},
    {"SiLU', gate up'", "block.?.mlp.act:grad.{in,activated,up,out}", 'F', 'F', 'L', 'L'},
    {"softmax' reads the probabilities' gradient", "block.?.attn.softmax:grad.in", 'F', 'F', 'F', 'L'},
    {"softmax' gives the scores' format", "block.?.attn.softmax:grad.out", 'F', 'F', 'L', 'L'},
    {"RoPE' reads gradients of rotated queries and keys", "block.?.attn.rope:grad.in", 'F', 'F', 'F', 'L'},
    {"RoPE': each product's gradient goes back to the linear's format, then their sum",
     "block.?.attn.rope:grad.{direct,rotated,out}", 'F', 'F', 'L', 'L'},
    {"RMSNorm' inner", NORMS ":grad.{in,normed,out}", 'F', 'F', 'F', 'L'},
    {"RMSNorm' dweight: products, their sum", NORMS ":weight_grad.{terms,out}", 'F', 'F', 'F', 'L'},
    {"a branch's output gradient, from the residual stream", "{" LINEARS "," PRODUCTS "}:grad.in", 'F', 'F', 'L', 'L'},
    {"residual stream and embedding, backward", "{block.?.residual?,embed}:grad.{in,out}", 'F', 'F', 'F', 'L'},
    // parameters
    {"stored weights, .grad, moments", "*:{value,grad,moment1,moment2}", 'F', 'F', 'F', 'L'},
    {"no master copy, no separate sum of micro-batches, no rounding of the update itself", "*:{master,accum,update}",
     'F', 'F', 'F', 'F'},
};

std::string expected_cast(char column, const char* low) {
    return column == 'F' ? "fp32" : column == 'T' ? "tf32:nearest_away" : low;
}

/// Returns the sites of a tiny model. The Llama shares key heads between query heads, so that it has the slots for
/// summing the gradients of a shared head.
SiteList tiny_sites(ModelKind kind) {
    ModelConfig model = named_size("tiny", kind).model;
    if (kind == ModelKind::llama) model.kv_heads = 2;
    return model_sites(model);
}
ResolvedPolicy resolved(const char* name, ModelKind kind = ModelKind::gpt2) {
    return resolve(load_policy(name), tiny_sites(kind));
}

const std::vector<OpRow>& rows_of(ModelKind kind) { return kind == ModelKind::llama ? llama_rows : gpt2_rows; }
constexpr ModelKind both_kinds[] = {ModelKind::gpt2, ModelKind::llama};

const OpRow& row_of(const std::string& slot, ModelKind kind) {
    std::vector<const OpRow*> rows;
    for (const OpRow& row : rows_of(kind)) {
        if (glob_match(row.slots, slot)) rows.push_back(&row);
    }
    CAPTURE(slot);
    REQUIRE(rows.size() == 1);
    return *rows.front();
}

}  // namespace

TEST_CASE("under each framework preset, every slot has the format that the framework uses for that operation",
          "[experiments][preset]") {
    struct Case {
        const char *preset, *low;
        char OpRow::*column;
    };
    const Case cases[] = {
        {"fp32", "", &OpRow::fp32},          {"tf32", "", &OpRow::tf32},
        {"amp-fp16", "fp16", &OpRow::amp},   {"fp16-noscale", "fp16", &OpRow::amp},
        {"amp-bf16", "bf16", &OpRow::amp},   {"pure-bf16", "bf16", &OpRow::pure},
        {"pure-fp16", "fp16", &OpRow::pure}, {"static-1024", "fp16", &OpRow::amp},
    };
    for (const ModelKind kind : both_kinds) {
        for (const Case& c : cases) {
            const ResolvedPolicy policy = resolved(c.preset, kind);
            for (const auto& [slot, cast] : policy.casts) {
                const OpRow& row = row_of(slot, kind);
                CAPTURE(c.preset, slot, row.what);
                CHECK(to_string(cast) == expected_cast(row.*c.column, c.low));
            }
            for (const auto& [name, choice] : policy.matmuls) {
                CAPTURE(c.preset, name);
                CHECK(choice == MatmulChoice{});
            }
            CHECK(policy.left_out.empty());
            CHECK_FALSE(policy.has_master("embed.token.weight"));
        }
    }
}

TEST_CASE("every row of this test's tables of expected formats matches a slot of the model", "[experiments][preset]") {
    for (const ModelKind kind : both_kinds) {
        const ResolvedPolicy policy = resolved("fp32", kind);
        for (const OpRow& row : rows_of(kind)) {
            CAPTURE(row.what);
            CHECK(std::any_of(policy.casts.begin(), policy.casts.end(),
                              [&](const auto& each) { return glob_match(row.slots, each.first); }));
        }
    }
}

TEST_CASE("a rule for one kind of model does not affect the other kind", "[experiments][preset]") {
    const Policy policy = parse_policy(
        "[[rule]]\nmodel = \"llama\"\nsites = \"block.*.mlp.gate\"\nforward = { out = \"bf16\" }\n"
        "[[rule]]\nmodel = \"gpt2\"\nparams = \"embed.position.weight\"\nvalue = \"fp16\"\n",
        "mine.toml");
    const ResolvedPolicy llama = resolve(policy, tiny_sites(ModelKind::llama)),
                         gpt2 = resolve(policy, tiny_sites(ModelKind::gpt2));
    CHECK(llama.cast("block.1.mlp.gate:forward.out").format == bf16);
    CHECK(gpt2.cast("embed.position.weight:value").format == fp16);
    CHECK(llama.origin.size() == 2);  // mlp.gate:forward.out of each of the two blocks
    CHECK(gpt2.origin.size() == 1);
    CHECK_THROWS_WITH(
        parse_policy("[[rule]]\nmodel = \"lama\"\nsites = \"lm_head\"\nforward = { out = \"bf16\" }\n", "x"),
        Catch::Contains("did you mean 'llama'?"));
}

TEST_CASE("the slots of a Llama can be named in the tables of a rule", "[experiments][preset]") {
    const Policy policy = parse_policy(R"(
[[rule]]
sites   = "block.*.attn.rope"
forward = { inv_freq = "bf16", cos = "bf16", sin = "bf16", direct = "bf16", rotated = "bf16", out = "bf16" }
grad    = { in = "bf16", direct = "bf16", rotated = "bf16", out = "bf16" }
[[rule]]
sites       = ["block.*.norm?", "final_norm"]
forward     = { normed = "bf16" }
grad        = { normed = "bf16" }
weight_grad = { terms = "bf16", out = "bf16" }
[[rule]]
sites   = "block.*.mlp.act"
forward = { activated = "bf16" }
grad    = { activated = "bf16", up = "bf16" }
[[rule]]
sites  = "block.*.attn.{scores,mix}"
grad_b = { sum = "bf16" }
)",
                                       "mine.toml");
    const ResolvedPolicy llama = resolve(policy, tiny_sites(ModelKind::llama));
    for (const char* slot :
         {"block.0.attn.rope:forward.inv_freq", "block.1.attn.rope:grad.rotated", "final_norm:weight_grad.terms",
          "block.0.mlp.act:grad.up", "block.1.attn.mix:grad_b.sum"}) {
        CAPTURE(slot);
        CHECK(llama.cast(slot).format == bf16);
    }
    CHECK_THROWS_AS(resolve(policy, tiny_sites(ModelKind::gpt2)), Error);
}

TEST_CASE("pure-bf16-sr is pure-bf16 with stochastically rounded weights", "[experiments][preset]") {
    const ModelKind kind = GENERATE(ModelKind::gpt2, ModelKind::llama);
    const ResolvedPolicy plain = resolved("pure-bf16", kind), stochastic = resolved("pure-bf16-sr", kind);
    for (const auto& [slot, cast] : stochastic.casts) {
        CAPTURE(slot);
        CHECK(to_string(cast) == (slot.ends_with(":value") ? "bf16:stochastic" : to_string(plain.cast(slot))));
    }
}

TEST_CASE("fp8-tensorwise differs from amp-bf16 only in the operands and the bias of the hidden linears",
          "[experiments][preset]") {
    const ModelKind kind = GENERATE(ModelKind::gpt2, ModelKind::llama);
    const ResolvedPolicy fp8 = resolved("fp8-tensorwise", kind), amp = resolved("amp-bf16", kind);
    const std::string hidden = "block.?.{attn.qkv,attn.proj,mlp.gate,mlp.up,mlp.down}:";
    for (const auto& [slot, cast] : fp8.casts) {
        std::string expected = to_string(amp.cast(slot));
        // Activations and weights are e4m3fn. Output gradients (dY) are e5m2. They are operand a of both backward
        // matmuls.
        if (glob_match(hidden + "{forward.{a,b},input_grad.b,weight_grad.b}", slot)) expected = "e4m3fn/tensor";
        if (glob_match(hidden + "{input_grad.a,weight_grad.a}", slot)) expected = "e5m2/tensor";
        CAPTURE(slot);
        CHECK(to_string(cast) == expected);
        if (cast.granularity == find_granularity("tensor")) {
            CHECK(cast.overflow == Overflow::saturate);
            CHECK(cast.scale_rule == find_scale_rule("ao_fp8"));
            CHECK(cast.round == Round::nearest_even);
        }
    }
    for (const auto& [name, choice] : fp8.matmuls) {
        CAPTURE(name);
        CHECK(choice.bias_after == glob_match(hidden + "forward", name));
        CHECK(choice.rule == MatmulRule{});
    }
    CHECK(fp8.left_out.empty());
}

TEST_CASE("fp8-tensorwise does not change linears whose sides are not multiples of 16", "[experiments][preset]") {
    const ModelConfig model{.layers = 1, .width = 32, .heads = 4, .context = 8, .vocabulary = 40, .hidden = 72};
    const ResolvedPolicy fp8 = resolve(load_policy("fp8-tensorwise"), model_sites(model));
    const std::vector<std::string> expected{"block.0.mlp.up", "block.0.mlp.down"};
    CHECK(fp8.left_out_sites() == expected);  // 72 is not a multiple of 16; the rule does not match lm_head
    CHECK(fp8.left_out.front().why == "16 does not divide its sides 72 x 32");
    CHECK(fp8.low_linears() == ResolvedPolicy::LowLinears{.low = 2, .asked = 4});
    CHECK(to_string(fp8.cast("block.0.mlp.up:forward.a")) == "bf16");
    CHECK_FALSE(fp8.matmul("block.0.mlp.up", "forward").bias_after);
}

TEST_CASE("each preset has the expected loss scaler and optimiser arithmetic", "[experiments][preset]") {
    for (const std::string_view name : preset_names()) {
        const Policy policy = load_policy(name);
        CAPTURE(std::string(name));
        CHECK(policy.name == name);
        CHECK_FALSE(policy.description.empty());
        CHECK(policy.text == preset_text(name));
        const std::string_view scaler = name.ends_with("amp-fp16") || name == "e5m2-direct" ? "torch"
                                        : name.starts_with("static")                        ? "static"
                                                                                            : "none";
        CHECK(policy.loss_scaler.kind->name == scaler);
        CHECK(policy.optimizer_arithmetic == (name == "pure-fp16" ? fp16 : fp32));
    }
    const LossScalerConfig torch = load_policy("amp-fp16").loss_scaler;
    CHECK(torch == LossScalerConfig(*find_scaler("torch")));
    CHECK(torch.at("init_scale") == 65536);
    CHECK(torch.at("growth_interval") == 2000);
    const std::vector<std::string_view> order{"fp32",
                                              "tf32",
                                              "amp-fp16",
                                              "amp-bf16",
                                              "fp16-noscale",
                                              "static-1024",
                                              "pure-bf16",
                                              "pure-bf16-sr",
                                              "pure-fp16",
                                              "infer-fp16",
                                              "fp8-tensorwise",
                                              "a100-amp-fp16",
                                              "a100-amp-bf16",
                                              "h100-tf32",
                                              "h100-amp-fp16",
                                              "h100-amp-bf16",
                                              "h100-fp8-fast",
                                              "h100-fp8-promoted",
                                              "b200-amp-bf16",
                                              "b200-fp8",
                                              "b200-mxfp8",
                                              "b200-mxfp4",
                                              "b200-nvfp4",
                                              "te-delayed",
                                              "te-current",
                                              "te-block",
                                              "te-mxfp8",
                                              "te-nvfp4",
                                              "ao-tensorwise",
                                              "ao-rowwise",
                                              "ao-rowwise-gw-hp",
                                              "ao-mxfp8-rceil",
                                              "ao-mxfp8-floor",
                                              "ao-mxfp8-even",
                                              "ao-mxfp8-ceil",
                                              "dsv3",
                                              "mx-microxcaling",
                                              "e5m2-direct",
                                              "cpu-autocast-bf16",
                                              "cpu-autocast-bf16-amx",
                                              "lf-fp8-as-executed",
                                              "lf-fp8-as-documented"};
    CHECK(preset_names() == order);
}

TEST_CASE("every preset can be used with every kind and size of model", "[experiments][preset]") {
    std::vector<Policy> presets;
    for (const std::string_view name : preset_names()) presets.push_back(load_policy(name));
    for (const ModelKind kind : both_kinds) {
        for (const ModelSize& size : model_sizes()) {
            const ModelConfig usual = named_size(size.name, kind).model;
            ModelConfig other = usual;
            other.tied = !usual.tied;
            if (kind == ModelKind::llama) other.kv_heads = 1;
            const SiteList usual_sites = model_sites(usual), other_sites = model_sites(other);
            for (const Policy& preset : presets) {
                CAPTURE(preset.name, std::string(size.name));
                // The lf-fp8 presets use filters of frameworks, which leave the first or last linear of a model out.
                CHECK(resolve(preset, usual_sites).left_out.empty() == !preset.name.starts_with("lf-fp8"));
                CHECK_NOTHROW(resolve(preset, other_sites));
            }
        }
    }
}

namespace {

struct MachinePreset {
    const char *name, *base, *machine;
    /// Machines of the forward and of the gradient products of the hidden linears. If null, these products use
    /// `machine`.
    const char *forward = nullptr, *gradients = nullptr;
    /// Whether this preset casts the operands of the hidden linears differently than `base`.
    bool own_casts = false;
    /// Cast of all matmul operands. If null, this preset casts them like `base`.
    const char* operands = nullptr;
};

constexpr MachinePreset machine_presets[] = {
    {"a100-amp-fp16", "amp-fp16", "sm80.mma.fp16"},
    {"a100-amp-bf16", "amp-bf16", "sm80.mma.bf16"},
    // cuBLAS rounds the operands to tf32. Recorded products of PyTorch on an H100 show how it rounds
    // (tests/emulation/library_capture_test.cpp).
    {"h100-tf32", "tf32", "sm90.wgmma.tf32", nullptr, nullptr, false, "tf32"},
    {"h100-amp-fp16", "amp-fp16", "sm90.wgmma.fp16"},
    {"h100-amp-bf16", "amp-bf16", "sm90.wgmma.bf16"},
    {"h100-fp8-fast", "fp8-tensorwise", "sm90.wgmma.bf16", "sm90.wgmma.fp8, cublaslt.fp8.fast",
     "sm90.wgmma.fp8, cublaslt.fp8.split"},
    {"h100-fp8-promoted", "fp8-tensorwise", "sm90.wgmma.bf16", "sm90.wgmma.fp8, cublaslt.fp8.split",
     "sm90.wgmma.fp8, cublaslt.fp8.split"},
    {"b200-amp-bf16", "amp-bf16", "sm100.tcgen05.bf16"},
    {"b200-fp8", "fp8-tensorwise", "sm100.tcgen05.bf16", "sm100.tcgen05.fp8, cublaslt.fp8.sm100, unverified",
     "sm100.tcgen05.fp8, cublaslt.fp8.sm100, unverified"},
    {"b200-mxfp8", "b200-amp-bf16", "sm100.tcgen05.bf16", "sm100.tcgen05.mxfp8", "sm100.tcgen05.mxfp8", true},
    {"b200-mxfp4", "b200-amp-bf16", "sm100.tcgen05.bf16", "sm100.tcgen05.mxfp4", "sm100.tcgen05.mxfp4", true},
    {"b200-nvfp4", "b200-amp-bf16", "sm100.tcgen05.bf16", "sm100.tcgen05.nvfp4", "sm100.tcgen05.nvfp4", true},
};

/// Returns the loss and every gradient of one step.
std::vector<float> step_of(Backend& backend, const char* policy_name, const ModelConfig& config, std::int64_t batch) {
    std::vector<std::int32_t> tokens, targets;
    for (std::int64_t i = 0; i < batch * config.context; ++i) {
        tokens.push_back(static_cast<std::int32_t>((i * 2654435761 >> 8) % config.vocabulary));
        targets.push_back(static_cast<std::int32_t>((i * 2246822519 >> 8) % config.vocabulary));
    }
    const TokenTensor in = backend.empty_tokens({batch, config.context}),
                      out = backend.empty_tokens({batch, config.context});
    backend.upload(tokens, in);
    backend.upload(targets, out);
    Transformer model(backend, config, batch, resolve(load_policy(policy_name), model_sites(config)), 5);
    model.initialise(5);
    std::vector<float> values{model.forward(in, out).rounded};
    model.backward(1024);
    for (const auto& parameter : model.parameters()) {
        std::vector<float> host(static_cast<std::size_t>(parameter->grad.count()));
        backend.download(parameter->grad, host);
        values.insert(values.end(), host.begin(), host.end());
    }
    return values;
}

}  // namespace

TEST_CASE("a preset for a GPU runs every matmul of its base, including attention and head, on matrix units",
          "[experiments][preset]") {
    const ModelKind kind = GENERATE(ModelKind::gpt2, ModelKind::llama);
    const std::string hidden = "block.?.{attn.qkv,attn.proj,mlp.gate,mlp.up,mlp.down}:";
    for (const MachinePreset& each : machine_presets) {
        const ResolvedPolicy policy = resolved(each.name, kind), base = resolved(each.base, kind);
        CAPTURE(each.name);
        for (const auto& [slot, cast] : policy.casts) {
            if (each.own_casts && glob_match(hidden + "*.{a,b}", slot)) continue;
            CAPTURE(slot);
            if (each.operands != nullptr && glob_match("*:*.{a,b}", slot)) {
                CHECK(to_string(cast) == each.operands);
                continue;
            }
            CHECK(cast == base.casts.at(slot));
        }
        for (const auto& [name, choice] : policy.matmuls) {
            CAPTURE(name);
            std::string expected = each.machine;
            if (each.forward != nullptr && glob_match(hidden + "*", name)) {
                expected = glob_match("*:forward", name) ? each.forward : each.gradients;
            }
            MatmulChoice alone = choice;
            alone.bias_after = false;
            CHECK(to_string(alone) == expected);
            if (!each.own_casts) CHECK(choice.bias_after == base.matmuls.at(name).bias_after);
        }
        const bool is_open = each.forward != nullptr && std::string(each.forward).ends_with("unverified");
        CHECK(policy.unverified().empty() != is_open);
    }
    std::size_t on_machines = 0;
    for (const std::string_view name : preset_names())
        on_machines += !resolved(std::string(name).c_str()).machines().front().first.starts_with("fp32.chain");
    CHECK(on_machines ==
          std::size(machine_presets) + 3);  // plus dsv3 (for Hopper) and two presets for autocast on CPUs
}

TEST_CASE("with autocast on a CPU, softmax keeps the format of its input, and each matmul uses oneDNN's kernel",
          "[experiments][preset]") {
    for (const ModelKind kind : both_kinds) {
        const SiteList sites = model_sites(named_size("tiny", kind).model);
        const ResolvedPolicy cuda = resolve(load_policy("amp-bf16"), sites);
        for (const auto& [name, rule] : {std::pair{"cpu-autocast-bf16", "torch.cpu.bf16"},
                                         std::pair{"cpu-autocast-bf16-amx", "torch.cpu.bf16.amx"}}) {
            const ResolvedPolicy cpu = resolve(load_policy(name), sites);
            CAPTURE(name, to_string(kind));
            for (const auto& [matmul, choice] : cpu.matmuls) {
                CAPTURE(matmul);
                REQUIRE(choice.named != nullptr);
                CHECK(choice.named->name == rule);
            }
            // A Llama requests fp32 for its softmax; GPT-2 does not. On a CPU, the loss of both models is fp32.
            const bool keeps_scores = kind == ModelKind::gpt2;
            CHECK(to_string(cpu.cast("block.0.attn.softmax:forward.out")) == (keeps_scores ? "bf16" : "fp32"));
            CHECK(to_string(cpu.cast("loss:forward.out")) == "fp32");
            CHECK(to_string(cuda.cast("loss:forward.out")) == (kind == ModelKind::gpt2 ? "bf16" : "fp32"));
            CHECK(to_string(cuda.cast("block.0.attn.softmax:forward.out")) == "fp32");
            CHECK(cpu.cast("block.0.mlp.up:forward.a") == cuda.cast("block.0.mlp.up:forward.a"));
        }
    }
}

TEST_CASE("block-scaled presets use the casts of their frameworks", "[experiments][preset]") {
    const ModelKind kind = GENERATE(ModelKind::gpt2, ModelKind::llama);
    const std::string hidden = "block.?.{attn.qkv,attn.proj,mlp.gate,mlp.up,mlp.down}:";
    struct Case {
        const char *preset, *slots, *cast;
    };
    const Case cases[] = {
        {"b200-mxfp8", "{forward,input_grad,weight_grad}.{a,b}", "e4m3fn/mx32:ao_rceil"},
        {"b200-mxfp4", "{{forward,input_grad,weight_grad}.a,weight_grad.b}", "e2m1fn/mx32:ao_floor"},
        {"b200-mxfp4", "{forward,input_grad}.b", "e2m1fn/mx32:ao_floor:via=bf16"},
        {"b200-nvfp4", "{forward.a,weight_grad.b}", "e2m1fn/nvfp4"},
        {"b200-nvfp4", "{forward,input_grad}.b", "e2m1fn/nvfp4_16x16"},
        {"b200-nvfp4", "{input_grad,weight_grad}.a", "e2m1fn/nvfp4:stochastic:random_bits=8"},
    };
    for (const Case& c : cases) {
        const ResolvedPolicy policy = resolved(c.preset, kind);
        for (const auto& [slot, cast] : policy.casts) {
            if (!glob_match(hidden + c.slots, slot)) continue;
            CAPTURE(c.preset, slot);
            CHECK(cast == parse_cast(c.cast, ""));
        }
        CHECK(policy.matmul("block.0.mlp.up", "forward").bias_after == (std::string(c.preset) != "b200-nvfp4"));
    }
}

TEST_CASE("the factor of a product in NVFP4 is computed from the amaxes of its operands", "[experiments][preset]") {
    CpuBackend backend(1);
    Rounder rounder(backend, 0);
    const ResolvedPolicy policy = resolved("b200-nvfp4", ModelKind::gpt2);
    const Slot a(policy, "block.0.mlp.up:forward.a"), b(policy, "block.0.mlp.up:forward.b");
    const Tensor x = backend.empty({16, 16}), w = backend.empty({16, 16});
    std::vector<float> values(256, 0.25f);
    values[7] = -1.1f;
    backend.upload(values, x);
    values[9] = 1.1f;
    backend.upload(values, w);
    Tensor x_codes, w_codes;
    const Value left = rounder.apply(a, {x.view()}, x_codes), right = rounder.apply(b, {w.view()}, w_codes);
    CHECK(product_scale(left.scale, right.scale) == scale_function::te_nvfp4_product(1.1f, 1.1f));
    CHECK(product_scale(left.scale, right.scale) != left.scale.decode * right.scale.decode);
}

TEST_CASE("in a preset with fp8, linears that are left out of fp8 use the bf16 instruction", "[experiments][preset]") {
    const ModelConfig model{.layers = 1, .width = 32, .heads = 4, .context = 8, .vocabulary = 48, .hidden = 72};
    const ResolvedPolicy policy = resolve(load_policy("h100-fp8-promoted"), model_sites(model));
    CHECK(policy.left_out_sites() == std::vector<std::string>{"block.0.mlp.up", "block.0.mlp.down"});
    for (const char* matmul : {"forward", "input_grad", "weight_grad"}) {
        CHECK(policy.matmul("block.0.mlp.up", matmul).rule.machine->name == "sm90.wgmma.bf16");
        CHECK(policy.matmul("block.0.attn.proj", matmul).rule.machine->name == "sm90.wgmma.fp8");
    }
}

TEST_CASE("a preset on matrix units trains differently from its base, and alike on every engine and number of threads",
          "[experiments][preset]") {
    using test::differences;
    ModelConfig config{.layers = 1, .width = 32, .heads = 2, .context = 12, .vocabulary = 48};
    if (GENERATE(false, true)) {
        config.kind = ModelKind::llama;
        config.kv_heads = 1;
        config.tied = false;
    }
    ModelConfig larger = config;
    larger.layers = 2;
    larger.width = 64;
    larger.context = 64;
    CpuBackend scalar(1, Simd::scalar), best(2);
    for (const MachinePreset& each : machine_presets) {
        CAPTURE(each.name);
        // Rounding the outputs to bf16 hides most effects of an accumulator, so only a larger model shows a difference.
        CHECK(differences(step_of(best, each.name, larger, 8), step_of(best, each.base, larger, 8)) != "");
        const std::vector<float> reference = step_of(scalar, each.name, config, 2);
        CHECK(std::all_of(reference.begin(), reference.end(), [](float x) { return std::isfinite(x); }));
        for (const Simd level : available_simd()) {
            for (const int threads : {1, 2}) {
                if (level == Simd::scalar) continue;
                CpuBackend backend(threads, level);
                CAPTURE(backend.name());
                CHECK(differences(step_of(backend, each.name, config, 2), reference) == "");
            }
        }
    }
}

}  // namespace preset_test
