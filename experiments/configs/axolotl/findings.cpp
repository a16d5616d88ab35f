// SPDX-License-Identifier: Apache-2.0
// Findings about an Axolotl YAML. There is a row for each validator that raises an error or warns, for each setting
// that Axolotl decides silently, and for each setting that is likely to be misunderstood. Sources:
// axolotl/utils/schemas/{validation,config}.py, utils/config/__init__.py of 0.18.0.
#include "core/text/nearest_name.hpp"
#include "experiments/configs/accelerate/deepspeed_section.hpp"
#include "experiments/configs/axolotl/axolotl.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/policy_text/adapter_format.hpp"
#include "experiments/configs/policy_text/name_rules.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace macheps::configs::axolotl {

namespace {

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

/// Returns whether this version accepts `bf16: full`. Schemas from 0.5 on accept only auto, true and false.
bool takes_full(const Context& c) { return !c.since("axolotl", "0.5"); }

std::string_view word(const Context& c, std::string_view path) {
    const files::ConfigValue* value = c.value(path);
    return value != nullptr && value->is_text() ? std::string_view(value->written) : std::string_view{};
}

bool is_full_finetune(const Facts& f) { return f.adapter.empty(); }

// Findings about configs that Axolotl or Transformers refuses.

Found bad_switch(const Context& c, std::string_view key) {
    const std::string_view text = word(c, key);
    if (text.empty() || text == "auto" || (key == "bf16" && text == "full")) return {};
    for (const std::string_view flag : {"true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "1", "0"}) {
        if (lowered(text) == flag) return {};
    }
    return FindingText{
        fmt::format("`{}` is '{}', which is neither a boolean nor auto: the schema refuses it", key, text),
        "true, false or auto"};
}
Found bad_bf16(const Context& c, const Facts&) { return bad_switch(c, "bf16"); }
Found bad_tf32(const Context& c, const Facts&) { return bad_switch(c, "tf32"); }

Found full(const Context& c, const Facts& f) {
    if (!f.full_eval || takes_full(c)) return {};
    return FindingText{"`bf16: full` is refused: the schema accepts auto, true and false", "bf16: true"};
}
Found full_is_eval(const Context& c, const Facts& f) {
    if (!f.full_eval || !takes_full(c)) return {};
    return FindingText{
        "`bf16: full` sets bf16_full_eval and leaves bf16 training unset: the weights are bf16, and there is no "
        "autocast",
        "bf16: true"};
}

Found all_gather(const Context& c, const Facts&) {
    if (!c.flag("fp8_enable_fsdp_float8_all_gather") || c.number("fsdp_version").value_or(0) == 2) return {};
    return FindingText{
        "fp8_enable_fsdp_float8_all_gather requires FSDP2: the validator raises an error, with or without fp8",
        "fsdp_version: 2"};
}
/// Returns whether Axolotl accepts fp8 on the device. It requires compute capability 9.0 and therefore refuses Ada
/// (8.9), although the tensor cores of Ada multiply fp8.
bool multiplies_fp8(const Context& c) { return c.device().fp8 && c.device().capability() >= 90; }

Found fp8_config_alone(const Context& c, const Facts&) {
    if (!c.has("fp8_config") || c.flag("fp8")) return {};
    const bool has_fp8 = multiplies_fp8(c);
    return FindingText{"fp8_config requires fp8: the validator raises an error",
                       has_fp8 ? "fp8: true" : "remove fp8_config", has_fp8 ? 1u : 0u};
}
Found gather_of_rows(const Context& c, const Facts&) {
    const std::string recipe = c.text("fp8_config.recipe");
    if (!c.flag("fp8_enable_fsdp_float8_all_gather") || recipe == "tensorwise") return {};
    return FindingText{
        fmt::format("fp8_enable_fsdp_float8_all_gather supports only the recipe tensorwise, and not {}: the validator "
                    "raises an error",
                    recipe),
        "fp8_enable_fsdp_float8_all_gather: false"};
}
Found fp8_device(const Context& c, const Facts&) {
    if (!c.flag("fp8") || multiplies_fp8(c)) return {};
    return FindingText{
        c.device().fp8
            ? fmt::format("fp8 requires compute capability 9.0, but {} has {}.{}: the validator raises an error",
                          c.device().name, c.device().major, c.device().minor)
            : fmt::format("{} does not multiply fp8: the validator raises an error", c.device().name),
        c.has("fp8_config") ? "remove fp8 and fp8_config" : "fp8: false"};
}
Found cpu_ram(const Context& c, const Facts& f) {
    if (!c.flag("fp8") || !f.fsdp) return {};
    if (!fsdp_flag(c, "cpu_ram_efficient_loading")) return {};
    return FindingText{
        "torchao's fp8 with FSDP cannot be combined with cpu_ram_efficient_loading: Accelerate raises an error",
        "cpu_ram_efficient_loading: false"};
}
Found fp32_norms(const Context& c, const Facts& f) {
    if (!c.flag("fp32_norms") || (f.fsdp && f.fsdp_version == 2)) return {};
    return FindingText{"fp32_norms requires FSDP2: the validator raises an error",
                       "fsdp_version: 2 with an fsdp_config"};
}
/// Reports fp32_norm_classes that match no norm of the model. The norms of the model are known only if the config is
/// imported to train one of macheps's own models. Other imports therefore never get this finding.
Found norm_classes_match_nothing(const Context& c, const Facts&) {
    const files::ConfigValue* classes = c.value("fp32_norm_classes");
    if (!c.options().for_training || !c.flag("fp32_norms") || classes == nullptr || classes->items.empty()) return {};
    std::vector<std::string_view> entries;
    for (const files::ConfigValue& entry : classes->items) entries.push_back(entry.written);
    for (const char* norm :
         {"transformers.models.llama.modeling_llama.LlamaRMSNorm", "torch.nn.modules.normalization.LayerNorm"}) {
        if (name_rules::axolotl_fp32_norm(norm, entries)) return {};
    }
    return FindingText{"none of these classes is a norm of the trained model, which has LlamaRMSNorm or LayerNorm",
                       "fp32_norm_classes: [RMSNorm]"};
}
Found norm_classes(const Context& c, const Facts&) {
    if (!c.has("fp32_norm_classes") || c.flag("fp32_norms")) return {};
    return FindingText{"fp32_norm_classes is read only with fp32_norms: the norms are not kept in fp32",
                       "fp32_norms: true"};
}
Found better_transformer(const Context& c, const Facts& f) {
    // For this validator, `auto` is a non-empty text and therefore true, even if `auto` later becomes false.
    if (!c.flag("flash_optimum") || (!f.bf16_is_auto && !c.flag("fp16") && !c.flag("bf16"))) return {};
    return FindingText{
        "autocast is not supported with BetterTransformer (flash_optimum): the validator raises an error",
        f.bf16_is_auto ? "bf16: false" : "flash_optimum: false", f.bf16_is_auto ? std::size_t{1} : 0};
}
Found npu_tf32(const Context& c, const Facts&) {
    if (c.device().kind != DeviceProfile::Kind::npu || !c.has("tf32")) return {};
    if (word(c, "tf32") != "auto" && !c.flag("tf32")) return {};
    return FindingText{"an Ascend NPU has no tf32: the validator raises an error, even for `auto`", "tf32: false"};
}
Found two_autocasts(const Context& c, const Facts& f) {
    if (!f.fp16 || !f.bf16) return {};
    return FindingText{"`bfloat16` turns bf16 on in the trainer, and fp16 is also on: Transformers raises an error",
                       c.flag("fp16") ? "fp16: false" : "bfloat16: false", c.flag("fp16") ? std::size_t{0} : 1};
}
Found tf32_device(const Context& c, const Facts&) {
    if (is_auto(c, "tf32") || !c.flag("tf32") || c.device().torch_says_tf32() ||
        c.device().kind == DeviceProfile::Kind::npu)
        return {};
    return FindingText{
        fmt::format(
            "tf32 requires an NVIDIA GPU of compute capability 8.0, which {} is not: Transformers raises an error",
            c.device().name),
        "tf32: auto"};
}
/// Returns whether trained weights are fp32 under autocast although they are loaded in a low-precision format. FSDP 2
/// keeps no fp32 weights, because Axolotl's own function leaves the shards as they are loaded.
bool keeps_masters(const Facts& f) { return f.deepspeed || (f.fsdp && f.fsdp_version == 1); }

/// Describes the weights that are trained in the low-precision format in which they are loaded. If there are none, the
/// description is empty, and `key` is meaningless.
struct LowTrained {
    std::string what{};
    /// The key that decides this, as an index in the keys of the rows unscale-low-gradients and no-master: 0 the
    /// precision, 1 adapter, 2 peft_autocast_adapter_dtype, 3 lora_modules_to_save.
    std::size_t key = 0;
};
LowTrained low_trained(const Context& c, const Facts& f) {
    if (f.loaded == 'F' || f.deepspeed || (keeps_masters(f) && f.autocast != 'F')) return {};
    const std::string_view format = format_word(f.loaded);
    if (is_full_finetune(f)) return {fmt::format("full fine-tuning loads the weights in {}", format), 0};
    if (f.adapters != 'F' && peft_is_before_autocast(c)) return {peft_adapter_reason(c, f.adapters), 1};
    if (f.adapters != 'F')
        return {fmt::format("`peft_autocast_adapter_dtype: false` keeps the adapters in {}", format), 2};
    if (f.saves_modules)
        return {fmt::format("PEFT casts only adapters to fp32, so the modules in `lora_modules_to_save` are trained "
                            "whole in {}",
                            format),
                3};
    return {};
}

/// Returns the settings that train without a loss scaler: in bf16, or in fp32 on a device without bf16.
std::string_view without_scaler(const Context& c) {
    return c.device().bf16 ? "bf16: true" : "fp16: false with bf16: false";
}

Found unscale(const Context& c, const Facts& f) {
    const LowTrained low = low_trained(c, f);
    if (f.autocast != 'H' || low.what.empty()) return {};
    return FindingText{fmt::format("{}; their gradients are also {}, and the GradScaler refuses them: \"Attempting to "
                                   "unscale FP16 gradients\"",
                                   low.what, format_word(f.loaded)),
                       low.key == 0   ? fmt::format("{}, or an adapter", without_scaler(c))
                       : low.key == 1 ? fmt::format("peft 0.12 or newer, or {}", without_scaler(c))
                       : low.key == 2 ? "peft_autocast_adapter_dtype: true"
                                      : std::string(without_scaler(c)),
                       low.key == 3 ? 0 : low.key};
}

// Findings about contradictions that Axolotl resolves.

Found ignored_dtype(const Context& c, const Facts& f, std::string_view key) {
    if (!c.flag(key) || !f.bf16 || c.flag("bfloat16")) return {};
    return FindingText{fmt::format("`{}: true` does not prevent bf16: {}, so the run uses autocast to bf16", key,
                                   f.bf16_is_auto ? "`bf16: auto` (the default) turns bf16 on if torch supports it"
                                                  : "`bf16: true` wins"),
                       "bf16: false"};
}
Found float32(const Context& c, const Facts& f) { return ignored_dtype(c, f, "float32"); }
Found float16(const Context& c, const Facts& f) { return ignored_dtype(c, f, "float16"); }
Found both(const Context& c, const Facts& f) {
    if (f.bf16_is_auto || !f.bf16 || !c.flag("bf16") || !c.flag("fp16")) return {};
    return FindingText{"bf16 and fp16 are both true: fp16 is switched off", "fp16: false"};
}
Found fp16_with_auto(const Context& c, const Facts& f) {
    if (!f.bf16_is_auto || !c.has("bf16") || !c.flag("fp16")) return {};
    return FindingText{"`fp16: true` with `bf16: auto` switches bf16 off", "bf16: false"};
}
Found bfloat16(const Context& c, const Facts&) {
    if (!c.flag("bfloat16") || !bfloat16_is_amp(c)) return {};
    return FindingText{
        "`bfloat16` is documented as bf16 without AMP, but the trainer's builder treats it as `bf16`: autocast is on",
        "bf16: true with bfloat16: false, which has the same effect"};
}

// Findings about settings that work, but not as intended.

/// Returns settings without bf16. If weights would be trained in fp16, fp16 is not among them, because GradScaler
/// refuses their gradients.
std::string without_bf16(const Context& c, const Facts& f) {
    const bool has_fp16 = training_format(c) == 'H' && (!is_full_finetune(f) || keeps_masters(f));
    std::string settings = "bf16: false";
    if (c.flag("bfloat16")) settings += " with bfloat16: false";
    if (has_fp16 || c.flag("fp16")) settings += has_fp16 ? " with fp16: true" : " with fp16: false";
    return settings;
}
Found emulated(const Context& c, const Facts& f) {
    if (!f.bf16 || c.device().bf16 || !c.device().torch_says_gpu_bf16()) return {};
    return FindingText{
        fmt::format("{} has no bf16 units; torch reports bf16 as supported because it counts emulation, so the "
                    "run uses bf16, slowly",
                    c.device().name),
        without_bf16(c, f)};
}
/// Returns whether the config requests bf16 on a device for which torch does not report bf16.
bool lacks_bf16(const Context& c) {
    const bool is_requested = (!is_auto(c, "bf16") && c.flag("bf16")) || c.flag("bfloat16");
    return is_requested && !c.device().torch_says_gpu_bf16();
}
/// Returns whether the validator refuses such a config. Newer releases print a warning.
bool refuses_missing_bf16(const Context& c) { return !c.since("0.16.0") && !c.flag("merge_lora"); }
Found refused_bf16(const Context& c, const Facts& f) {
    if (!lacks_bf16(c) || !refuses_missing_bf16(c)) return {};
    return FindingText{
        fmt::format("bf16 is requested, but torch does not support it on {}: the validator raises ValueError \"bf16 "
                    "requested, but AMP is not supported on this GPU\", also if the machine that validates the config "
                    "sees no GPU",
                    c.device().name),
        without_bf16(c, f)};
}
Found not_there(const Context& c, const Facts& f) {
    if (!lacks_bf16(c) || refuses_missing_bf16(c)) return {};
    return FindingText{
        fmt::format("bf16 is requested, but torch does not support it on {}: training fails", c.device().name),
        without_bf16(c, f)};
}
Found not_used(const Context& c, const Facts& f) {
    // torch reports bf16 as supported even if it is emulated. Emulated bf16 is not a reason to suggest bf16.
    if (f.bf16 || f.full_eval || is_auto(c, "bf16")) return {};
    if (!c.device().bf16 || !c.device().torch_says_gpu_bf16()) return {};
    return FindingText{fmt::format("{} has bf16, but the config leaves it off", c.device().name), {}};
}
Found no_master(const Context& c, const Facts& f) {
    const LowTrained low = low_trained(c, f);
    // The row fsdp-no-master reports full fine-tuning with FSDP 2.
    const bool is_reported = f.fsdp && f.autocast != 'F' && is_full_finetune(f);
    if (f.loaded != 'B' || low.what.empty() || is_reported) return {};
    const std::string bytes =
        low.key == 3 ? " (8 bytes per parameter of these modules, and 2 more for the frozen copy)" : "";
    return FindingText{
        fmt::format("{}: these weights{} are bf16{}, and without fp32 master weights small updates are lost", low.what,
                    follows_weights(f.optimiser) ? ", their gradients and Adam's moments" : " and their gradients",
                    bytes),
        low.key == 0   ? "deepspeed or FSDP 1, which keep fp32 masters, or bf16: false for fp32 weights"
        : low.key == 1 ? "peft 0.12 or newer"
        : low.key == 2 ? "peft_autocast_adapter_dtype: true"
                       : "LoRA for these modules as well (lora_target_modules)",
        low.key};
}
Found adapter_keys_alone(const Context& c, const Facts& f) {
    if (!f.adapter.empty() || (!c.has("lora_modules_to_save") && !c.has("peft_autocast_adapter_dtype"))) return {};
    const bool is_list = c.has("lora_modules_to_save"), is_flag = c.has("peft_autocast_adapter_dtype");
    return FindingText{is_list && is_flag
                           ? "`lora_modules_to_save` and `peft_autocast_adapter_dtype` are read only with an adapter"
                           : fmt::format("`{}` is read only with an adapter",
                                         is_list ? "lora_modules_to_save" : "peft_autocast_adapter_dtype"),
                       {},
                       is_list ? std::size_t{0} : 1};
}
Found whole_modules(const Context&, const Facts& f) {
    if (!f.saves_modules) return {};
    return FindingText{"the modules in `lora_modules_to_save` are trained whole, in addition to the adapters", {}};
}
Found gather_without_fp8(const Context& c, const Facts&) {
    if (!c.flag("fp8_enable_fsdp_float8_all_gather") || c.flag("fp8")) return {};
    return FindingText{"`fp8_enable_fsdp_float8_all_gather` is read only with fp8", {}};
}
Found compile(const Context& c, const Facts&) {
    if (!c.flag("fp8") ||
        (c.has("torch_compile") && word(c, "torch_compile") != "false" && c.text("torch_compile") != "false"))
        return {};
    return FindingText{"fp8 without torch_compile is slower than bf16", "torch_compile: true"};
}
Found activation_checkpointing(const Context& c, const Facts&) {
    if (!c.flag("fp8")) return {};
    if (!fsdp_flag(c, "activation_checkpointing")) return {};
    return FindingText{"fp8 with FSDP's activation checkpointing may be slower than bf16",
                       "activation_checkpointing: false"};
}
Found fp16_packing(const Context& c, const Facts& f) {
    const bool has_flash = f.attention.find("flash") != std::string::npos;
    if (!is_full_finetune(f) || !c.flag("sample_packing") || has_flash || f.bf16 || (!f.fp16 && !c.flag("float16")))
        return {};
    return FindingText{
        "full fine-tuning in fp16 with sample packing and without flash attention is likely to raise an error",
        "adapter: lora, or bf16: true"};
}
Found sdpa_packing(const Context& c, const Facts& f) {
    if (!c.flag("sample_packing") || f.attention != "sdpa" || !f.bf16 || c.device().capability() == 90) return {};
    return FindingText{"sample packing with sdpa in bf16 gives a loss of zero on GPUs other than sm_90",
                       "attn_implementation: flash_attention_2"};
}
Found q_galore(const Context& c, const Facts& f) {
    if (c.text("optimizer") != "q_galore_adamw8bit" || f.bf16 || f.fp16) return {};
    return FindingText{"q_galore_adamw8bit is meant for mixed precision, but neither bf16 nor fp16 is on",
                       "bf16: true"};
}
Found ray(const Context& c, const Facts&) {
    if (!c.flag("use_ray") || !is_auto(c, "bf16")) return {};
    return FindingText{"with Ray `auto` is decided on the worker: macheps assumes a worker with the named device", {}};
}
Found tf32_auto(const Context& c, const Facts& f) {
    if (!is_auto(c, "tf32") || !f.tf32 || f.autocast != 'F' || f.loaded != 'F') return {};
    return FindingText{
        fmt::format("`tf32` is auto by default: without bf16, matmuls on {} run in tf32, not in fp32", c.device().name),
        "tf32: false, to keep fp32"};
}
/// Reports keys with which the MoE kernels keep part of the frozen base in four or eight bits.
Found low_base(const Context& c, const Facts&) {
    std::vector<std::string> keys;
    for (const std::string_view key : {"dsv4_fp4_grouped_mode", "dsv4_fp8_nonexpert_mode"}) {
        if (!c.text(key).empty()) keys.push_back(fmt::format("`{}: {}`", key, c.text(key)));
    }
    for (const std::string_view key :
         {"gemma4_fp8_nonexpert", "gemma4_nf4_nonexpert", "nvfp4_merge_aware", "quantize_moe_experts"}) {
        if (c.flag(key)) keys.push_back(fmt::format("`{}`", key));
    }
    if (keys.empty()) return {};
    return not_emulated(fmt::format("{} {} not emulated: the policy does not quantise a part of the frozen base",
                                    fmt::join(keys, ", "), keys.size() == 1 ? "is" : "are"));
}
Found compile_fuses(const Context& c, const Facts&) {
    if (!c.flag("torch_compile")) return {};
    return compilation_not_emulated();
}

Found explicit_attention(const Context&, const Facts& f) { return attention_not_emulated(f.attention); }
Found unread_arguments(const Context& c, const Facts&) {
    if (!c.has("optim_args")) return {};
    return not_emulated("`optim_args` is not emulated: the policy has only the constants that have their own keys");
}
Found quantised_training(const Context& c, const Facts&) {
    if (!c.has("qat")) return {};
    return not_emulated(
        "`qat` is not emulated: the policy trains without the fake quantisation of weights and "
        "activations");
}

const FindingRow<Facts> finding_rows[] = {
    {"bf16-word", error, {"bf16"}, bad_bf16},
    {"tf32-word", error, {"tf32"}, bad_tf32},
    {"bf16-full", error, {"bf16"}, full},
    {"all-gather-without-fsdp2", error, {"fp8_enable_fsdp_float8_all_gather", "fsdp_version"}, all_gather},
    {"all-gather-without-tensorwise",
     error,
     {"fp8_enable_fsdp_float8_all_gather", "fp8_config.recipe"},
     gather_of_rows},
    {"fp8-config-without-fp8", error, {"fp8_config", "fp8"}, fp8_config_alone},
    {"fp8-unsupported", error, {"fp8"}, fp8_device},
    {"fp8-cpu-ram-efficient-loading", error, {"fsdp_config.cpu_ram_efficient_loading", "fp8"}, cpu_ram},
    {"fp32-norms-without-fsdp2", error, {"fp32_norms", "fsdp_version"}, fp32_norms},
    {"better-transformer-amp", error, {"flash_optimum", "bf16", "fp16"}, better_transformer},
    {"npu-tf32", error, {"tf32"}, npu_tf32},
    {"fp16-and-bfloat16", error, {"fp16", "bfloat16"}, two_autocasts},
    {"tf32-unsupported", error, {"tf32"}, tf32_device},
    {"unscale-low-gradients",
     error,
     {"fp16", "adapter", "peft_autocast_adapter_dtype", "lora_modules_to_save"},
     unscale},
    {"bf16-unsupported", error, {"bf16", "bfloat16"}, refused_bf16},
    {"bf16-full-is-eval", warning, {"bf16"}, full_is_eval},
    {"bf16-emulated", warning, {"bf16"}, emulated},
    {"bf16-unsupported", warning, {"bf16", "bfloat16"}, not_there},
    {"no-master", warning, {"bf16", "adapter", "peft_autocast_adapter_dtype", "lora_modules_to_save"}, no_master},
    {"whole-modules", note, {"lora_modules_to_save", "adapter"}, whole_modules},
    {"all-gather-without-fp8", inert, {"fp8_enable_fsdp_float8_all_gather", "fp8"}, gather_without_fp8},
    {"adapter-keys-alone", inert, {"lora_modules_to_save", "peft_autocast_adapter_dtype"}, adapter_keys_alone},
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
    {"clipping-unread",
     contradiction,
     {"max_grad_norm", "deepspeed"},
     [](const Context& c, const Facts&) { return clipping_unread(c); }},
    {"float32-ignored", contradiction, {"float32", "bf16"}, float32},
    {"float16-ignored", contradiction, {"float16", "bf16"}, float16},
    {"bf16-and-fp16", contradiction, {"fp16", "bf16"}, both},
    {"fp16-beside-auto", contradiction, {"bf16", "fp16"}, fp16_with_auto},
    {"bfloat16-is-amp", contradiction, {"bfloat16"}, bfloat16},
    {"bf16-unused", note, {"bf16"}, not_used},
    {"ray-workers", note, {"use_ray", "bf16"}, ray},
    {"tf32-auto", note, {"tf32"}, tf32_auto},
    {"attention-kernel",
     note,
     {"attn_implementation", "xformers_attention", "sage_attention", "flex_attention", "flash_attention",
      "sdp_attention", "gemma4_hybrid_attn_impl"},
     explicit_attention},
    {"optimiser-arguments", note, {"optim_args"}, unread_arguments},
    {"quantised-training", note, {"qat"}, quantised_training},
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
