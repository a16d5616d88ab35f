// SPDX-License-Identifier: Apache-2.0
// Importer of Axolotl, which resolves its own `auto` values and then passes its settings on to Transformers' Trainer.
// Sources: axolotl/utils/config/__init__.py (resolve_dtype), core/builders/base.py (_configure_precision_settings),
// loaders/model.py of 0.18.0 and 0.19.0.
#include "experiments/configs/axolotl/axolotl.hpp"
#include "experiments/configs/accelerate/deepspeed_section.hpp"
#include "experiments/configs/accelerate/fsdp.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/adapter_format.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"
#include "experiments/configs/transformers/transformers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace macheps::configs::axolotl {

namespace {

bool is_word(const ImportContext& context, std::string_view path, std::string_view word) {
    const files::ConfigValue* value = context.value(path);
    return value != nullptr && value->is_text() && value->written == word;
}

/// Returns whether a key enables a feature: its value is true, or a non-empty text, list or map.
bool is_set(const ImportContext& context, std::string_view path) {
    const files::ConfigValue* value = context.value(path);
    if (value == nullptr || value->is_null()) return false;
    if (value->is_boolean()) return value->boolean;
    if (value->is_list()) return !value->items.empty();
    if (value->is_map()) return !value->entries.empty();
    return !value->written.empty() && value->written != "false";
}

/// Returns the canonical name of the attention kernel: the value of attn_implementation or, if it is not set, the
/// kernel of the first of the older flags below that is on.
std::string attention(const ImportContext& context) {
    if (std::string named = context.text("attn_implementation"); !named.empty()) return named;
    constexpr std::pair<std::string_view, std::string_view> flags[] = {
        {"gemma4_hybrid_attn_impl", "flash_attention_2"},
        {"xformers_attention", "xformers"},
        {"sage_attention", "sage"},
        {"flex_attention", "flex_attention"},
        {"flash_attention", "flash_attention_2"},
        {"sdp_attention", "sdpa"},
        {"eager_attention", "eager"},
    };
    for (const auto& [flag, name] : flags) {
        if (context.flag(flag)) return std::string(name);
    }
    return {};
}

/// Returns whether the config names an attention kernel that does not accept norms and embeddings in fp32. Only eager
/// and sdpa accept them.
bool has_low_attention(std::string_view attention) {
    return !attention.empty() && attention != "eager" && attention != "sdpa";
}

/// Returns the version of FSDP, from the top-level key or from one of its two spellings inside `fsdp_config`.
int fsdp_version(const ImportContext& context) {
    for (const std::string_view path : {"fsdp_version", "fsdp_config.version", "fsdp_config.fsdp_version"}) {
        if (const double version = context.number(path).value_or(0); version != 0) return version == 2 ? 2 : 1;
    }
    return 1;
}

/// Returns the format of a quantised base model, or an empty text if the base is not quantised. With bitsandbytes, the
/// base has 4 bits only if the adapter is `qlora`, and 8 bits only if it is `lora`.
std::string quantised_base(const ImportContext& context, std::string_view adapter) {
    // Axolotl 0.9.2 still passes load_in_4bit to the loader for every adapter.
    if ((adapter == "qlora" || !context.since("0.17")) && context.flag("load_in_4bit"))
        return context.text("bnb_config_kwargs.bnb_4bit_quant_type");
    if (adapter == "lora" && context.flag("load_in_8bit")) return "int8";
    if (context.flag("gptq")) return "int4";
    if (context.text("model_quantization_config") == "Mxfp4Config") return "mxfp4";
    return {};
}

/// Returns whether Axolotl calls prepare_model_for_kbit_training. Axolotl never calls it with ZeRO-3. With FSDP,
/// Axolotl calls it only for the adapter `lora` without cpu_ram_efficient_loading.
bool casts_for_kbit(const ImportContext& context, const Facts& facts) {
    if (facts.adapter != "lora" && facts.adapter != "qlora") return false;
    if (!context.flag("load_in_4bit") && !context.flag("load_in_8bit")) return false;
    if (facts.fsdp && (facts.adapter == "qlora" || fsdp_flag(context, "cpu_ram_efficient_loading"))) return false;
    return context.number("deepspeed.zero_optimization.stage").value_or(0) != 3;
}

/// Returns the format in which bitsandbytes stores 4-bit weights. Axolotl requests bf16 by default. Transformers before
/// 4.39 ignores the request and stores integers. Sources: loaders/model.py of 0.17.0 and 0.19.0,
/// transformers/utils/quantization_config.py of 4.38.2 and 4.39.0.
char storage_of(const ImportContext& context) {
    const std::optional<FrameworkVersion> transformers = context.given_version("transformers");
    if (transformers && *transformers < parse_version("4.39")) return 0;
    constexpr std::string_view key = "bnb_config_kwargs.bnb_4bit_quant_storage";
    return context.has(key) ? context.dtype(key) : 'B';
}

}  // namespace

bool fsdp_flag(const ImportContext& context, std::string_view key) {
    return context.flag(fmt::format("fsdp_config.{}", key)) || context.flag(fmt::format("fsdp_config.fsdp_{}", key));
}

/// In preference tuning, every release does so. The other trainers do so from 0.10.0 on. Sources:
/// core/trainer_builder.py of 0.6.0, 0.8.0 and 0.9.2, core/builders/base.py of 0.10.0.
bool bfloat16_is_amp(const ImportContext& context) { return context.since("0.10.0") || is_set(context, "rl"); }

bool is_auto(const ImportContext& context, std::string_view path) {
    return !context.has(path) || is_word(context, path, "auto");
}

Facts facts(const ImportContext& context) {
    Facts facts;
    facts.fp16 = context.flag("fp16");
    facts.bf16_is_auto = is_auto(context, "bf16");
    facts.full_eval = is_word(context, "bf16", "full");
    const bool float16 = context.flag("float16"), bfloat16 = context.flag("bfloat16");
    bool bf16 = !facts.bf16_is_auto && (facts.full_eval || context.flag("bf16"));
    if (facts.bf16_is_auto && !facts.fp16) {
        bf16 = context.device().torch_says_gpu_bf16();
        if (!bf16 && !context.has("fp16") && !float16) facts.fp16 = true;
    }
    if (bf16) facts.fp16 = false;
    facts.loaded = bf16 || bfloat16 ? 'B' : context.flag("load_in_8bit") || facts.fp16 || float16 ? 'H' : 'F';
    facts.bf16 = !facts.full_eval && (bf16 || (bfloat16 && bfloat16_is_amp(context)));
    facts.fp16 = facts.fp16 && !bf16;
    facts.autocast = facts.bf16 ? 'B' : facts.fp16 ? 'H' : 'F';
    if (context.device().kind == DeviceProfile::Kind::cpu && facts.autocast == 'H') facts.autocast = 'F';
    facts.tf32 = is_auto(context, "tf32") ? context.device().torch_says_tf32() : context.flag("tf32");
    facts.adapter = context.text("adapter");
    facts.base = quantised_base(context, facts.adapter);
    facts.saves_modules = !facts.adapter.empty() && is_set(context, "lora_modules_to_save");
    facts.storage = storage_of(context);
    if (!facts.adapter.empty()) {
        facts.adapters =
            peft_adapter_format(context, {.format = facts.loaded, .storage = facts.storage, .quantised = facts.base},
                                context.flag("peft_autocast_adapter_dtype"));
    }
    facts.deepspeed = is_set(context, "deepspeed");
    facts.fsdp = is_set(context, "fsdp") || is_set(context, "fsdp_config");
    facts.fsdp_version = fsdp_version(context);
    facts.attention = attention(context);
    facts.optimiser = find_optimiser(context, "axolotl", context.text("optimizer"));
    facts.wants_cast =
        !facts.adapter.empty() || facts.fsdp || has_low_attention(facts.attention) || context.flag("cut_cross_entropy");
    facts.upcasts_base = facts.base.empty() && casts_for_kbit(context, facts);
    return facts;
}

namespace {

std::string_view switch_of(const ImportContext& context, const Facts& facts) {
    if (facts.fp16 || (facts.loaded == 'H' && !context.flag("float16"))) return "fp16";
    if (context.flag("float16") && facts.loaded == 'H') return "float16";
    return !context.has("bf16") && context.flag("bfloat16") ? "bfloat16" : "bf16";
}

void set_weights(ImportContext& context, const Facts& facts, std::string_view from) {
    if (facts.loaded == 'F')
        set_storage(context, facts.autocast == 'F' ? storage::fp32 : storage::amp, facts.autocast, from);
    else if (facts.autocast == 'F')
        set_storage(context, storage::pure, facts.loaded, from);
    else
        set_storage(context, storage::low_amp, facts.autocast, from);
    if (facts.loaded != 'F') {
        const std::string why = fmt::format("loaded in {}: torch_dtype follows {}", format_word(facts.loaded), from);
        for (const std::string_view field :
             {"store", "grad", "accum", "reduce", "opt_state", "norm", "embed", "lm_head", "eval"})
            context.infer(field, letter(facts.loaded), why);
        context.infer("buffers", letter('F'), "buffers are made in fp32 when a model is loaded");
        if (!facts.wants_cast) {
            for (const std::string_view field : {"norm", "embed", "lm_head"})
                context.infer(field, letter('F'), "norms (by name) and embeddings are upcast after loading");
        }
    }
    if (facts.bf16_is_auto && !context.flag("fp16") && facts.autocast != 'F')
        context.by_device("compute", letter(facts.autocast));
}

void set_adapter(ImportContext& context, const Facts& facts) {
    if (facts.adapter.empty()) {
        context.infer("adapter", word_field("none"), "full fine-tuning");
        if (!facts.base.empty()) context.infer("store", word_field(facts.base), "from the quantised base");
        return;
    }
    const char format = facts.adapters;
    if (peft_is_before_autocast(context))
        context.infer("adapter", letter(format), peft_adapter_reason(context, format));
    else
        context.set("adapter", letter(format), "peft_autocast_adapter_dtype");
    const std::string why = facts.saves_modules
                                ? fmt::format("from adapter; the modules in lora_modules_to_save are trained in {}",
                                              format_word(facts.loaded))
                                : std::string("from adapter: only adapters are trained");
    for (const std::string_view field : {"grad", "accum", "reduce", "opt_state"})
        context.infer(field, letter(format), why);
    if (facts.base == "int8")
        context.set("store", word_field(facts.base), "load_in_8bit");
    else if (facts.base == "int4")
        context.set("store", word_field(facts.base), "gptq");
    else if (facts.base == "mxfp4")
        context.set("store", word_field(facts.base), "model_quantization_config");
    else if (!facts.base.empty())
        context.set("store", word_field(facts.base), "load_in_4bit");
    else if (facts.upcasts_base && facts.loaded != 'F')
        context.set("store", letter('F'), "load_in_4bit");
}

/// Sets the formats of the base and of the adapters again after DeepSpeed's importer has set them. The engine casts all
/// floating-point weights, so it casts the adapters, but not the integers of a quantised base.
void keep_base(ImportContext& context, const Facts& facts) {
    const std::string cast(context.resolved().word("store"));
    if (!facts.adapter.empty())
        context.infer("adapter", word_field(cast), "from store: DeepSpeed casts the whole model");
    if (!facts.base.empty())
        context.infer("store", word_field(facts.base), "from the quantised base, which DeepSpeed does not cast");
}

void set_fp8(ImportContext& context) {
    if (!context.flag("fp8")) {
        context.infer("fp8", word_field("none"), "fp8 is off");
        return;
    }
    const std::string recipe = fmt::format("ao_{}", context.text("fp8_config.recipe"));
    context.set("fp8",
                {.value = recipe,
                 .parts = {{"pad_inner_dim", false},
                           {"all_gather", context.flag("fp8_enable_fsdp_float8_all_gather")},
                           {"filter", std::string("axolotl")}}},
                context.has("fp8_config.recipe") ? "fp8_config.recipe" : "fp8");
    context.set("compute", word_field(recipe), "fp8");
}

void set_update(ImportContext& context, const Facts& facts) {
    if (facts.optimiser != nullptr) set_optimiser(context, *facts.optimiser, "optimizer");
    context.set("clip",
                clip_field(facts.fsdp && facts.fsdp_version == 1 ? "fsdp1" : "torch",
                           context.number("max_grad_norm").value_or(0)),
                "max_grad_norm");
    context.set("ckpt", {.value = is_set(context, "gradient_checkpointing"), .parts = {}}, "gradient_checkpointing");
}

void resolve(ImportContext& context) {
    const Facts found = facts(context);
    report_findings(context, found);
    report_optimiser(context, "optimizer");
    const std::string_view from = switch_of(context, found);
    if (found.fsdp && found.autocast != 'F' && found.adapter.empty()) {
        const AccelerateFsdp fsdp{
            .low = found.autocast, .version = found.fsdp_version, .loaded = found.loaded, .widens = false};
        set_accelerate_fsdp(context, fsdp, from);
        report_accelerate_fsdp(context, fsdp, from);
    } else {
        set_weights(context, found, from);
    }
    if (context.flag("fp32_norms") && found.fsdp_version == 2) context.set("norm", letter('F'), "fp32_norms");
    if (found.tf32 && context.resolved().word("compute") == "F") {
        if (is_auto(context, "tf32"))
            context.by_device("compute", letter('T'));
        else
            context.set("compute", letter('T'), "tf32");
    }
    context.infer("scaler", found.autocast == 'H' ? torch_scaler_field({}) : no_scaler_field(),
                  "from compute: only autocast to fp16 has a loss scaler");
    set_adapter(context, found);
    set_fp8(context);
    set_update(context, found);
    if (const files::ConfigValue* section = context.value("deepspeed");
        found.deepspeed && section != nullptr && section->is_map()) {
        context.delegate(deepspeed::framework, "deepspeed");
        keep_under_deepspeed(context, found.optimiser, "optimizer");
        keep_base(context, found);
    }
}

/// Replaces the value "auto" of a key in DeepSpeed's file by the value that Axolotl's Trainer fills in.
void fill_auto(ImportContext& context, std::string_view path, std::string_view text, files::ConfigValue::Kind kind) {
    files::ConfigValue* value = context.root().find(fmt::format("deepspeed.{}", path));
    if (value == nullptr || value->written != "auto") return;
    value->kind = kind;
    value->written = text;
    value->quoted = false;
    value->boolean = text == "true";
    if (kind == files::ConfigValue::Kind::number) {
        files::ConfigValue number;
        number.kind = files::ConfigValue::Kind::text;
        number.written = text;
        value->number = files::written_number(number).value_or(0);
    }
}

/// Sets gradient_accumulation_steps from batch_size if the key is missing, as Axolotl does.
void derive_micro_batches(ImportContext& context) {
    const double batch = context.number("batch_size").value_or(0),
                 micro = context.number("micro_batch_size").value_or(0);
    if (context.has("gradient_accumulation_steps") || !(micro >= 1) || !(batch >= micro)) return;
    context.root().set("gradient_accumulation_steps", files::yaml_scalar(fmt::format("{}", std::floor(batch / micro)),
                                                                         context.place_of("batch_size")));
}

/// Reads the file that `deepspeed` names, and fills in the values that Axolotl's Trainer determines.
void read_deepspeed_file(ImportContext& context) {
    const files::ConfigValue::Entry* entry = context.root().entry("deepspeed");
    if (entry == nullptr) return;
    if (entry->value.is_text() && !entry->value.written.empty()) {
        const files::ConfigPlace place = entry->value.place;
        std::optional<files::ConfigValue> file = context.read_file("deepspeed", place, entry->value.written);
        if (file) context.root().set("deepspeed", std::move(*file));
    }
    files::ConfigValue* section = context.root().find("deepspeed");
    if (section == nullptr || !section->is_map()) return;
    const Facts found = facts(context);
    fill_auto(context, "fp16.enabled", found.fp16 ? "true" : "false", files::ConfigValue::Kind::boolean);
    fill_auto(context, "bf16.enabled", found.bf16 ? "true" : "false", files::ConfigValue::Kind::boolean);
    fill_auto(context, "gradient_clipping", context.text("max_grad_norm"), files::ConfigValue::Kind::number);
    fill_auto(context, "gradient_accumulation_steps",
              context.has("gradient_accumulation_steps") ? context.text("gradient_accumulation_steps") : "1",
              files::ConfigValue::Kind::number);
    add_precision_section(*section, found.fp16 ? "fp16" : found.bf16 ? "bf16" : "no");
}

void prepare(ImportContext& context) {
    derive_micro_batches(context);
    read_deepspeed_file(context);
    transformers::fill_micro_batches(context);
}

int recognises(const files::ConfigValue& root) {
    if (root.entry("base_model") == nullptr) return 0;
    int score = 55;
    for (const std::string_view key : {"sequence_len", "micro_batch_size", "datasets", "adapter", "sample_packing",
                                       "val_set_size", "fp8_enable_fsdp_float8_all_gather"}) {
        if (root.entry(key) != nullptr) score += 10;
    }
    return std::min(score, 95);
}

}  // namespace

extern const Framework framework{
    .name = "axolotl",
    .title = "Axolotl",
    .newest = "0.19.0",
    .oldest = "0.4",
    .keys = axolotl::keys(),
    .model = "llama",
    .limits = {{"", "peft", "0.11.1"},
               {"0.5", "peft", ""},
               {"0.17", "transformers", "5.9.0"},
               {"0.17", "accelerate", "1.13.0"},
               {"0.17", "deepspeed", "0.18.9"},
               {"0.18", "transformers", "5.14.1"},
               {"0.18", "torch", "2.12.1"},
               {"0.19", "transformers", "5.16.1"},
               {"0.19", "torch", "2.13.0"}},
    .file_keys = {{"deepspeed", "deepspeed"}},
    .model_keys = "base_model",
    .dtype_keys = "torch_dtype",
    .marks =
        "base_model+datasets base_model+sequence_len base_model+micro_batch_size base_model+adapter "
        "base_model+pretraining_dataset @axolotl*",
    .recognises = axolotl::recognises,
    // Axolotl's pydantic models ignore unknown keys.
    .refuses_unknown = [](const ImportContext&, std::string_view) { return false; },
    .reads_quoted_booleans = [](const ImportContext&) { return true; },
    .prepare = axolotl::prepare,
    .resolve = axolotl::resolve};

}  // namespace macheps::configs::axolotl
