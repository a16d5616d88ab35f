// SPDX-License-Identifier: Apache-2.0
// Findings about a LLaMA-Factory YAML: a row for each check of its parser that raises or warns, each silent decision
// and each trap. Sources: llamafactory/hparams/{parser,finetuning_args}.py, train/fp8_utils.py of 0.9.5 and 0.9.6.dev0.
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/llamafactory/llamafactory.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs::llamafactory {

namespace {

using Maybe = std::optional<Said>;
using Context = ImportContext;
using enum FindingCode;

// Refusals of the parser.

Maybe no_method(const Context&, const Facts& f) {
    for (const std::string_view method : {"lora", "oft", "freeze", "full"}) {
        if (f.finetuning == method) return {};
    }
    return Said{fmt::format("`finetuning_type` is '{}': the parser takes lora, oft, freeze and full", f.finetuning),
                f.finetuning == "qlora" ? "lora, with quantization_bit: 4" : "lora"};
}
Maybe pure_device(const Context& c, const Facts& f) {
    if (!f.pure_bf16 || c.device().torch_says_gpu_bf16()) return {};
    return Said{fmt::format("{} has no bf16: \"This device does not support `pure_bf16`\"", c.device().name),
                "pure_bf16: false"};
}
Maybe pure_zero3(const Context&, const Facts& f) {
    if (!f.pure_bf16 || f.zero_stage != 3) return {};
    return Said{"pure_bf16 is incompatible with DeepSpeed ZeRO-3: the parser raises", "bf16: true"};
}
Maybe galore_deepspeed(const Context&, const Facts& f) {
    if (!f.deepspeed || (!f.galore && !f.apollo)) return {};
    return Said{"GaLore and APOLLO are incompatible with DeepSpeed: the parser raises", "leave `deepspeed` out"};
}
Maybe galore_layerwise(const Context& c, const Facts& f) {
    if (!f.is_distributed) return {};
    if (f.galore && c.flag("galore_layerwise"))
        return Said{"layer-wise GaLore does not train on several ranks: the parser raises", "galore_layerwise: false"};
    if (f.apollo && c.flag("apollo_layerwise"))
        return Said{"layer-wise APOLLO does not train on several ranks: the parser raises", "apollo_layerwise: false"};
    return {};
}
Maybe galore_lora(const Context&, const Facts& f) {
    if (f.finetuning != "lora" || (!f.galore && !f.apollo && !f.badam)) return {};
    return Said{"GaLore, APOLLO and BAdam train full weights: with LoRA the parser raises", "finetuning_type: full"};
}
Maybe several(const Context&, const Facts& f) {
    if (int{f.galore} + int{f.apollo} + int{f.badam} < 2) return {};
    return Said{"GaLore, APOLLO and BAdam exclude each other: the parser raises", "one of them"};
}
Maybe badam_ranks(const Context& c, const Facts& f) {
    if (!f.badam || !f.is_distributed) return {};
    if (c.text("badam_mode") == "ratio")
        return Said{"BAdam by ratio does not train on several ranks: the parser raises", "badam_mode: layer"};
    if (f.zero_stage != 3)
        return Said{"layer-wise BAdam on several ranks asks for DeepSpeed ZeRO-3: the parser raises",
                    "a ZeRO-3 file in `deepspeed`"};
    return {};
}
Maybe quantised_full(const Context&, const Facts& f) {
    if (!f.is_quantised || f.has_adapter) return {};
    return Said{"a quantised base is trained with LoRA or OFT only: the parser raises", "finetuning_type: lora"};
}
Maybe quantised_init(const Context& c, const Facts& f) {
    if (!f.is_quantised) return {};
    if (c.flag("pissa_init"))
        return Said{"PiSSA is not initialised on a quantised base: the parser raises", "scripts/pissa_init.py"};
    if (c.flag("resize_vocab"))
        return Said{"the vocabulary of a quantised base cannot be resized: the parser raises", "resize_vocab: false"};
    if (!c.has("adapter_name_or_path")) return {};
    if (c.flag("create_new_adapter"))
        return Said{"no new adapter can be put on a quantised base that has one: the parser raises",
                    "create_new_adapter: false"};
    if (c.text("adapter_name_or_path").find(',') != std::string::npos)
        return Said{"a quantised base takes a single adapter: the parser raises", "merge them first"};
    return {};
}
Maybe quantised_bits(const Context& c, const Facts& f) {
    if (!f.is_quantised) return {};
    const double bits = c.number("quantization_bit").value_or(4);
    const std::string method = c.text("quantization_method");
    const bool is_sharded = f.zero_stage == 3 || (f.is_distributed && !f.deepspeed);
    const auto said = [&](std::string_view takes) {
        return Said{fmt::format("{} takes {}: loading the model raises", method, takes), "quantization_bit: 4"};
    };
    if (method == "hqq") {
        const bool is_width = bits == 8 || (bits >= 1 && bits <= 6 && bits == static_cast<int>(bits));
        if (!is_width) return said("1 to 6 or 8 bits");
    } else if (method == "eetq") {
        if (bits != 8) return Said{"eetq takes 8 bits: loading the model raises", "quantization_bit: 8"};
    } else {
        if (bits != 4 && bits != 8) return said("4 or 8 bits");
        if (bits == 8 && is_sharded) return said("4 bits under ZeRO-3 and FSDP");
        return {};
    }
    if (!is_sharded) return {};
    return Said{fmt::format("{} does not go with ZeRO-3 and FSDP: loading the model raises", method),
                "quantization_method: bnb", 1};
}
Maybe device_map(const Context& c, const Facts& f) {
    if (!f.trains || c.text("quantization_device_map") != "auto") return {};
    return Said{"a device map is for inference: where something is trained the parser raises",
                "leave quantization_device_map out"};
}
Maybe adapter_not_lora(const Context& c, const Facts& f) {
    if (f.finetuning == "lora" || !c.has("adapter_name_or_path")) return {};
    return Said{fmt::format("an adapter is loaded with LoRA alone: under {} the parser raises", f.finetuning),
                "finetuning_type: lora", 1};
}
Maybe pissa(const Context& c, const Facts& f) {
    if (!c.flag("pissa_init")) return {};
    const std::string stage = c.text("stage"), loss = c.text("pref_loss");
    const bool has_reference = stage == "dpo" && loss != "orpo" && loss != "simpo";
    if (f.finetuning != "lora") return Said{"`pissa_init` is for LoRA: the parser raises", "finetuning_type: lora", 1};
    if (stage == "ppo" || stage == "kto" || has_reference)
        return Said{fmt::format("PiSSA changes the base, which the stage {} compares with: the parser raises", stage),
                    "pissa_init: false"};
    if (f.zero_stage == 3)
        return Said{"PiSSA is not initialised under ZeRO-3: the parser raises", "scripts/pissa_init.py"};
    return {};
}
Maybe fp8_quantised(const Context&, const Facts& f) {
    if (!f.fp8 || !f.is_quantised) return {};
    return Said{"fp8 and a quantised base exclude each other: the parser raises", "one of them"};
}
Maybe msamp(const Context& c, const Facts& f) {
    if (!f.fp8 || c.text("fp8_backend") != "msamp") return {};
    return Said{"MS-AMP is recognised and not emulated", "fp8_backend: torchao"};
}
Maybe pure_half(const Context&, const Facts& f) {
    if (!f.pure_bf16 || f.checkpoint != 'H') return {};
    return Said{"pure_bf16 casts nothing: the fp16 checkpoint stays fp16, and meets bf16 products",
                "a bf16 checkpoint, or bf16: true"};
}

// Warnings of LLaMA-Factory.

Maybe recommend_mixed(const Context&, const Facts& f) {
    if (!f.trains || f.fp16 || f.bf16) return {};
    return Said{f.pure_bf16 ? "LLaMA-Factory recommends mixed precision, which pure_bf16 alone is not: autocast is off"
                            : "LLaMA-Factory recommends mixed precision: neither fp16 nor bf16 is on",
                f.pure_bf16 ? "" : "bf16: true"};
}
Maybe recommend_upcast(const Context& c, const Facts& f) {
    if (!f.trains || !f.is_quantised || c.flag("upcast_layernorm")) return {};
    return Said{"LLaMA-Factory recommends upcast_layernorm where a quantised base is trained",
                "upcast_layernorm: true"};
}
Maybe galore_memory(const Context&, const Facts& f) {
    if (!f.trains || (!f.galore && !f.apollo) || f.pure_bf16) return {};
    return Said{
        "without pure_bf16 the projected gradients and moments are fp32: GaLore and APOLLO take twice the memory",
        "pure_bf16: true"};
}
Maybe quantised_eval(const Context&, const Facts& f) {
    if (f.trains || !f.is_quantised) return {};
    return Said{"a base of 4 or 8 bits may score lower in evaluation", "leave quantization_bit out"};
}

// Traps.

Maybe emulated(const Context& c, const Facts& f) {
    if (!f.pure_bf16 || c.device().bf16 || !c.device().torch_says_gpu_bf16()) return {};
    return Said{
        fmt::format(
            "{} has no bf16 in its matrix units; torch says yes because it counts emulation, so pure_bf16 runs, slowly",
            c.device().name),
        "fp16: true"};
}
Maybe pure_full(const Context& c, const Facts& f) {
    if (!f.pure_bf16 || f.checkpoint != 'F') return {};
    return Said{fmt::format("pure_bf16 casts nothing: the {} checkpoint is loaded as it is stored, and trained in fp32",
                            c.checkpoint_dtype()),
                "--checkpoint-dtype bf16, if the checkpoint is"};
}
Maybe no_master(const Context&, const Facts& f) {
    if (!f.trains || f.checkpoint == 'F' || f.upcasts_trained || (f.deepspeed && (f.fp16 || f.bf16))) return {};
    return Said{fmt::format("weights, gradients and moments are {}, and no fp32 master keeps small updates",
                            format_word(f.checkpoint)),
                "bf16: true without pure_bf16"};
}
Maybe upcast_head(const Context& c, const Facts& f) {
    if (!c.flag("upcast_lmhead_output") || !f.upcasts_trained || f.finetuning != "full") return {};
    return Said{"the head's weight is fp32 here, so that upcast_lmhead_output changes the logits under autocast alone",
                {}};
}
Maybe compute_alone(const Context&, const Facts& f) {
    if (f.fp16 || f.bf16 || f.pure_bf16 || f.compute == 'F') return {};
    return Said{
        fmt::format(
            "the compute dtype {} is that of quantised layers and masks: without fp16 or bf16 nothing is autocast",
            format_word(f.compute)),
        {}};
}
Maybe infer_dtype(const Context& c, const Facts& f) {
    if (!f.trains || !c.has("infer_dtype")) return {};
    return Said{"`infer_dtype` is read where nothing is trained", {}};
}

// fp8.

Maybe fp8_names(const Context& c, const Facts& f) {
    if (!f.fp8 || !f.fp8_reaches_accelerate) return {};
    if (!c.has("fp8_backend") && !c.flag("fp8_enable_fsdp_float8_all_gather")) return {};
    return Said{
        "LLaMA-Factory exports FP8_BACKEND and FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER, and Accelerate reads "
        "ACCELERATE_FP8_*: neither has an effect",
        "ACCELERATE_FP8_BACKEND in the environment"};
}
Maybe fp8_documented(const Context& c, const Facts& f) {
    if (!f.fp8 || !f.fp8_reaches_accelerate || c.text("fp8_backend") == "te") return {};
    return Said{
        "the rowwise recipe with its filter by names is built for a log line: what trains is Accelerate's default, "
        "torchao tensorwise with Accelerate's filter",
        {}};
}
Maybe fp8_dropped(const Context&, const Facts& f) {
    if (!f.fp8 || f.fp8_reaches_accelerate) return {};
    return Said{
        "with transformers 5 the request for fp8 is dropped: the Trainer fixes the precision before LLaMA-Factory sets "
        "it, and training follows fp16 and bf16",
        "transformers 4.57"};
}
Maybe fp8_device(const Context& c, const Facts& f) {
    if (!f.fp8 || !f.fp8_reaches_accelerate || c.device().fp8) return {};
    return Said{fmt::format("{} does not multiply fp8: Accelerate falls back to fp16", c.device().name), "fp8: false"};
}
Maybe fp8_silent(const Context&, const Facts& f) {
    if (!f.fp8 || !f.fp8_reaches_accelerate) return {};
    return Said{
        "a recipe that cannot be made, and fp8 that Accelerate reports off, are lines of the log at level info: "
        "training goes on without fp8",
        {}};
}
Maybe all_gather(const Context& c, const Facts& f) {
    if (!c.flag("fp8_enable_fsdp_float8_all_gather") || f.fp8) return {};
    return Said{"the parser says that it sets fp8 to true, and sets it where nobody reads it: fp8 stays off",
                "fp8: true"};
}

const FindingRow<Facts> finding_rows[] = {
    {"finetuning-type", error, {"finetuning_type"}, no_method},
    {"pure-bf16-unsupported", error, {"pure_bf16"}, pure_device},
    {"pure-bf16-zero3", error, {"pure_bf16", "deepspeed"}, pure_zero3},
    {"pure-bf16-fp16-checkpoint", error, {"pure_bf16"}, pure_half},
    {"galore-deepspeed", error, {"deepspeed", "use_galore", "use_apollo"}, galore_deepspeed},
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
    {"fp8-dropped", warning, {"fp8"}, fp8_dropped},
    {"fp8-unsupported", warning, {"fp8"}, fp8_device},
    {"fp8-fails-silently", warning, {"fp8"}, fp8_silent},
    {"fp8-names", contradiction, {"fp8_backend", "fp8_enable_fsdp_float8_all_gather", "fp8"}, fp8_names},
    {"fp8-as-executed", contradiction, {"fp8", "fp8_backend"}, fp8_documented},
    {"all-gather-without-fp8", contradiction, {"fp8_enable_fsdp_float8_all_gather", "fp8"}, all_gather},
    {"infer-dtype-unread", inert, {"infer_dtype", "do_train"}, infer_dtype},
    {"lmhead-upcast", note, {"upcast_lmhead_output", "finetuning_type"}, upcast_head},
    {"compute-dtype-alone", note, {"bf16", "fp16"}, compute_alone},
};

}  // namespace

void report_findings(ImportContext& context, const Facts& facts) { report_rows<Facts>(context, facts, finding_rows); }

}  // namespace macheps::configs::llamafactory
