// SPDX-License-Identifier: Apache-2.0
// Findings about an Axolotl YAML: a row for each validator that raises or warns, each silent decision and each trap.
// Sources: axolotl/utils/schemas/{validation,config}.py, utils/config/__init__.py of 0.18.0.
#include "core/text/nearest_name.hpp"
#include "experiments/configs/axolotl/axolotl.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/policy_text/name_rules.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs::axolotl {

namespace {

using Maybe = std::optional<Said>;
using Context = ImportContext;
using enum FindingCode;

/// Returns whether this version accepts `bf16: full`. Later schemas only allow auto, true and false.
bool takes_full(const Context& c) { return !c.since("axolotl", "0.5"); }

std::string_view word(const Context& c, std::string_view path) {
    const files::ConfigValue* value = c.value(path);
    return value != nullptr && value->is_text() ? std::string_view(value->written) : std::string_view{};
}

bool is_full_finetune(const Facts& f) { return f.adapter.empty(); }

// Refusals of the schema.

Maybe bad_switch(const Context& c, std::string_view key) {
    const std::string_view text = word(c, key);
    if (text.empty() || text == "auto" || (key == "bf16" && text == "full")) return {};
    for (const std::string_view flag : {"true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "1", "0"}) {
        if (lowered(text) == flag) return {};
    }
    return Said{fmt::format("`{}` is '{}', which is neither a boolean nor auto: the schema refuses it", key, text),
                "true, false or auto"};
}
Maybe bad_bf16(const Context& c, const Facts&) { return bad_switch(c, "bf16"); }
Maybe bad_tf32(const Context& c, const Facts&) { return bad_switch(c, "tf32"); }

Maybe full(const Context& c, const Facts& f) {
    if (!f.full_eval || takes_full(c)) return {};
    return Said{"`bf16: full` is refused: the schema takes auto, true and false", "bf16: true"};
}
Maybe full_is_eval(const Context& c, const Facts& f) {
    if (!f.full_eval || !takes_full(c)) return {};
    return Said{
        "`bf16: full` sets bf16_full_eval and leaves bf16 training unset: the weights are bf16, and nothing is "
        "autocast",
        "bf16: true"};
}

Maybe all_gather(const Context& c, const Facts&) {
    if (!c.flag("fp8_enable_fsdp_float8_all_gather") || c.number("fsdp_version").value_or(0) == 2) return {};
    return Said{"fp8_enable_fsdp_float8_all_gather asks for FSDP2: the validator raises, with or without fp8",
                "fsdp_version: 2"};
}
Maybe fp8_device(const Context& c, const Facts&) {
    // Axolotl requires compute capability 9.0. It also refuses Ada (8.9), whose tensor cores multiply fp8.
    if (!c.flag("fp8") || (c.device().fp8 && c.device().capability() >= 90)) return {};
    return Said{c.device().fp8
                    ? fmt::format("fp8 asks for compute capability 9.0, and {} has {}.{}: the validator raises",
                                  c.device().name, c.device().major, c.device().minor)
                    : fmt::format("{} does not multiply fp8: the validator raises", c.device().name),
                "fp8: false"};
}
Maybe cpu_ram(const Context& c, const Facts& f) {
    if (!c.flag("fp8") || !f.fsdp) return {};
    if (!fsdp_flag(c, "cpu_ram_efficient_loading")) return {};
    return Said{"torchao's fp8 with FSDP refuses cpu_ram_efficient_loading: Accelerate raises",
                "cpu_ram_efficient_loading: false"};
}
Maybe fp32_norms(const Context& c, const Facts& f) {
    if (!c.flag("fp32_norms") || (f.fsdp && f.fsdp_version == 2)) return {};
    return Said{"fp32_norms asks for FSDP2: the validator raises", "fsdp_version: 2 with an fsdp_config"};
}
/// Only reported if a model of macheps is to be trained, because the classes of other models are unknown.
Maybe norm_classes_match_nothing(const Context& c, const Facts&) {
    const files::ConfigValue* classes = c.value("fp32_norm_classes");
    if (!c.options().for_training || !c.flag("fp32_norms") || classes == nullptr || classes->items.empty()) return {};
    std::vector<std::string_view> entries;
    for (const files::ConfigValue& entry : classes->items) entries.push_back(entry.written);
    for (const char* norm :
         {"transformers.models.llama.modeling_llama.LlamaRMSNorm", "torch.nn.modules.normalization.LayerNorm"}) {
        if (name_rules::axolotl_fp32_norm(norm, entries)) return {};
    }
    return Said{"none of these classes is a norm of the model that trains: LlamaRMSNorm, LayerNorm",
                "fp32_norm_classes: [RMSNorm]"};
}
Maybe norm_classes(const Context& c, const Facts&) {
    if (!c.has("fp32_norm_classes") || c.flag("fp32_norms")) return {};
    return Said{"fp32_norm_classes is read with fp32_norms alone: the norms are not kept in fp32", "fp32_norms: true"};
}
Maybe better_transformer(const Context& c, const Facts& f) {
    // The validator sees `auto` as a non-empty text, whatever it becomes later.
    if (!c.flag("flash_optimum") || (!f.bf16_is_auto && !c.flag("fp16") && !c.flag("bf16"))) return {};
    return Said{"autocast is not supported with BetterTransformer (flash_optimum): the validator raises",
                f.bf16_is_auto ? "bf16: false" : "flash_optimum: false", f.bf16_is_auto ? std::size_t{1} : 0};
}
Maybe npu_tf32(const Context& c, const Facts&) {
    if (c.device().kind != DeviceProfile::Kind::npu || !c.has("tf32")) return {};
    if (word(c, "tf32") != "auto" && !c.flag("tf32")) return {};
    return Said{"an Ascend NPU has no tf32: the validator raises, for `auto` too", "tf32: false"};
}
Maybe two_autocasts(const Context& c, const Facts& f) {
    if (!f.fp16 || !f.bf16) return {};
    return Said{"`bfloat16` turns bf16 on in the trainer, and fp16 is on as well: Transformers raises",
                c.flag("fp16") ? "fp16: false" : "bfloat16: false", c.flag("fp16") ? std::size_t{0} : 1};
}
Maybe tf32_device(const Context& c, const Facts&) {
    if (is_auto(c, "tf32") || !c.flag("tf32") || c.device().torch_says_tf32() ||
        c.device().kind == DeviceProfile::Kind::npu)
        return {};
    return Said{
        fmt::format("tf32 asks for an NVIDIA GPU of compute capability 8.0, which {} is not: Transformers raises",
                    c.device().name),
        "tf32: auto"};
}
Maybe unscale(const Context&, const Facts& f) {
    if (f.autocast != 'H' || f.loaded == 'F' || !is_full_finetune(f) || f.deepspeed || f.fsdp) return {};
    return Said{fmt::format("full fine-tuning loads the weights in {}, so that gradients are {} too, and the "
                            "GradScaler refuses them: \"Attempting to unscale FP16 gradients\"",
                            format_word(f.loaded), format_word(f.loaded)),
                "bf16: true, or an adapter"};
}

// Contradictions that Axolotl resolves.

Maybe ignored_dtype(const Context& c, const Facts& f, std::string_view key) {
    if (!c.flag(key) || !f.bf16 || c.flag("bfloat16")) return {};
    return Said{
        fmt::format("`{}: true` does not keep the run out of bf16: `bf16` {} wins, and the run is autocast to bf16",
                    key, f.bf16_is_auto ? "auto (its default) turns on where torch says yes, and" : "true"),
        "bf16: false"};
}
Maybe float32(const Context& c, const Facts& f) { return ignored_dtype(c, f, "float32"); }
Maybe float16(const Context& c, const Facts& f) { return ignored_dtype(c, f, "float16"); }
Maybe both(const Context& c, const Facts& f) {
    if (f.bf16_is_auto || !f.bf16 || !c.flag("bf16") || !c.flag("fp16")) return {};
    return Said{"bf16 and fp16 are both true: fp16 is switched off", "fp16: false"};
}
Maybe fp16_with_auto(const Context& c, const Facts& f) {
    if (!f.bf16_is_auto || !c.has("bf16") || !c.flag("fp16")) return {};
    return Said{"`fp16: true` beside `bf16: auto` switches bf16 off", "bf16: false"};
}
Maybe bfloat16(const Context& c, const Facts&) {
    if (!c.flag("bfloat16")) return {};
    return Said{
        "`bfloat16` is documented as bf16 without AMP, but the trainer's builder takes it for `bf16`: autocast is on",
        "bf16: true, which says what happens"};
}

// Warnings.

Maybe emulated(const Context& c, const Facts& f) {
    if (!f.bf16 || c.device().bf16 || !c.device().torch_says_gpu_bf16()) return {};
    return Said{fmt::format("{} has no bf16 in its matrix units; torch says yes because it counts emulation, so the "
                            "run is bf16, slowly",
                            c.device().name),
                "bf16: false with fp16: true"};
}
Maybe not_there(const Context& c, const Facts&) {
    if (c.device().torch_says_gpu_bf16()) return {};
    if ((is_auto(c, "bf16") || !c.flag("bf16")) && !c.flag("bfloat16")) return {};
    return Said{fmt::format("bf16 is asked for, and torch finds none on {}: training fails", c.device().name),
                "bf16: auto"};
}
Maybe not_used(const Context& c, const Facts& f) {
    // Torch also counts emulated bf16, which is not a reason to turn bf16 on.
    if (f.bf16 || f.full_eval || is_auto(c, "bf16")) return {};
    if (!c.device().bf16 || !c.device().torch_says_gpu_bf16()) return {};
    return Said{fmt::format("{} has bf16, and the config leaves it off", c.device().name), {}};
}
Maybe no_master(const Context&, const Facts& f) {
    if (f.loaded != 'B' || !is_full_finetune(f) || f.deepspeed || f.fsdp) return {};
    return Said{
        "full fine-tuning loads the weights in bf16: weights, gradients and Adam's moments are bf16, and no fp32 "
        "master keeps small updates",
        "deepspeed or FSDP, which keep fp32 masters, or float32 weights: bf16: false"};
}
Maybe compile(const Context& c, const Facts&) {
    if (!c.flag("fp8") ||
        (c.has("torch_compile") && word(c, "torch_compile") != "false" && c.text("torch_compile") != "false"))
        return {};
    return Said{"fp8 without torch_compile is slower than bf16", "torch_compile: true"};
}
Maybe activation_checkpointing(const Context& c, const Facts&) {
    if (!c.flag("fp8")) return {};
    if (!fsdp_flag(c, "activation_checkpointing")) return {};
    return Said{"fp8 with FSDP's activation checkpointing may be slower than bf16", "activation_checkpointing: false"};
}
Maybe fp16_packing(const Context& c, const Facts& f) {
    const bool has_flash = f.attention.find("flash") != std::string::npos;
    if (!is_full_finetune(f) || !c.flag("sample_packing") || has_flash || f.bf16 || (!f.fp16 && !c.flag("float16")))
        return {};
    return Said{"full fine-tuning in fp16 with sample packing and without flash attention is likely to raise",
                "adapter: lora, or bf16: true"};
}
Maybe sdpa_packing(const Context& c, const Facts& f) {
    if (!c.flag("sample_packing") || f.attention != "sdpa" || !f.bf16 || c.device().capability() == 90) return {};
    return Said{"sample packing with sdpa in bf16 gives a loss of zero on GPUs other than sm_90",
                "attn_implementation: flash_attention_2"};
}
Maybe q_galore(const Context& c, const Facts& f) {
    if (c.text("optimizer") != "q_galore_adamw8bit" || f.bf16 || f.fp16) return {};
    return Said{"q_galore_adamw8bit is meant for mixed precision, and neither bf16 nor fp16 is on", "bf16: true"};
}
Maybe ray(const Context& c, const Facts&) {
    if (!c.flag("use_ray") || !is_auto(c, "bf16")) return {};
    return Said{"under Ray `auto` is decided on the worker: this describes a worker with the named device", {}};
}
Maybe tf32_auto(const Context& c, const Facts& f) {
    if (!is_auto(c, "tf32") || !f.tf32 || f.autocast != 'F' || f.loaded != 'F') return {};
    return Said{fmt::format("`tf32` is auto by default: without bf16 the run multiplies in tf32 on {}, not in fp32",
                            c.device().name),
                "tf32: false, to keep fp32"};
}
/// Reports the keys with which the MoE kernels keep a part of the frozen base in four or eight bits.
Maybe low_base(const Context& c, const Facts&) {
    for (const std::string_view key : {"dsv4_fp4_grouped_mode", "dsv4_fp8_nonexpert_mode"}) {
        if (!c.text(key).empty())
            return Said{fmt::format("`{}`: a part of the frozen base is multiplied in {}; that is not emulated", key,
                                    c.text(key)),
                        {}};
    }
    for (const std::string_view key :
         {"gemma4_fp8_nonexpert", "gemma4_nf4_nonexpert", "nvfp4_merge_aware", "quantize_moe_experts"}) {
        if (c.flag(key))
            return Said{fmt::format("`{}`: a part of the frozen base is kept quantised; that is not emulated", key),
                        {}};
    }
    return {};
}
Maybe compile_fuses(const Context& c, const Facts&) {
    if (!c.flag("torch_compile")) return {};
    return Said{"the rounding points of eager execution are told; compiled kernels may round less often", {}};
}

const FindingRow<Facts> finding_rows[] = {
    {"bf16-word", error, {"bf16"}, bad_bf16},
    {"tf32-word", error, {"tf32"}, bad_tf32},
    {"bf16-full", error, {"bf16"}, full},
    {"all-gather-without-fsdp2", error, {"fp8_enable_fsdp_float8_all_gather", "fsdp_version"}, all_gather},
    {"fp8-unsupported", error, {"fp8"}, fp8_device},
    {"fp8-cpu-ram-efficient-loading", error, {"fsdp_config.cpu_ram_efficient_loading", "fp8"}, cpu_ram},
    {"fp32-norms-without-fsdp2", error, {"fp32_norms", "fsdp_version"}, fp32_norms},
    {"better-transformer-amp", error, {"flash_optimum", "bf16", "fp16"}, better_transformer},
    {"npu-tf32", error, {"tf32"}, npu_tf32},
    {"fp16-and-bfloat16", error, {"fp16", "bfloat16"}, two_autocasts},
    {"tf32-unsupported", error, {"tf32"}, tf32_device},
    {"unscale-low-gradients", error, {"fp16", "adapter"}, unscale},
    {"bf16-full-is-eval", warning, {"bf16"}, full_is_eval},
    {"bf16-emulated", warning, {"bf16"}, emulated},
    {"bf16-unsupported", warning, {"bf16", "bfloat16"}, not_there},
    {"no-master", warning, {"bf16", "adapter"}, no_master},
    {"fp8-without-compile", warning, {"torch_compile", "fp8"}, compile},
    {"fp8-activation-checkpointing",
     warning,
     {"fsdp_config.activation_checkpointing", "fp8"},
     activation_checkpointing},
    {"fp16-packing-without-flash", warning, {"sample_packing", "attn_implementation", "fp16"}, fp16_packing},
    {"sdpa-packing-zero-loss", warning, {"attn_implementation", "sample_packing", "bf16"}, sdpa_packing},
    {"norm-classes-match-nothing", error, {"fp32_norm_classes"}, norm_classes_match_nothing},
    {"norm-classes-alone", warning, {"fp32_norm_classes", "fp32_norms"}, norm_classes},
    {"q-galore-precision", warning, {"optimizer", "bf16", "fp16"}, q_galore},
    {"torch-compile", warning, {"torch_compile"}, compile_fuses},
    {"float32-ignored", contradiction, {"float32", "bf16"}, float32},
    {"float16-ignored", contradiction, {"float16", "bf16"}, float16},
    {"bf16-and-fp16", contradiction, {"fp16", "bf16"}, both},
    {"fp16-beside-auto", contradiction, {"bf16", "fp16"}, fp16_with_auto},
    {"bfloat16-is-amp", contradiction, {"bfloat16"}, bfloat16},
    {"bf16-unused", note, {"bf16"}, not_used},
    {"ray-workers", note, {"use_ray", "bf16"}, ray},
    {"tf32-auto", note, {"tf32"}, tf32_auto},
    {"quantised-base",
     note,
     {"dsv4_fp4_grouped_mode", "dsv4_fp8_nonexpert_mode", "gemma4_fp8_nonexpert", "gemma4_nf4_nonexpert",
      "nvfp4_merge_aware", "quantize_moe_experts"},
     low_base},
};

}  // namespace

void report_findings(ImportContext& context, const Facts& facts) {
    report_rows<Facts>(context, facts, finding_rows);
    report_conflicts(context, facts);
}

}  // namespace macheps::configs::axolotl
