// SPDX-License-Identifier: Apache-2.0
// Findings about combinations of keys that affect formats and that Axolotl's validators refuse: for example, a
// quantised base without its adapter, or an optimiser that does not support the sharding of the run. Sources:
// axolotl/utils/schemas/{validation,peft,config}.py of 0.17.0 and 0.18.0.
#include "experiments/configs/axolotl/axolotl.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs::axolotl {

namespace {

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

bool asks_for_bits(const Context& c) { return c.flag("load_in_8bit") || c.flag("load_in_4bit"); }

/// Returns the index of the key to change: 0 if load_in_4bit is on, otherwise 1. For rows whose first two keys are
/// load_in_4bit and load_in_8bit.
std::size_t asked_bits(const Context& c) { return c.flag("load_in_4bit") ? 0 : 1; }

Found without_adapter(const Context& c, const Facts& f) {
    if (!f.adapter.empty() || !asks_for_bits(c) || c.flag("inference")) return {};
    return FindingText{
        "an 8-bit or 4-bit base can be trained only with an adapter: without `adapter` the validator raises an error",
        c.flag("load_in_4bit") ? "adapter: qlora" : "adapter: lora", 2};
}
Found unknown_adapter(const Context& c, const Facts& f) {
    if (f.adapter.empty() || f.adapter == "lora" || f.adapter == "qlora" || f.adapter == "llama-adapter") return {};
    if (const files::ConfigValue* plugins = c.value("plugins"); plugins != nullptr && plugins->is_list()) return {};
    return FindingText{
        fmt::format("`adapter` is '{}', which is not an adapter of Axolotl, and no plugin is named that could "
                    "provide it: the validator raises an error",
                    f.adapter),
        "lora or qlora"};
}
Found qlora_base(const Context& c, const Facts& f) {
    if (f.adapter != "qlora") return {};
    if (c.flag("merge_lora")) {
        if (!asks_for_bits(c) && !c.flag("gptq")) return {};
        return FindingText{
            "a qlora adapter can be merged only into a base that is not quantised: the validator raises an error",
            c.flag("gptq") ? "gptq: false" : "load_in_4bit: false", c.flag("gptq") ? std::size_t{2} : asked_bits(c)};
    }
    if (c.flag("load_in_8bit"))
        return FindingText{"`adapter: qlora` requires a 4-bit base: the validator raises an error",
                           "load_in_8bit: false", 1};
    if (c.flag("gptq"))
        return FindingText{"`adapter: qlora` does not accept a GPTQ base: the validator raises an error",
                           "adapter: lora", 2};
    if (c.flag("load_in_4bit")) return {};
    return FindingText{"`adapter: qlora` requires load_in_4bit: the validator raises an error", "load_in_4bit: true"};
}
Found two_quantisations(const Context& c, const Facts&) {
    if (c.text("model_quantization_config").empty() || !asks_for_bits(c)) return {};
    return FindingText{
        "model_quantization_config cannot be combined with load_in_4bit or load_in_8bit: the validator raises an error",
        "only one of them"};
}
Found preference_fsdp2(const Context& c, const Facts& f) {
    if (!asks_for_bits(c) || f.fsdp_version != 2) return {};
    const std::string rl = c.text("rl");
    if (rl != "dpo" && rl != "kto" && rl != "orpo" && rl != "ipo") return {};
    return FindingText{
        fmt::format("FSDP 2 does not train an 8-bit or 4-bit base with {}: the validator raises an error", rl),
        "fsdp_version: 1, or DeepSpeed"};
}
Found deepspeed_and_fsdp(const Context& c, const Facts& f) {
    const files::ConfigValue* fsdp = c.value("fsdp");
    if (!f.deepspeed || fsdp == nullptr || fsdp->is_null() || (fsdp->is_list() && fsdp->items.empty())) return {};
    return FindingText{"DeepSpeed and `fsdp` cannot be combined: the validator raises an error", "only one of them"};
}

/// A group of optimisers, given by the prefix of their names, and the settings with which Axolotl refuses them.
struct Refused {
    std::string_view prefix;
    bool adapter, deepspeed, fsdp1;
};
constexpr Refused refused[] = {
    {"muon", false, true, true},
    {"flash_", false, true, true},
    {"q_galore_adamw8bit", true, true, true},
};

Found optimizer(const Context& c, const Facts& f) {
    const std::string name = c.text("optimizer");
    const auto said = [&](std::string_view with, std::string instead) {
        return FindingText{
            fmt::format("the optimiser {} is not supported with {}: the validator raises an error", name, with),
            std::move(instead)};
    };
    for (const Refused& row : refused) {
        if (!name.starts_with(row.prefix)) continue;
        if (row.adapter && !f.adapter.empty()) return said("an adapter", "adamw_torch_fused");
        if (row.deepspeed && f.deepspeed) return said("DeepSpeed", "adamw_torch_fused");
        // With fp16 weights, FSDP 2 would end at the GradScaler.
        if (row.fsdp1 && f.fsdp && f.fsdp_version != 2)
            return said("FSDP 1", f.autocast == 'H' ? "adamw_torch_fused" : "fsdp_version: 2");
    }
    if (name == "q_galore_adamw8bit" && f.fsdp && !c.flag("fsdp_config.use_orig_params"))
        return said("FSDP without use_orig_params", "fsdp_config.use_orig_params: true");
    const bool has_config = c.value("fsdp_config") != nullptr && f.fsdp;
    if (!has_config || name.find("8bit") == std::string::npos) return {};
    if (f.fsdp_version == 2 && (name == "adamw_8bit" || name == "adamw_bnb_8bit"))
        return said("FSDP 2", "adamw_torch_8bit");
    if (f.fsdp_version != 2 && fsdp_flag(c, "offload_params"))
        return said("the offloading of FSDP 1", "fsdp_version: 2");
    return {};
}

Found npu(const Context& c, const Facts& f) {
    if (c.device().kind != DeviceProfile::Kind::npu) return {};
    if (asks_for_bits(c))
        return FindingText{"Axolotl does not quantise on an Ascend NPU: the validator raises an error", "remove it",
                           asked_bits(c)};
    if (c.has("optimizer") && c.text("optimizer").find("bit") != std::string::npos)
        return FindingText{"Axolotl has no 8-bit or 4-bit optimiser on an Ascend NPU: the validator raises an error",
                           "adamw_torch", 2};
    for (const std::string_view kernel : {"flash_attention_2", "flash_attention_3", "sdpa"}) {
        if (f.attention == kernel)
            return FindingText{
                fmt::format("{} is not supported on an Ascend NPU: the validator raises an error", kernel),
                "attn_implementation: eager", 3};
    }
    return {};
}

// Findings about the attention kernel, which determines the format of norms and embeddings. Axolotl 0.9.2 did not check
// the name of the kernel.

bool judges_attention(const Context& c) { return c.since("0.17"); }

constexpr std::string_view attention_flags[] = {"xformers_attention", "sage_attention", "flex_attention",
                                                "flash_attention",    "sdp_attention",  "eager_attention"};

Found attention_twice(const Context& c, const Facts&) {
    if (c.text("attn_implementation").empty() || !judges_attention(c)) return {};
    for (std::size_t i = 0; i < std::size(attention_flags); ++i) {
        if (c.flag(attention_flags[i]))
            return FindingText{
                fmt::format(
                    "attn_implementation and the older `{}` name different kernels: the validator raises an error",
                    attention_flags[i]),
                fmt::format("attn_implementation, without {}", attention_flags[i]), i + 1};
    }
    return {};
}
Found attention_name(const Context& c, const Facts&) {
    const std::string name = c.text("attn_implementation");
    if (name.empty() || name.find('/') != std::string::npos || !judges_attention(c)) return {};
    for (const std::string_view known :
         {"eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention", "xformers", "sage", "fp8"}) {
        if (name == known) return {};
    }
    return FindingText{fmt::format("`attn_implementation` is '{}', which the validator refuses", name),
                       name == "flash"  ? "flash_attention_2"
                       : name == "flex" ? "flex_attention"
                                        : "sdpa"};
}
Found attention_device(const Context& c, const Facts& f) {
    const int capability = c.device().capability();
    const auto said = [&](std::string_view wanted) {
        return FindingText{fmt::format("the kernel {} requires {}, which {} is not: the validator raises an error",
                                       f.attention, wanted, c.device().name),
                           "attn_implementation: sdpa"};
    };
    if (f.attention == "sage") {
        for (const int known : {80, 86, 89, 90, 120}) {
            if (capability == known) return {};
        }
        return said("a GPU of compute capability 8.0, 8.6, 8.9, 9.0 or 12.0");
    }
    if (f.attention == "fp8" && capability != 0 && capability < 90) return said("a GPU of compute capability 9.0");
    return {};
}

// The loader reads load_in_4bit only with the adapter `qlora`, and load_in_8bit only with the adapter `lora`.

Found ignored_bits(const Context& c, const Facts& f) {
    if (f.adapter != "lora" || !c.flag("load_in_4bit") || c.flag("load_in_8bit") || !f.base.empty()) return {};
    return FindingText{fmt::format("`load_in_4bit` is read only with `adapter: qlora`: the base is not quantised{}",
                                   f.upcasts_base ? ", and prepare_model_for_kbit_training casts it to fp32" : ""),
                       "adapter: qlora"};
}

/// Reports a quantised base and adapters that FSDP 1 may refuse to put into one unit. Transformers wraps adapters on
/// their own if the model is one of PEFT, so this does not always end the run (axolotl #1494, #1836).
Found fsdp1_uniform(const Context& c, const Facts& f) {
    const bool has_4_bits = f.base == "nf4" || f.base == "fp4";
    if (!f.fsdp || f.fsdp_version != 1 || f.adapter.empty() || !has_4_bits) return {};
    constexpr std::string_view refusal =
        "FSDP 1 refuses to flatten them together: \"Must flatten tensors with uniform dtype\"";
    if (f.storage == 0) {
        return FindingText{fmt::format("the 4-bit base is stored in integers, and the adapters are {}: {}",
                                       format_word(f.adapters), refusal),
                           "transformers 4.39 or newer, or fsdp_version: 2"};
    }
    if (f.adapters != f.storage) {
        return FindingText{fmt::format("the 4-bit base is stored in {}, and the adapters are {}: {}",
                                       format_word(f.storage), format_word(f.adapters), refusal),
                           "peft_autocast_adapter_dtype: false", 2};
    }
    if (c.since("0.5") || c.given_version("transformers")) return {};
    return FindingText{fmt::format("Transformers before 4.39 stores the 4-bit base in integers, while the adapters are "
                                   "{}: {}",
                                   format_word(f.adapters), refusal),
                       "transformers 4.39 or newer"};
}

const FindingRow<Facts> conflict_rows[] = {
    {"quantised-without-adapter", error, {"load_in_4bit", "load_in_8bit", "adapter"}, without_adapter},
    {"unknown-adapter", error, {"adapter"}, unknown_adapter},
    {"qlora-base", error, {"load_in_4bit", "load_in_8bit", "gptq", "adapter", "merge_lora"}, qlora_base},
    {"quantised-twice", error, {"model_quantization_config", "load_in_4bit", "load_in_8bit"}, two_quantisations},
    {"quantised-fsdp2", error, {"fsdp_version", "rl", "load_in_4bit", "load_in_8bit"}, preference_fsdp2},
    {"deepspeed-and-fsdp", error, {"fsdp", "deepspeed"}, deepspeed_and_fsdp},
    {"optimizer-refused", error, {"optimizer", "adapter", "deepspeed", "fsdp_version", "fsdp_config"}, optimizer},
    {"npu-unsupported", error, {"load_in_4bit", "load_in_8bit", "optimizer", "attn_implementation"}, npu},
    {"attention-twice",
     error,
     {"attn_implementation", "xformers_attention", "sage_attention", "flex_attention", "flash_attention",
      "sdp_attention", "eager_attention"},
     attention_twice},
    {"attention-name", error, {"attn_implementation"}, attention_name},
    {"attention-unsupported", error, {"attn_implementation", "sage_attention"}, attention_device},
    {"fsdp1-uniform", warning, {"load_in_4bit", "fsdp", "peft_autocast_adapter_dtype"}, fsdp1_uniform},
    {"bits-ignored", warning, {"adapter", "load_in_4bit"}, ignored_bits},
};

}  // namespace

void report_conflicts(ImportContext& context, const Facts& facts) { report_rows<Facts>(context, facts, conflict_rows); }

}  // namespace macheps::configs::axolotl
