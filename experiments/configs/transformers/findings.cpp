// SPDX-License-Identifier: Apache-2.0
// Findings about TrainingArguments. There is a row for each error that its validation raises, for each setting that it
// decides silently, and for each setting that is likely to be misunderstood.
#include "core/text/nearest_name.hpp"
#include "experiments/configs/accelerate/deepspeed_section.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"
#include "experiments/configs/transformers/transformers.hpp"

#include <fmt/format.h>

namespace macheps::configs::transformers {

namespace {

using Found = std::optional<FindingText>;
using Context = ImportContext;
using Kind = DeviceProfile::Kind;
using enum FindingCode;

bool wants(const Context& c, std::string_view dtype) {
    return c.flag(dtype) || c.flag(fmt::format("{}_full_eval", dtype));
}
std::string title(const Context& c) { return fmt::format("transformers {}", to_string(c.version("transformers"))); }

Found both(const Context&, const Facts& f) {
    if (!f.fp16 || !f.bf16) return {};
    return FindingText{"at most one of fp16 and bf16 can be true: TrainingArguments raises an error",
                       "only one of the two"};
}
Found both_eval(const Context& c, const Facts&) {
    if (!c.flag("fp16_full_eval") || !c.flag("bf16_full_eval")) return {};
    return FindingText{
        "at most one of fp16_full_eval and bf16_full_eval can be true: TrainingArguments raises an error",
        "only one of the two"};
}

Found fp16_refused(const Context& c, const Facts& f) {
    if (!wants(c, "fp16") || c.since("transformers", "4.42")) return {};
    const Kind kind = f.says_cpu ? Kind::cpu : c.device().kind;
    if (!c.since("transformers", "4.41")) {
        if (kind == Kind::cuda || kind == Kind::rocm || kind == Kind::npu) return {};
        return FindingText{fmt::format("{} accepts fp16 and fp16_full_eval only on CUDA, NPU, MLU and XPU", title(c)),
                           "bf16"};
    }
    if (kind != Kind::cpu || c.since("torch", "2.3")) return {};
    return FindingText{"fp16 on a CPU requires torch 2.3", "bf16, or a newer torch"};
}
Found fp16_on_cpu(const Context& c, const Facts& f) {
    if (!f.fp16 || !f.on_cpu || fp16_refused(c, f)) return {};
    return FindingText{
        "on a CPU fp16 is accepted but does nothing: no autocast, no loss scaler, the run computes in fp32",
        "fp16: false with bf16: true with use_cpu: true"};
}
Found cpu_amp_fp16(const Context& c, const Facts& f) {
    if (c.since("transformers", "5") || !f.fp16 || c.text("half_precision_backend") != "cpu_amp") return {};
    return FindingText{"the backend cpu_amp has no fp16", "bf16: true"};
}

Found bf16_refused(const Context& c, const Facts& f) {
    if (!wants(c, "bf16") || f.says_cpu) return {};
    if (c.device().kind == Kind::cpu) {
        if (!c.since("transformers", "4.52")) return {};
        return FindingText{
            fmt::format(
                "{} requires a GPU for bf16 unless use_cpu is true: it raises \"Your setup doesn't support bf16/gpu\"",
                title(c)),
            "use_cpu: true"};
    }
    if (c.device().torch_says_bf16) return {};
    return FindingText{fmt::format("{} has no bf16: TrainingArguments raises an error", c.device().name),
                       without_bf16(c, f)};
}
Found bf16_emulated(const Context& c, const Facts& f) {
    if (!wants(c, "bf16") || f.says_cpu || c.device().bf16 || !c.device().torch_says_bf16) return {};
    return FindingText{
        fmt::format("{} has no bf16 units; torch reports bf16 as supported because it counts emulation, so the "
                    "run uses bf16, slowly",
                    c.device().name),
        without_bf16(c, f)};
}
Found bf16_apex(const Context& c, const Facts& f) {
    if (c.since("transformers", "5") || !f.bf16 ||
        (c.text("half_precision_backend") != "apex" && c.text("fp16_backend") != "apex"))
        return {};
    return FindingText{"Apex has no bf16: TrainingArguments raises an error", "half_precision_backend: auto"};
}
Found old_backend(const Context& c, const Facts&) {
    if (c.since("transformers", "5") || !c.has("fp16_backend") || c.text("fp16_backend") == "auto") return {};
    return FindingText{"fp16_backend is deprecated; it overwrites half_precision_backend", "half_precision_backend"};
}
Found opt_level_unread(const Context& c, const Facts& f) {
    if (c.since("transformers", "5") || !c.has("fp16_opt_level") || f.apex) return {};
    return FindingText{"only the Apex backend reads fp16_opt_level", {}};
}

Found tf32_refused(const Context& c, const Facts& f) {
    if (!c.maybe_flag("tf32").value_or(false) || f.has_tf32) return {};
    return FindingText{
        fmt::format(
            "tf32 requires an NVIDIA GPU of compute capability 8.0, which {} is not: TrainingArguments raises an error",
            f.says_cpu ? "a CPU" : c.device().name),
        "remove tf32"};
}
Found tf32_by_compile(const Context& c, const Facts& f) {
    if (!f.compiles || !f.has_tf32 || c.maybe_flag("tf32") || (f.fp16 && !f.bf16)) return {};
    return FindingText{
        "torch_compile turns tf32 on if tf32 is not set: the operands of fp32 matmuls are rounded to tf32",
        "tf32: false, to keep fp32"};
}
Found compile_fuses(const Context&, const Facts& f) {
    if (!f.compiles) return {};
    return compilation_not_emulated();
}
Found fused_skip(const Context& c, const Facts& f) {
    if (!f.fused || f.autocast != 'H' || f.deepspeed) return {};
    return FindingText{
        fmt::format("the fused AdamW{} skips steps inside its kernel, so the Trainer does not notice them: the "
                    "learning rate still advances",
                    c.has("optim") ? "" : " (the default since torch 2.8)"),
        "optim: adamw_torch"};
}
Found nan_filter(const Context& c, const Facts& f) {
    // A framework that shares the root knows itself how it loads the weights.
    const bool loads_low = f.loaded != 'F' && !c.root_is_shared();
    const bool is_low = f.autocast != 'F' || loads_low || f.deepspeed;
    if (!c.flag(nan_filter_key) || (!c.has(nan_filter_key) && !is_low)) return {};
    return nan_filter_text();
}
Found full_eval(const Context& c, const Facts&) {
    if (!c.flag("fp16_full_eval") && !c.flag("bf16_full_eval")) return {};
    return FindingText{
        "full evaluation in a low-precision format applies only outside training; during training the weights do not "
        "change their format",
        {}};
}

Found full_eval_buffers(const Context& c, const Facts&) {
    const bool fp16 = c.flag("fp16_full_eval"), bf16 = c.flag("bf16_full_eval");
    if (fp16 == bf16) return {};
    return FindingText{
        fmt::format("evaluation outside training casts the model with model.to({}), which also casts its buffers: the "
                    "frequencies of rotary embeddings are rounded, and stay rounded afterwards",
                    fp16 ? "float16" : "bfloat16"),
        fmt::format("{}: false", fp16 ? "fp16_full_eval" : "bf16_full_eval"), fp16 ? 0u : 1u};
}

// Findings about the format of the weights after from_pretrained.

/// Returns advice to load fp32 weights. The key to change is the key of the script, if it has one.
FindingText load_advice(std::string message, const Facts& f) {
    if (f.load_key.empty()) return {std::move(message), "torch_dtype=torch.float32 in from_pretrained", 0};
    return {std::move(message), fmt::format("{}: float32", f.load_key), f.load_key == "torch_dtype" ? 1u : 2u};
}
Found low_weights(const Context&, const Facts& f) {
    if (f.loaded == 'F' || f.autocast != 'H') return {};
    return load_advice(f.loaded == 'H' ? "the weights are loaded in fp16, so their gradients are fp16, which the "
                                         "GradScaler refuses: \"Attempting to unscale FP16 gradients\""
                                       : "the weights are loaded in bf16, so their gradients are bf16, which the "
                                         "GradScaler cannot unscale on CUDA",
                       f);
}
Found no_master(const Context& c, const Facts& f) {
    if (f.loaded == 'F' || f.autocast == 'H') return {};
    const std::string who =
        f.load_key.empty() ? fmt::format("{} loads the {} checkpoint as it is stored", title(c), c.checkpoint_dtype())
                           : fmt::format("`{}` loads the weights in {}", f.load_key, format_word(f.loaded));
    const std::string_view note = f.load_key.empty() ? " (4.x loaded fp32)" : "";
    return load_advice(
        fmt::format("{}: {} are {}, and without fp32 master weights small updates are lost{}", who,
                    follows_weights(f.optimiser) ? "weights, gradients and Adam's moments" : "weights and gradients",
                    format_word(f.loaded), note),
        f);
}
Found quantised(const Context& c, const Facts&) {
    if (c.root_is_shared() || (!c.flag("load_in_4bit") && !c.flag("load_in_8bit"))) return {};
    return FindingText{
        "the script loads the frozen weights in a quantised format of bitsandbytes, which its own code "
        "chooses: the formats of the weights and of what is trained are not known here",
        {}};
}
Found two_widths(const Context& c, const Facts&) {
    if (c.root_is_shared() || !c.flag("load_in_4bit") || !c.flag("load_in_8bit")) return {};
    return FindingText{
        "if the script gives both load_in_4bit and load_in_8bit to BitsAndBytesConfig, it raises an error: at most one "
        "of them can be true",
        "only one of the two"};
}
Found two_dtypes(const Context& c, const Facts&) {
    if (c.root_is_shared() || !c.has("dtype") || !c.has("torch_dtype")) return {};
    return FindingText{
        "`dtype` and `torch_dtype` are two names of one argument: if the script gives both to from_pretrained, `dtype` "
        "applies",
        "only `dtype`"};
}

// Findings about DeepSpeed and FSDP.

bool same(const std::string& one, const files::ConfigValue& other) {
    if (other.is_boolean()) return (one == "true") == other.boolean;
    files::ConfigValue text;
    text.kind = files::ConfigValue::Kind::text;
    text.written = one;
    const std::optional<double> a = files::written_number(text), b = files::written_number(other);
    return a && b ? *a == *b : lowered(one) == lowered(other.written);
}
Found mismatch(const Context& c, const Facts& f) {
    if (!f.deepspeed) return {};
    std::string list, places;
    for (const SharedArgument& shared : shared_arguments()) {
        const files::ConfigValue* value = c.value(fmt::format("deepspeed.{}", shared.deepspeed));
        const std::string argument = argument_for(c, shared);
        if (value == nullptr || value->is_null() || argument.empty() || same(argument, *value)) continue;
        if (shared.argument == "fp16_opt_level" && c.since("transformers", "5")) continue;
        list += fmt::format("{}{} is {} in DeepSpeed's section ({}) and {} is {}", list.empty() ? "" : "; ",
                            shared.deepspeed, value->written, to_string(value->place), shared.argument, argument);
    }
    if (list.empty()) return {};
    return FindingText{
        fmt::format("DeepSpeed's section and the arguments disagree, so the Trainer raises an error: {}", list),
        "\"auto\" in DeepSpeed's section"};
}
Found without_zero(const Context& c, const Facts& f) {
    const files::ConfigValue* section = c.value("deepspeed");
    if (!f.deepspeed || section == nullptr || !section->is_map() || section->entry("zero_optimization")) return {};
    return FindingText{"the Trainer runs DeepSpeed through Accelerate, which refuses a file without zero_optimization",
                       "\"zero_optimization\": {\"stage\": 0}"};
}
Found deepspeed_and_fsdp(const Context&, const Facts& f) {
    if (!f.deepspeed || !f.fsdp) return {};
    return FindingText{"fsdp and deepspeed cannot be combined: the Trainer raises an error", "only one of the two"};
}
Found fsdp_config_unread(const Context& c, const Facts& f) {
    if (f.fsdp || !c.has("fsdp_config")) return {};
    return FindingText{"fsdp_config is read only if fsdp is set", {}};
}
Found environment(const Context&, const Facts& f) {
    if (!f.from_environment) return {};
    return FindingText{
        fmt::format(
            "neither fp16 nor bf16 is set, but ACCELERATE_MIXED_PRECISION, which `accelerate launch` sets, requests {}",
            format_word(f.autocast)),
        {}};
}

Found unread_arguments(const Context& c, const Facts&) {
    if (!c.has("optim_args")) return {};
    return not_emulated("`optim_args` is not emulated: the policy has only the constants that have their own keys");
}

const FindingRow<Facts> finding_rows[] = {
    {"fp16-and-bf16", error, {"fp16", "bf16"}, both},
    {"full-eval-both", error, {"fp16_full_eval", "bf16_full_eval"}, both_eval},
    {"fp16-unsupported", error, {"fp16", "fp16_full_eval", "use_cpu"}, fp16_refused},
    {"fp16-cpu-amp", error, {"half_precision_backend", "fp16"}, cpu_amp_fp16},
    {"bf16-unsupported", error, {"bf16", "bf16_full_eval", "use_cpu"}, bf16_refused},
    {"bf16-apex", error, {"half_precision_backend", "fp16_backend", "bf16"}, bf16_apex},
    {"tf32-unsupported", error, {"tf32"}, tf32_refused},
    {"low-weights-under-scaler", error, {"fp16", "torch_dtype", "dtype"}, low_weights},
    {"deepspeed-mismatch", error, {"deepspeed"}, mismatch},
    {"deepspeed-without-zero", error, {"deepspeed"}, without_zero},
    {"deepspeed-and-fsdp", error, {"fsdp", "deepspeed"}, deepspeed_and_fsdp},
    {"fp16-on-cpu", warning, {"fp16", "use_cpu"}, fp16_on_cpu},
    {"bf16-emulated", warning, {"bf16", "bf16_full_eval"}, bf16_emulated},
    {"fp16-backend-deprecated", warning, {"fp16_backend"}, old_backend},
    {"full-eval-buffers", warning, {"fp16_full_eval", "bf16_full_eval"}, full_eval_buffers},
    {"no-master", warning, {"bf16", "torch_dtype", "dtype"}, no_master},
    {"quantised-by-script", warning, {"load_in_4bit", "load_in_8bit"}, quantised},
    {"load-in-both", warning, {"load_in_8bit", "load_in_4bit"}, two_widths},
    {"fused-skip", warning, {"optim", "fp16"}, fused_skip},
    {"nan-filter", warning, {nan_filter_key}, nan_filter},
    {"torch-compile", warning, {"torch_compile", "torch_compile_backend", "torch_compile_mode"}, compile_fuses},
    {"clipping-unread",
     contradiction,
     {"max_grad_norm", "deepspeed"},
     [](const Context& c, const Facts&) { return clipping_unread(c); }},
    {"environment", contradiction, {"fp16", "bf16"}, environment},
    {"two-dtypes", contradiction, {"torch_dtype", "dtype"}, two_dtypes},
    {"opt-level-unread", inert, {"fp16_opt_level", "half_precision_backend"}, opt_level_unread},
    {"fsdp-config-unread", inert, {"fsdp_config", "fsdp"}, fsdp_config_unread},
    {"tf32-by-compile", note, {"tf32", "torch_compile"}, tf32_by_compile},
    {"optimiser-arguments", note, {"optim_args"}, unread_arguments},
    {"full-eval", note, {"fp16_full_eval", "bf16_full_eval"}, full_eval},
};

}  // namespace

std::string without_bf16(const ImportContext& c, const Facts& f) {
    std::string settings = c.flag("bf16") ? "bf16: false" : "";
    if (c.flag("bf16_full_eval"))
        settings += settings.empty() ? "bf16_full_eval: false" : " with bf16_full_eval: false";
    if (!f.bf16 || training_format(c) != 'H' || f.fp16) return settings;
    return f.loaded == 'F' ? settings + " with fp16: true" : "fp16, with weights that are loaded in fp32";
}

FindingText nan_filter_text() {
    return {
        "NaN and Inf losses are left out of the logged loss: a run that diverges logs a loss that looks normal, or 0",
        "logging_nan_inf_filter: false"};
}

void report_findings(ImportContext& context, const Facts& facts) { report_rows<Facts>(context, facts, finding_rows); }

}  // namespace macheps::configs::transformers
