// SPDX-License-Identifier: Apache-2.0
// Findings about a LLaMA-Factory YAML. There is a row for each check of the parser that raises an error or warns, for
// each setting that LLaMA-Factory decides silently, and for each setting that is likely to be misunderstood. Sources:
// llamafactory/hparams/{parser,finetuning_args}.py, train/fp8_utils.py of 0.9.5 and 0.9.6.dev0.
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/llamafactory/llamafactory.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"
#include "experiments/configs/transformers/transformers.hpp"

#include <fmt/format.h>

namespace macheps::configs::llamafactory {

namespace {

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

// Findings about configs that LLaMA-Factory refuses.

Found no_method(const Context&, const Facts& f) {
    for (const std::string_view method : {"lora", "oft", "freeze", "full"}) {
        if (f.finetuning == method) return {};
    }
    return FindingText{
        fmt::format("`finetuning_type` is '{}': the parser accepts only lora, oft, freeze and full", f.finetuning),
        f.finetuning == "qlora" ? "lora, with quantization_bit: 4" : "lora"};
}
Found pure_device(const Context& c, const Facts& f) {
    if (!f.pure_bf16 || c.device().torch_says_gpu_bf16()) return {};
    return FindingText{fmt::format("{} has no bf16: \"This device does not support `pure_bf16`\"", c.device().name),
                       "pure_bf16: false"};
}
Found pure_zero3(const Context&, const Facts& f) {
    if (!f.pure_bf16 || f.zero_stage != 3) return {};
    return FindingText{"pure_bf16 is incompatible with DeepSpeed ZeRO-3: the parser raises an error", "bf16: true"};
}
Found galore_deepspeed(const Context&, const Facts& f) {
    if (!f.deepspeed || (!f.galore && !f.apollo)) return {};
    return FindingText{"GaLore and APOLLO are incompatible with DeepSpeed: the parser raises an error",
                       "remove `deepspeed`"};
}
/// Reports GaLore or APOLLO with an optimiser that LLaMA-Factory does not combine with it.
Found galore_optim(const Context& c, const Facts& f) {
    if (!f.trains || (!f.galore && !f.apollo)) return {};
    for (const std::string_view taken :
         {"adamw_torch", "adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit", "adafactor"}) {
        if (f.optim == taken && (f.galore || taken == "adamw_torch")) return {};
    }
    return FindingText{
        fmt::format("{} cannot be combined with the optimiser {}{}: it raises \"Unknown optim: {}.\"",
                    f.galore ? "GaLore" : "APOLLO", f.optim,
                    c.has("optim") ? "" : ", the default from transformers 4.54 on with torch 2.8 or newer", f.optim),
        "optim: adamw_torch"};
}
Found galore_layerwise(const Context& c, const Facts& f) {
    if (!f.is_distributed) return {};
    if (f.galore && c.flag("galore_layerwise"))
        return FindingText{"layer-wise GaLore does not support several ranks: the parser raises an error",
                           "galore_layerwise: false"};
    if (f.apollo && c.flag("apollo_layerwise"))
        return FindingText{"layer-wise APOLLO does not support several ranks: the parser raises an error",
                           "apollo_layerwise: false"};
    return {};
}
Found galore_lora(const Context&, const Facts& f) {
    if (f.finetuning != "lora" || (!f.galore && !f.apollo && !f.badam)) return {};
    return FindingText{"GaLore, APOLLO and BAdam train full weights: with LoRA the parser raises an error",
                       "finetuning_type: full"};
}
Found several(const Context&, const Facts& f) {
    if (int{f.galore} + int{f.apollo} + int{f.badam} < 2) return {};
    return FindingText{"GaLore, APOLLO and BAdam cannot be combined: the parser raises an error", "only one of them"};
}
Found badam_ranks(const Context& c, const Facts& f) {
    if (!f.badam || !f.is_distributed) return {};
    if (c.text("badam_mode") == "ratio")
        return FindingText{"BAdam in ratio mode does not support several ranks: the parser raises an error",
                           "badam_mode: layer"};
    if (f.zero_stage != 3)
        return FindingText{"layer-wise BAdam on several ranks requires DeepSpeed ZeRO-3: the parser raises an error",
                           "a ZeRO-3 config in `deepspeed`"};
    return {};
}
Found quantised_full(const Context&, const Facts& f) {
    if (!f.is_quantised || f.has_adapter) return {};
    return FindingText{"a quantised base can be trained only with LoRA or OFT: the parser raises an error",
                       "finetuning_type: lora"};
}
Found quantised_init(const Context& c, const Facts& f) {
    if (!f.is_quantised) return {};
    if (c.flag("pissa_init"))
        return FindingText{"PiSSA cannot be initialised on a quantised base: the parser raises an error",
                           "scripts/pissa_init.py"};
    if (c.flag("resize_vocab"))
        return FindingText{"the vocabulary of a quantised base cannot be resized: the parser raises an error",
                           "resize_vocab: false"};
    if (!c.has("adapter_name_or_path")) return {};
    if (c.flag("create_new_adapter"))
        return FindingText{
            "no new adapter can be added to a quantised base that already has one: the parser raises an error",
            "create_new_adapter: false"};
    if (c.text("adapter_name_or_path").find(',') != std::string::npos)
        return FindingText{"a quantised base accepts only one adapter: the parser raises an error",
                           "merge the adapters first"};
    return {};
}
Found quantised_bits(const Context& c, const Facts& f) {
    if (!f.is_quantised) return {};
    const double bits = c.number("quantization_bit").value_or(4);
    const std::string method = c.text("quantization_method");
    const bool is_sharded = f.zero_stage == 3 || (f.is_distributed && !f.deepspeed);
    const auto said = [&](std::string_view takes) {
        return FindingText{fmt::format("{} supports {}: loading the model raises an error", method, takes),
                           "quantization_bit: 4"};
    };
    if (method == "hqq") {
        const bool is_width = bits == 8 || (bits >= 1 && bits <= 6 && bits == static_cast<int>(bits));
        if (!is_width) return said("only 1 to 6 or 8 bits");
    } else if (method == "eetq") {
        if (bits != 8)
            return FindingText{"eetq supports only 8 bits: loading the model raises an error", "quantization_bit: 8"};
    } else {
        if (bits != 4 && bits != 8) return said("only 4 or 8 bits");
        if (bits == 8 && is_sharded) return said("only 4 bits with ZeRO-3 or FSDP");
        return {};
    }
    if (!is_sharded) return {};
    return FindingText{
        fmt::format("{} cannot be combined with ZeRO-3 or FSDP: loading the model raises an error", method),
        "quantization_method: bnb", 1};
}
Found device_map(const Context& c, const Facts& f) {
    if (!f.trains || c.text("quantization_device_map") != "auto") return {};
    return FindingText{"a device map is for inference: in training the parser raises an error",
                       "remove quantization_device_map"};
}
Found adapter_not_lora(const Context& c, const Facts& f) {
    if (f.finetuning == "lora" || !c.has("adapter_name_or_path")) return {};
    return FindingText{
        fmt::format("an adapter can be loaded only with LoRA: with {} the parser raises an error", f.finetuning),
        "finetuning_type: lora", 1};
}
Found pissa(const Context& c, const Facts& f) {
    if (!c.flag("pissa_init")) return {};
    const std::string stage = c.text("stage"), loss = c.text("pref_loss");
    const bool has_reference = stage == "dpo" && loss != "orpo" && loss != "simpo";
    if (f.finetuning != "lora")
        return FindingText{"`pissa_init` requires LoRA: the parser raises an error", "finetuning_type: lora", 1};
    if (stage == "ppo" || stage == "kto" || has_reference)
        return FindingText{
            fmt::format(
                "PiSSA changes the base, but the stage {} compares with the original base: the parser raises an error",
                stage),
            "pissa_init: false"};
    if (f.zero_stage == 3)
        return FindingText{"PiSSA cannot be initialised with ZeRO-3: the parser raises an error",
                           "scripts/pissa_init.py"};
    return {};
}
Found fp8_quantised(const Context&, const Facts& f) {
    if (!f.fp8 || !f.is_quantised) return {};
    return FindingText{"fp8 cannot be combined with a quantised base: the parser raises an error", "only one of them"};
}
Found msamp(const Context& c, const Facts& f) {
    if (!f.fp8 || c.text("fp8_backend") != "msamp") return {};
    return FindingText{"macheps recognises MS-AMP but does not emulate it", "fp8_backend: torchao"};
}
Found pure_half(const Context&, const Facts& f) {
    if (!f.pure_bf16 || f.checkpoint != 'H') return {};
    return FindingText{
        "pure_bf16 does not cast the weights: the fp16 checkpoint stays fp16, but products are computed in bf16",
        "a bf16 checkpoint, or bf16: true"};
}

// Findings for which LLaMA-Factory itself prints a warning.

/// Returns the setting of mixed precision that suits the device and the weights, or an empty text. fp16 requires fp32 gradients,
/// which weights in the format of a low-precision checkpoint do not have.
std::string mixed_precision(const Context& c, bool has_fp32_gradients) {
    const char format = training_format(c);
    if (format == 'B' && c.device().torch_says_gpu_bf16()) return "bf16: true";
    return format == 'H' && has_fp32_gradients ? "fp16: true" : "";
}
std::string mixed_instead_of_pure(const Context& c, const Facts& f) {
    const std::string mixed = mixed_precision(c, f.checkpoint == 'F' || !f.badam);
    return fmt::format("pure_bf16: false{}{}", mixed.empty() ? "" : " with ", mixed);
}
Found recommend_mixed(const Context& c, const Facts& f) {
    if (!f.trains || f.fp16 || f.bf16) return {};
    return FindingText{f.pure_bf16
                           ? "LLaMA-Factory recommends mixed precision, but with pure_bf16 alone autocast is off"
                           : "LLaMA-Factory recommends mixed precision, but neither fp16 nor bf16 is on",
                       f.pure_bf16 ? "" : mixed_precision(c, f.checkpoint == 'F' || f.upcasts_trained || f.deepspeed)};
}
Found recommend_upcast(const Context& c, const Facts& f) {
    if (!f.trains || !f.is_quantised || c.flag("upcast_layernorm")) return {};
    return FindingText{"LLaMA-Factory recommends upcast_layernorm for training on a quantised base",
                       "upcast_layernorm: true"};
}
Found galore_memory(const Context& c, const Facts& f) {
    if (!f.trains || (!f.galore && !f.apollo) || f.pure_bf16) return {};
    return FindingText{
        "without pure_bf16 the projected gradients and moments are fp32: GaLore and APOLLO need twice the memory",
        c.device().bf16 && c.device().torch_says_gpu_bf16() ? "pure_bf16: true" : ""};
}
Found quantised_eval(const Context&, const Facts& f) {
    if (f.trains || !f.is_quantised) return {};
    return FindingText{"a 4-bit or 8-bit base may score lower in evaluation", "remove quantization_bit"};
}

// Findings about settings that are likely to be misunderstood.

Found emulated(const Context& c, const Facts& f) {
    if (!f.pure_bf16 || c.device().bf16 || !c.device().torch_says_gpu_bf16()) return {};
    return FindingText{
        fmt::format("{} has no bf16 units; torch reports bf16 as supported because it counts emulation, so "
                    "pure_bf16 runs slowly",
                    c.device().name),
        training_format(c) == 'H' ? "pure_bf16: false with fp16: true" : "pure_bf16: false"};
}
Found pure_full(const Context& c, const Facts& f) {
    if (!f.pure_bf16 || f.checkpoint != 'F') return {};
    return FindingText{
        fmt::format(
            "pure_bf16 does not cast the weights: the {} checkpoint is loaded as it is stored, and trained in fp32",
            c.checkpoint_dtype()),
        "--checkpoint-dtype bf16, if the checkpoint is bf16"};
}
Found no_master(const Context& c, const Facts& f) {
    if (!f.trains || f.upcasts_trained || (f.deepspeed && (f.fp16 || f.bf16))) return {};
    const bool has_low_modules = f.has_adapter && c.has("additional_target") && f.checkpoint != 'F';
    if (f.trained == 'F' && !has_low_modules) return {};
    return FindingText{
        fmt::format("{}{} are {}, and without fp32 master weights small updates are lost",
                    follows_weights(f.update) ? "weights, gradients and moments" : "weights and gradients",
                    f.trained == 'F' ? " of the modules in `additional_target`" : "", format_word(f.checkpoint)),
        f.pure_bf16 ? mixed_instead_of_pure(c, f)
        : f.badam   ? "use_badam: false"
                    : mixed_precision(c, f.deepspeed)};
}
/// With AMP, the importer of Transformers reports the filter.
Found nan_filter(const Context& c, const Facts& f) {
    if (!f.trains || f.frozen == 'F' || f.fp16 || f.bf16 || f.deepspeed || c.has(transformers::nan_filter_key))
        return {};
    return transformers::nan_filter_text();
}
Found pure_adapters(const Context&, const Facts& f) {
    if (!f.trains || !f.pure_bf16 || !f.has_adapter || f.trained != 'F' || f.checkpoint == 'F') return {};
    return FindingText{
        "pure_bf16 does not make adapters bf16: PEFT keeps them, and so their gradients and moments, in fp32", {}};
}
Found prequantised(const Context& c, const Facts& f) {
    if (!f.is_prequantised) return {};
    return FindingText{
        fmt::format("the frozen weights are {}, inferred only from the name {}", f.base, c.text("model_name_or_path")),
        {}};
}
Found frozen_layers(const Context& c, const Facts& f) {
    if (!f.trains || !f.freezes_layers) return {};
    return FindingText{.message = fmt::format(
                           "only some layers are trained, in {}; `store`, `norm`, `embed` and `lm_head` are formats of "
                           "the frozen weights, which keep the format of the checkpoint, {}",
                           format_word(f.trained), c.checkpoint_dtype()),
                       .instead = {},
                       .not_emulated = "freezing of layers is not emulated: the whole model is trained"};
}
Found upcast_head(const Context& c, const Facts& f) {
    if (!c.flag("upcast_lmhead_output") || !f.upcasts_trained || f.finetuning != "full") return {};
    return FindingText{"the head's weight is fp32 here, so upcast_lmhead_output changes the logits only under autocast",
                       {}};
}
Found compute_alone(const Context&, const Facts& f) {
    if (f.fp16 || f.bf16 || f.pure_bf16 || f.compute == 'F') return {};
    return FindingText{
        fmt::format("the compute dtype {} applies only to quantised layers and masks: without fp16 or bf16 "
                    "there is no autocast",
                    format_word(f.compute)),
        {}};
}
Found whole_modules(const Context& c, const Facts& f) {
    if (!c.has("additional_target")) return {};
    if (!f.has_adapter) return FindingText{"`additional_target` is read only with LoRA or OFT", {}};
    return FindingText{fmt::format("the modules {} are trained whole, in {}, in addition to the adapters",
                                   c.text("additional_target"), format_word(f.upcasts_trained ? 'F' : f.checkpoint)),
                       {}};
}
Found explicit_attention(const Context& c, const Facts&) { return attention_not_emulated(c.text("flash_attn")); }
Found infer_dtype(const Context& c, const Facts& f) {
    if (!f.trains || !c.has("infer_dtype")) return {};
    return FindingText{"`infer_dtype` is read only if nothing is trained", {}};
}

// Findings about fp8.

Found fp8_names(const Context& c, const Facts& f) {
    if (!f.fp8 || !f.fp8_lost.empty()) return {};
    if (!c.has("fp8_backend") && !c.flag("fp8_enable_fsdp_float8_all_gather")) return {};
    return FindingText{
        "LLaMA-Factory exports FP8_BACKEND and FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER, but Accelerate reads "
        "ACCELERATE_FP8_*, so neither has an effect",
        "ACCELERATE_FP8_BACKEND in the environment"};
}
Found fp8_documented(const Context& c, const Facts& f) {
    if (!f.fp8 || !f.fp8_lost.empty() || c.text("fp8_backend") == "te") return {};
    return FindingText{
        "LLaMA-Factory builds the rowwise recipe and a filter by names, but uses them only for a log line: training "
        "uses Accelerate's default, torchao tensorwise with Accelerate's filter",
        {}};
}
Found fp8_dropped(const Context&, const Facts& f) {
    if (!f.fp8 || f.fp8_lost.empty()) return {};
    return FindingText{
        fmt::format("the request for fp8 is dropped: {}, and training uses the flags fp16 and bf16", f.fp8_lost),
        "llamafactory 0.9.5 with transformers 4.57, in the stage pt or sft"};
}
Found fp8_device(const Context& c, const Facts& f) {
    if (!f.fp8 || !f.fp8_lost.empty() || c.device().fp8) return {};
    return FindingText{fmt::format("{} does not multiply fp8: Accelerate falls back to fp16", c.device().name),
                       "fp8: false"};
}
Found fp8_silent(const Context&, const Facts& f) {
    if (!f.fp8 || !f.fp8_lost.empty()) return {};
    return FindingText{
        "if the recipe cannot be built, or Accelerate reports that fp8 is off, this is only logged at level info: "
        "training continues without fp8",
        {}};
}
Found all_gather(const Context& c, const Facts& f) {
    if (!c.flag("fp8_enable_fsdp_float8_all_gather") || f.fp8) return {};
    return FindingText{
        "the parser reports that it sets fp8 to true, but nothing reads the attribute that it sets: fp8 stays off",
        "fp8: true"};
}

const FindingRow<Facts> finding_rows[] = {
    {"finetuning-type", error, {"finetuning_type"}, no_method},
    {"pure-bf16-unsupported", error, {"pure_bf16"}, pure_device},
    {"pure-bf16-zero3", error, {"pure_bf16", "deepspeed"}, pure_zero3},
    {"pure-bf16-fp16-checkpoint", error, {"pure_bf16"}, pure_half},
    {"galore-deepspeed", error, {"deepspeed", "use_galore", "use_apollo"}, galore_deepspeed},
    {"galore-optim", error, {"optim", "use_galore", "use_apollo"}, galore_optim},
    {"layerwise-distributed",
     error,
     {"galore_layerwise", "apollo_layerwise", "use_galore", "use_apollo"},
     galore_layerwise},
    {"galore-lora", error, {"finetuning_type", "use_galore", "use_apollo", "use_badam"}, galore_lora},
    {"galore-apollo-badam", error, {"use_galore", "use_apollo", "use_badam"}, several},
    {"badam-distributed", error, {"badam_mode", "use_badam", "deepspeed"}, badam_ranks},
    {"quantised-full", error, {"finetuning_type", "quantization_bit"}, quantised_full},
    {"quantised-adapter",
     error,
     {"quantization_bit", "pissa_init", "resize_vocab", "create_new_adapter", "adapter_name_or_path"},
     quantised_init},
    {"quantised-bits", error, {"quantization_bit", "quantization_method", "deepspeed", "fsdp"}, quantised_bits},
    {"quantised-device-map", error, {"quantization_device_map", "do_train"}, device_map},
    {"adapter-not-lora", error, {"adapter_name_or_path", "finetuning_type"}, adapter_not_lora},
    {"pissa-init", error, {"pissa_init", "finetuning_type", "stage", "pref_loss", "deepspeed"}, pissa},
    {"fp8-quantised", error, {"fp8", "quantization_bit"}, fp8_quantised},
    {"fp8-msamp", error, {"fp8_backend"}, msamp},
    {"recommend-mixed-precision", warning, {"bf16", "fp16", "pure_bf16"}, recommend_mixed},
    {"recommend-upcast-layernorm", warning, {"upcast_layernorm", "quantization_bit"}, recommend_upcast},
    {"galore-memory", warning, {"pure_bf16", "use_galore", "use_apollo"}, galore_memory},
    {"quantised-evaluation", warning, {"quantization_bit", "do_train"}, quantised_eval},
    {"pure-bf16-emulated", warning, {"pure_bf16"}, emulated},
    {"pure-bf16-fp32-checkpoint", warning, {"pure_bf16"}, pure_full},
    {"no-master", warning, {"pure_bf16", "use_badam"}, no_master},
    {"nan-filter", warning, {transformers::nan_filter_key}, nan_filter},
    {"fp8-dropped", warning, {"fp8", "stage"}, fp8_dropped},
    {"fp8-unsupported", warning, {"fp8"}, fp8_device},
    {"fp8-fails-silently", warning, {"fp8"}, fp8_silent},
    {"pure-bf16-adapters", contradiction, {"pure_bf16", "finetuning_type"}, pure_adapters},
    {"fp8-names", contradiction, {"fp8_backend", "fp8_enable_fsdp_float8_all_gather", "fp8"}, fp8_names},
    {"fp8-as-executed", contradiction, {"fp8", "fp8_backend"}, fp8_documented},
    {"all-gather-without-fp8", contradiction, {"fp8_enable_fsdp_float8_all_gather", "fp8"}, all_gather},
    {"infer-dtype-unread", inert, {"infer_dtype", "do_train"}, infer_dtype},
    {"quantised-checkpoint", note, {"model_name_or_path"}, prequantised},
    {"frozen-layers", note, {"finetuning_type"}, frozen_layers},
    {"whole-modules", note, {"additional_target", "finetuning_type"}, whole_modules},
    {"attention-kernel", note, {"flash_attn"}, explicit_attention},
    {"lmhead-upcast", note, {"upcast_lmhead_output", "finetuning_type"}, upcast_head},
    {"compute-dtype-alone", note, {"bf16", "fp16"}, compute_alone},
};

}  // namespace

void report_findings(ImportContext& context, const Facts& facts) { report_rows<Facts>(context, facts, finding_rows); }

}  // namespace macheps::configs::llamafactory
