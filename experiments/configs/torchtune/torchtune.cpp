// SPDX-License-Identifier: Apache-2.0
// Importer of torchtune. A recipe creates the model in the format of `dtype` and uses no autocast, so that weights,
// activations, gradients and moments have this format. Sources: torchtune/training/precision.py, recipes/*.py,
// modules/{transformer,position_embeddings}.py of 0.2.0 to 0.6.1.
#include "core/text/nearest_name.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::configs::torchtune {

namespace {

using enum KeyType;

const KeyRow rows[] = {
    {.path = "dtype",
     .type = choice,
     .defaults = {{"", "fp32"}},
     .choices = "bf16 fp32 fp16 fp64",
     .sets = "store compute grad opt_state",
     .summary = "format of everything; recipes accept bf16 and fp32"},
    {.path = "device", .type = text, .defaults = {{"", "cuda"}}, .summary = "cuda, cpu, mps, xpu or npu"},
    {.path = "model", .type = map},
    {.path = "model._component_", .type = text, .sets = "store adapter", .summary = "function that makes the model"},
    {.path = "model.quantize_base", .type = flag, .defaults = {{"", "false"}}, .sets = "store"},
    {.path = "model.*", .type = any, .effect = KeyEffect::inert},
    {.path = "optimizer", .type = map},
    {.path = "optimizer._component_", .type = text, .sets = "opt_state opt_kernel"},
    {.path = "optimizer.fused", .type = flag, .defaults = {{"", "false"}}, .sets = "opt_kernel"},
    {.path = "optimizer.*", .type = any, .effect = KeyEffect::inert},
    {.path = "optimizer_in_bwd", .type = flag, .defaults = {{"", "false"}}, .summary = "steps in the backward pass"},
    {.path = "gradient_accumulation_steps", .type = count, .defaults = {{"", "1"}}, .sets = "accum"},
    {.path = "clip_grad_norm", .type = any, .since = "0.3.0", .sets = "clip", .summary = "'inf' only logs the norm"},
    {.path = "enable_activation_checkpointing", .type = flag, .defaults = {{"", "false"}}, .sets = "ckpt"},
    {.path = "compile", .type = flag, .defaults = {{"", "false"}}},
    {.path = "quantizer", .type = map, .summary = "quantisation-aware training, or quantisation after training"},
    {.path = "quantizer.*", .type = any},
};

// Keys that recipes read after the newest release.
constexpr std::string_view inert_keys = "run_val_every_n_steps dataset_val dataset_val.* batch_size_val";

struct Facts {
    char format = 'F';  ///< format of weights, activations and gradients: F or B
    bool on_cpu = false;
    bool has_adapter = false;
    bool is_quantised = false;  ///< the frozen base is quantised to NF4
    std::string optimizer;      ///< dotted name of the class
    bool in_backward = false;   ///< the optimiser steps in the backward pass
};

Facts facts_of(const ImportContext& context) {
    Facts facts;
    facts.format = context.text("dtype") == "bf16" ? 'B' : 'F';
    facts.on_cpu = context.text("device") == "cpu" || context.device().kind == DeviceProfile::Kind::cpu;
    const std::string model = lowered(context.text("model._component_"));
    const auto contains = [&](std::string_view word) { return model.find(word) != std::string::npos; };
    facts.is_quantised = contains("qlora_") || context.flag("model.quantize_base");
    facts.has_adapter = contains("lora_") || contains("dora_");
    facts.optimizer = context.text("optimizer._component_");
    facts.in_backward = context.flag("optimizer_in_bwd");
    return facts;
}

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

bool refuses_bf16(const Context& context, const Facts& facts) {
    return !facts.on_cpu && !context.device().torch_says_bf16;
}

Found fp16_refused(const Context& context, const Facts& facts) {
    if (context.text("dtype") != "fp16") return {};
    return FindingText{"the recipes raise an error for fp16, because torchtune has neither autocast nor a loss scaler",
                       refuses_bf16(context, facts) ? "dtype: fp32" : "dtype: bf16"};
}
Found fp64_unread(const Context& context, const Facts&) {
    if (context.text("dtype") != "fp64") return {};
    return FindingText{"macheps has no training in fp64", "dtype: fp32"};
}
Found bf16_refused(const Context& context, const Facts& facts) {
    if (facts.format != 'B' || !refuses_bf16(context, facts)) return {};
    return FindingText{fmt::format("{} has no bf16: torchtune raises an error", context.device().name), "dtype: fp32"};
}
Found bf16_emulated(const Context& context, const Facts& facts) {
    if (facts.format != 'B' || facts.on_cpu || context.device().bf16 || !context.device().torch_says_bf16) return {};
    return FindingText{
        fmt::format("{} has no bf16 units; torch reports bf16 as supported because it counts emulation, which is slow",
                    context.device().name),
        "dtype: fp32"};
}
Found clip_in_backward(const Context& context, const Facts& facts) {
    if (!facts.in_backward || !context.has("clip_grad_norm")) return {};
    return FindingText{
        "gradients cannot be clipped if the optimiser steps in the backward pass: the recipe raises an "
        "error",
        "optimizer_in_bwd: false"};
}
Found accumulation_in_backward(const Context& context, const Facts& facts) {
    if (!facts.in_backward || !(context.number("gradient_accumulation_steps").value_or(1) > 1)) return {};
    return FindingText{
        "gradients cannot be accumulated if the optimiser steps in the backward pass: the recipe raises "
        "an error",
        "optimizer_in_bwd: false"};
}
Found no_master(const Context&, const Facts& facts) {
    if (facts.format == 'F') return {};
    return FindingText{
        fmt::format("torchtune has no autocast: {}, activations, gradients and moments are bf16, and without fp32 "
                    "master weights small updates are lost",
                    facts.has_adapter ? "adapters" : "weights"),
        "dtype: fp32"};
}
Found fp32_products(const Context& context, const Facts& facts) {
    if (facts.format != 'F' || !context.device().tf32 || facts.on_cpu) return {};
    return FindingText{
        "matrix products stay in fp32: torchtune has a function that turns TF32 on, but no recipe calls "
        "it",
        {}};
}
Found compiled(const Context& context, const Facts&) {
    if (!context.flag("compile")) return {};
    return compilation_not_emulated();
}
Found quantised_training(const Context& context, const Facts&) {
    if (!context.has("quantizer")) return {};
    return not_emulated(
        "the quantizer of a recipe for quantisation-aware training is not emulated: the policy trains without it");
}

const FindingRow<Facts> finding_rows[] = {
    {"fp16-refused", error, {"dtype"}, fp16_refused},
    {"fp64-unread", error, {"dtype"}, fp64_unread},
    {"bf16-unsupported", error, {"dtype", "device"}, bf16_refused},
    {"clip-in-backward", error, {"optimizer_in_bwd", "clip_grad_norm"}, clip_in_backward},
    {"accumulation-in-backward", error, {"optimizer_in_bwd", "gradient_accumulation_steps"}, accumulation_in_backward},
    {"no-master", warning, {"dtype"}, no_master},
    {"bf16-emulated", warning, {"dtype"}, bf16_emulated},
    {"torch-compile", warning, {"compile"}, compiled},
    {"quantizer-unread", warning, {"quantizer"}, quantised_training},
    {"fp32-products", note, {"dtype"}, fp32_products},
};

void set_update(ImportContext& context, const Facts& facts) {
    context.set("opt_kernel", word_field(context.flag("optimizer.fused") ? "fused" : "single"), "optimizer.fused");
    set_class_moments(context, facts.optimizer, "optimizer._component_");
    // The text 'inf' has no number: the recipe computes the norm for its log and clips nothing.
    const std::optional<double> max_norm =
        context.text("clip_grad_norm") == "inf" ? std::nullopt : context.number("clip_grad_norm");
    context.set("clip", clip_field("torch", max_norm.value_or(0)), "clip_grad_norm");
}

void resolve(ImportContext& context) {
    const Facts found = facts_of(context);
    report_rows<Facts>(context, found, finding_rows);
    set_storage(context, found.format == 'F' ? storage::fp32 : storage::pure, found.format, "dtype");
    context.set("store", found.is_quantised ? word_field("nf4") : letter(found.format),
                found.is_quantised ? "model._component_" : "dtype");
    context.infer("buffers", letter('F'), "torchtune computes the angles of rotary embeddings in fp32");
    context.infer("logits", letter('F'), "torchtune converts the output of the head to fp32");
    context.infer("predivide", word_field("average"), "FSDP 2");
    context.infer("scaler", no_scaler_field(), "torchtune has no loss scaler");
    set_update(context, found);
    context.set("ckpt", {.value = context.flag("enable_activation_checkpointing"), .parts = {}},
                "enable_activation_checkpointing");
    context.set("adapter", found.has_adapter ? letter(found.format) : word_field("none"), "model._component_");
    context.infer("fp8", word_field("none"), "torchtune's recipes have no fp8");
    if (context.text("device") == "cpu") context.set("device", word_field("cpu"), "device");
}

/// See Framework::recognises. Only torchtune names the function that makes a part of the training with `_component_`.
int recognises(const files::ConfigValue& root) {
    const auto names_component = [](const files::ConfigValue::Entry& entry) {
        return entry.value.is_map() && entry.value.entry("_component_") != nullptr;
    };
    return std::any_of(root.entries.begin(), root.entries.end(), names_component) ? 97 : 0;
}

}  // namespace

extern const Framework framework{.name = "torchtune",
                                 .title = "torchtune",
                                 .newest = "0.6.1",
                                 .oldest = "0.2.0",
                                 .keys = rows,
                                 .inert_keys = inert_keys,
                                 .model = "llama",
                                 .model_keys = "model._component_",
                                 .dtype_keys = "dtype",
                                 .marks = "*._component_ @tune*",
                                 .recognises = recognises,
                                 // Recipes look up the keys that they know.
                                 .refuses_unknown = [](const ImportContext&, std::string_view) { return false; },
                                 .resolve = resolve};

}  // namespace macheps::configs::torchtune
