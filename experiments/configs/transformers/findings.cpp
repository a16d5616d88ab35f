// SPDX-License-Identifier: Apache-2.0
// Findings about TrainingArguments: a row for each error that its validation raises, each silent decision and each
// trap.
#include "core/text/nearest_name.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"
#include "experiments/configs/transformers/transformers.hpp"

#include <fmt/format.h>

namespace macheps::configs::transformers {

namespace {

using Maybe = std::optional<Said>;
using Context = ImportContext;
using Kind = DeviceProfile::Kind;
using enum FindingCode;

bool wants(const Context& c, std::string_view dtype) {
    return c.flag(dtype) || c.flag(fmt::format("{}_full_eval", dtype));
}
std::string title(const Context& c) { return fmt::format("transformers {}", to_string(c.version("transformers"))); }

Maybe both(const Context&, const Facts& f) {
    if (!f.fp16 || !f.bf16) return {};
    return Said{"at most one of fp16 and bf16 can be true: TrainingArguments raises", "one of the two"};
}
Maybe both_eval(const Context& c, const Facts&) {
    if (!c.flag("fp16_full_eval") || !c.flag("bf16_full_eval")) return {};
    return Said{"at most one of fp16_full_eval and bf16_full_eval can be true: TrainingArguments raises",
                "one of the two"};
}

Maybe fp16_refused(const Context& c, const Facts& f) {
    if (!wants(c, "fp16") || c.since("transformers", "4.57")) return {};
    const Kind kind = f.says_cpu ? Kind::cpu : c.device().kind;
    if (!c.since("transformers", "4.41")) {
        if (kind == Kind::cuda || kind == Kind::rocm || kind == Kind::npu) return {};
        return Said{fmt::format("{} takes fp16 and fp16_full_eval on CUDA, NPU, MLU and XPU only", title(c)), "bf16"};
    }
    if (kind != Kind::cpu || c.since("torch", "2.3")) return {};
    return Said{"fp16 on a CPU asks for torch 2.3", "bf16, or a newer torch"};
}
Maybe fp16_on_cpu(const Context& c, const Facts& f) {
    if (!f.fp16 || !f.on_cpu || fp16_refused(c, f)) return {};
    return Said{"on a CPU fp16 is accepted and does nothing: no autocast, no loss scaler, the run computes in fp32",
                "bf16: true"};
}
Maybe cpu_amp_fp16(const Context& c, const Facts& f) {
    if (c.since("transformers", "5") || !f.fp16 || c.text("half_precision_backend") != "cpu_amp") return {};
    return Said{"the backend cpu_amp has no fp16", "bf16: true"};
}

Maybe bf16_refused(const Context& c, const Facts& f) {
    if (!wants(c, "bf16") || f.says_cpu) return {};
    if (c.device().kind == Kind::cpu) {
        if (!c.since("transformers", "4.57")) return {};
        return Said{fmt::format("{} asks for bf16 on a GPU unless use_cpu says otherwise: it raises \"Your setup "
                                "doesn't support bf16/gpu\"",
                                title(c)),
                    "use_cpu: true"};
    }
    if (c.device().torch_says_bf16) return {};
    return Said{fmt::format("{} has no bf16: TrainingArguments raises", c.device().name), "fp16: true"};
}
Maybe bf16_emulated(const Context& c, const Facts& f) {
    if (!wants(c, "bf16") || f.says_cpu || c.device().bf16 || !c.device().torch_says_bf16) return {};
    return Said{
        fmt::format("{} has no bf16 units; torch says yes because it counts emulation, so it runs in bf16, slowly",
                    c.device().name),
        "fp16: true"};
}
Maybe bf16_apex(const Context& c, const Facts& f) {
    if (c.since("transformers", "5") || !f.bf16 ||
        (c.text("half_precision_backend") != "apex" && c.text("fp16_backend") != "apex"))
        return {};
    return Said{"Apex has no bf16: TrainingArguments raises", "half_precision_backend: auto"};
}
Maybe old_backend(const Context& c, const Facts&) {
    if (c.since("transformers", "5") || !c.has("fp16_backend") || c.text("fp16_backend") == "auto") return {};
    return Said{"fp16_backend is deprecated; it overwrites half_precision_backend", "half_precision_backend"};
}
Maybe opt_level_unread(const Context& c, const Facts& f) {
    if (c.since("transformers", "5") || !c.has("fp16_opt_level") || f.apex) return {};
    return Said{"fp16_opt_level is read by the Apex backend only", {}};
}

Maybe tf32_refused(const Context& c, const Facts& f) {
    if (!c.maybe_flag("tf32").value_or(false) || f.has_tf32) return {};
    return Said{
        fmt::format("tf32 asks for an NVIDIA GPU of compute capability 8.0, which {} is not: TrainingArguments raises",
                    f.says_cpu ? "a CPU" : c.device().name),
        "leave tf32 out"};
}
Maybe tf32_by_compile(const Context& c, const Facts& f) {
    if (!f.compiles || !f.has_tf32 || c.maybe_flag("tf32") || (f.fp16 && !f.bf16)) return {};
    return Said{"torch_compile switches tf32 on where tf32 is not set: products of fp32 operands are rounded to tf32",
                "tf32: false, to keep fp32"};
}
Maybe compile_fuses(const Context&, const Facts& f) {
    if (!f.compiles) return {};
    return Said{
        "the rounding points of eager execution are told; compiled kernels keep intermediate values in fp32 and may "
        "round less often",
        {}};
}
Maybe fused_skip(const Context& c, const Facts& f) {
    if (!f.fused || f.autocast != 'H' || f.deepspeed) return {};
    return Said{fmt::format("the fused AdamW{} skips inside its kernel, so the Trainer does not notice a skipped step: "
                            "the learning rate goes on",
                            c.has("optim") ? "" : " (the default since torch 2.8)"),
                "optim: adamw_torch"};
}
Maybe nan_filter(const Context& c, const Facts& f) {
    if (!c.flag("logging_nan_inf_filter") || (!c.has("logging_nan_inf_filter") && f.autocast == 'F' && !f.deepspeed))
        return {};
    return Said{
        "NaN and Inf losses are left out of the logged loss: a run that diverges logs a loss that looks sane, or 0",
        "logging_nan_inf_filter: false"};
}
Maybe full_eval(const Context& c, const Facts&) {
    if (!c.flag("fp16_full_eval") && !c.flag("bf16_full_eval")) return {};
    return Said{
        "full evaluation in a low format is for evaluation outside training; in training the weights are left as they "
        "are",
        {}};
}

// The weights after from_pretrained.

Maybe low_weights(const Context&, const Facts& f) {
    if (f.loaded == 'F') return {};
    if (f.autocast == 'H') {
        return Said{f.loaded == 'H' ? "the weights are loaded in fp16, so their gradients are fp16, which the "
                                      "GradScaler refuses: \"Attempting to unscale FP16 gradients\""
                                    : "the weights are loaded in bf16, so their gradients are bf16, which the "
                                      "GradScaler cannot unscale on CUDA",
                    "torch_dtype=torch.float32 in from_pretrained"};
    }
    return {};
}
Maybe no_master(const Context& c, const Facts& f) {
    if (f.loaded == 'F' || f.autocast == 'H') return {};
    return Said{fmt::format("{} loads the {} checkpoint as it is stored: weights, gradients and Adam's moments are {}, "
                            "and no fp32 master keeps small updates (4.x loaded fp32)",
                            title(c), c.checkpoint_dtype(), c.checkpoint_dtype()),
                "torch_dtype=torch.float32 in from_pretrained"};
}

// DeepSpeed and FSDP.

bool same(const std::string& one, const files::ConfigValue& other) {
    if (other.is_boolean()) return (one == "true") == other.boolean;
    files::ConfigValue text;
    text.kind = files::ConfigValue::Kind::text;
    text.written = one;
    const std::optional<double> a = files::written_number(text), b = files::written_number(other);
    return a && b ? *a == *b : lowered(one) == lowered(other.written);
}
Maybe mismatch(const Context& c, const Facts& f) {
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
    return Said{fmt::format("DeepSpeed's section and the arguments disagree, and the Trainer raises: {}", list),
                "\"auto\" in DeepSpeed's section"};
}
Maybe without_zero(const Context& c, const Facts& f) {
    const files::ConfigValue* section = c.value("deepspeed");
    if (!f.deepspeed || section == nullptr || !section->is_map() || section->entry("zero_optimization")) return {};
    return Said{"Accelerate, by which the Trainer runs DeepSpeed, refuses a file without zero_optimization",
                "\"zero_optimization\": {\"stage\": 0}"};
}
Maybe deepspeed_and_fsdp(const Context&, const Facts& f) {
    if (!f.deepspeed || !f.fsdp) return {};
    return Said{"fsdp together with deepspeed is not possible: the Trainer raises", "one of the two"};
}
Maybe fsdp_config_unread(const Context& c, const Facts& f) {
    if (f.fsdp || !c.has("fsdp_config")) return {};
    return Said{"fsdp_config is read only where fsdp is set", {}};
}
Maybe environment(const Context&, const Facts& f) {
    if (!f.from_environment) return {};
    return Said{
        fmt::format(
            "neither fp16 nor bf16 is set, and ACCELERATE_MIXED_PRECISION, which `accelerate launch` sets, asks for {}",
            format_word(f.autocast)),
        {}};
}

const FindingRow<Facts> finding_rows[] = {
    {"fp16-and-bf16", error, {"fp16", "bf16"}, both},
    {"full-eval-both", error, {"fp16_full_eval", "bf16_full_eval"}, both_eval},
    {"fp16-unsupported", error, {"fp16", "fp16_full_eval", "use_cpu"}, fp16_refused},
    {"fp16-cpu-amp", error, {"half_precision_backend", "fp16"}, cpu_amp_fp16},
    {"bf16-unsupported", error, {"bf16", "bf16_full_eval", "use_cpu"}, bf16_refused},
    {"bf16-apex", error, {"half_precision_backend", "fp16_backend", "bf16"}, bf16_apex},
    {"tf32-unsupported", error, {"tf32"}, tf32_refused},
    {"low-weights-under-scaler", error, {"fp16"}, low_weights},
    {"deepspeed-mismatch", error, {"deepspeed"}, mismatch},
    {"deepspeed-without-zero", error, {"deepspeed"}, without_zero},
    {"deepspeed-and-fsdp", error, {"fsdp", "deepspeed"}, deepspeed_and_fsdp},
    {"fp16-on-cpu", warning, {"fp16", "use_cpu"}, fp16_on_cpu},
    {"bf16-emulated", warning, {"bf16", "bf16_full_eval"}, bf16_emulated},
    {"fp16-backend-deprecated", warning, {"fp16_backend"}, old_backend},
    {"no-master", warning, {"bf16", "fp16"}, no_master},
    {"fused-skip", warning, {"optim", "fp16"}, fused_skip},
    {"nan-filter", warning, {"logging_nan_inf_filter"}, nan_filter},
    {"torch-compile", warning, {"torch_compile", "torch_compile_backend", "torch_compile_mode"}, compile_fuses},
    {"environment", contradiction, {"fp16", "bf16"}, environment},
    {"opt-level-unread", inert, {"fp16_opt_level", "half_precision_backend"}, opt_level_unread},
    {"fsdp-config-unread", inert, {"fsdp_config", "fsdp"}, fsdp_config_unread},
    {"tf32-by-compile", note, {"tf32", "torch_compile"}, tf32_by_compile},
    {"full-eval", note, {"fp16_full_eval", "bf16_full_eval"}, full_eval},
};

}  // namespace

void report_findings(ImportContext& context, const Facts& facts) { report_rows<Facts>(context, facts, finding_rows); }

}  // namespace macheps::configs::transformers
