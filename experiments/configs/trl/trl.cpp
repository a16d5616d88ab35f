// SPDX-License-Identifier: Apache-2.0
// Importer of TRL recipes: YAML files with the arguments of TRL's trainers, its ModelConfig and its scripts. TRL leaves
// the precision to Transformers, changes some defaults, and decides how the model is loaded. Sources:
// trl/trainer/{model_config,base_config,sft_config}.py, trl/trainer/{sft,dpo,grpo}_trainer.py, trl/trainer/utils.py,
// trl/scripts/utils.py of 0.12.0 to 1.16.0.
#include "core/text/split.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/hydra/hydra.hpp"
#include "experiments/configs/policy_text/adapter_format.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"
#include "experiments/configs/transformers/transformers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::configs::trl {

namespace {

using enum KeyType;

const KeyRow rows[] = {
    // The name of this key depends on the version. A finding reports a name that the version does not have.
    {.path = "dtype",
     .type = choice,
     .choices = "auto bfloat16 float16 float32",
     .sets = "store grad opt_state",
     .summary = "dtype in which the model is loaded, from 0.23"},
    {.path = "torch_dtype",
     .type = choice,
     .choices = "auto bfloat16 float16 float32",
     .sets = "store grad opt_state",
     .summary = "the name of `dtype` before 0.23; the last version that knows it is 0.26"},
    {.path = "load_in_4bit", .type = flag, .defaults = {{"", "false"}}, .sets = "store"},
    {.path = "load_in_8bit", .type = flag, .defaults = {{"", "false"}}, .sets = "store"},
    {.path = "bnb_4bit_quant_type", .type = choice, .defaults = {{"", "nf4"}}, .choices = "fp4 nf4", .sets = "store"},
    {.path = "use_bnb_nested_quant",
     .type = flag,
     .defaults = {{"", "false"}},
     .sets = "store",
     .summary = "whether the scales of 4-bit weights are quantised too"},
    {.path = "use_peft", .type = flag, .defaults = {{"", "false"}}, .sets = "adapter grad opt_state"},
    {.path = "lora_modules_to_save",
     .type = any,
     .sets = "grad opt_state",
     .summary = "modules that are trained as a whole, in the format in which they are loaded"},
    {.path = "cast_lm_head_to_fp32",
     .type = flag,
     .defaults = {{"", "false"}},
     .since = "0.25",
     .sets = "lm_head logits",
     .summary = "argument of GRPO and RLOO"},
    {.path = "model_init_kwargs", .type = any, .summary = "arguments of from_pretrained"},
    {.path = "env", .type = any, .summary = "environment variables that TRL sets before it reads the arguments"},
};

// Keys that programs built on TRL add to its arguments: alignment-handbook and open-r1.
constexpr std::string_view inert_keys =
    "benchmarks callbacks chat_template code_language dataset_configs dataset_mixer dataset_mixture dataset_mixture.* "
    "dataset_prompt_column dataset_splits hub_model_revision overwrite_hub_revision preprocessing_num_workers "
    "push_to_hub_revision system_prompt text_column use_flash_attention_2 wandb_entity wandb_project wandb_run_group";

/// Returns the default of a key of TrainingArguments that TRL's configs change.
std::optional<std::string_view> changed_default(const ImportContext& context, std::string_view path) {
    if (path == "bf16" && context.since("trl", "0.19")) return context.flag("fp16") ? "false" : "true";
    if (path == "gradient_checkpointing" && context.since("trl", "0.22")) return "true";
    return {};
}

/// Returns whether `dtype` is the name of the key that gives the dtype of the loaded model. Versions 0.23 to 0.26 know
/// both names.
bool knows_dtype(const ImportContext& context) { return context.since("0.23"); }
bool knows_torch_dtype(const ImportContext& context) { return !context.since("0.27"); }

struct Facts {
    std::string_view key;     ///< key that gives the dtype of the loaded model: "dtype" or "torch_dtype"
    bool is_default = false;  ///< neither of the two keys is set
    char loaded = 'F';        ///< format of the model after from_pretrained
    char autocast = 'F';      ///< format of autocast: H, B, or F if autocast is off
    std::string base;         ///< format of a quantised base model: nf4, fp4, int8; empty if it is not quantised
    bool has_adapter = false;
    char trained = 'F';          ///< format of the trained parameters, except those of modules_to_save
    char head = 'F';             ///< format of the head and of embeddings, which are not quantised
    bool saves_modules = false;  ///< lora_modules_to_save lists modules that are trained as a whole
    bool is_cast = false;        ///< DeepSpeed or FSDP with mixed precision decides the format of trained weights
};

/// Returns the format in which Transformers loads the model if TRL passes no dtype, or passes "auto".
char stored(const ImportContext& context) { return dtype_letter(context.checkpoint_dtype()); }

char loaded(const ImportContext& context, const Facts& facts) {
    const std::string dtype = facts.is_default && !knows_torch_dtype(context) ? "float32" : context.text(facts.key);
    if (dtype == "auto") return stored(context);
    if (const char letter = dtype_letter(dtype)) return letter;
    return context.since("transformers", "5") ? stored(context) : 'F';
}

/// Returns whether TRL prepares a quantised model for training with PEFT's prepare_model_for_kbit_training. SFT and
/// GRPO do so before 0.26, and DPO before 0.29.
bool prepares_quantised(const ImportContext& context) { return !context.since("0.26"); }

/// Returns the format of the trained parameters. Newer versions of TRL cast the adapters of a quantised model to bf16.
char trained(const ImportContext& context, const Facts& facts) {
    if (!facts.has_adapter) return facts.loaded;
    if (!facts.base.empty() && !prepares_quantised(context)) return 'B';
    return peft_adapter_format(context, {.format = facts.loaded, .quantised = facts.base});
}

/// Returns the format of the head and of embeddings. In a quantised model, the preparation widens them to fp32, and TRL
/// then casts them to bf16 if bf16 is on.
char head(const ImportContext& context, const Facts& facts) {
    if (facts.base.empty() || !prepares_quantised(context)) return facts.loaded;
    return context.flag("bf16") ? 'B' : 'F';
}

Facts facts_of(const ImportContext& context) {
    Facts facts;
    facts.key = context.has("torch_dtype") && !(context.has("dtype") && knows_dtype(context)) ? "torch_dtype" : "dtype";
    facts.is_default = !context.has(facts.key);
    facts.loaded = loaded(context, facts);
    // The Transformers importer has set the field `oplist`, which shows whether autocast is on.
    const std::string_view compute = context.resolved().word("compute");
    if (context.resolved().word("oplist") != "none" && !compute.empty()) facts.autocast = compute.front();
    if (context.flag("load_in_4bit")) facts.base = context.text("bnb_4bit_quant_type");
    if (context.flag("load_in_8bit")) facts.base = "int8";
    facts.has_adapter = context.flag("use_peft");
    facts.trained = trained(context, facts);
    facts.head = head(context, facts);
    facts.saves_modules = facts.has_adapter && hydra::is_set(context.root(), "lora_modules_to_save");
    const bool is_mixed = context.flag("bf16") || context.flag("fp16");
    facts.is_cast = is_mixed && (hydra::is_set(context.root(), "deepspeed") || hydra::is_set(context.root(), "fsdp"));
    return facts;
}

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

std::string title(const Context& context) { return fmt::format("TRL {}", to_string(context.version())); }

/// Returns the setting that loads the model in fp32, with the name that this version has for the key.
std::string load_fp32(const Context& context) {
    return knows_dtype(context) ? "dtype: float32" : "torch_dtype: float32";
}

/// Returns the settings that train without a loss scaler: in bf16, or without mixed precision on a device without bf16.
std::string_view without_scaler(const Context& context) {
    return context.device().bf16 ? "bf16: true with fp16: false" : "bf16: false with fp16: false";
}

/// Returns the index of the key that gives the dtype, in rows whose keys end with `dtype` and `torch_dtype`.
std::size_t dtype_key(const Facts& facts, std::size_t dtype) { return facts.key == "dtype" ? dtype : dtype + 1; }

/// Returns why the model is loaded in a format, as the beginning of a message.
std::string load_reason(const Context& context, const Facts& facts) {
    if (!facts.is_default)
        return fmt::format("`{}: {}` loads the model in {}", facts.key, context.text(facts.key),
                           format_word(facts.loaded));
    return fmt::format("`{}` is not set, so Transformers loads the {} checkpoint in its stored format", facts.key,
                       context.checkpoint_dtype());
}

/// Returns why adapters have their format.
std::string adapter_reason(const Context& context, const Facts& facts) {
    const bool is_by_trl = !facts.base.empty() && facts.trained == 'B';
    return is_by_trl ? fmt::format("{} casts the adapters of a quantised model to bf16", title(context))
                     : peft_adapter_reason(context, facts.trained);
}

/// Without AMP, only weights in a low-precision format make NaN likely. With AMP, the importer of Transformers reports
/// the filter.
Found nan_filter(const Context& context, const Facts& facts) {
    if (facts.loaded == 'F' || facts.autocast != 'F' || facts.is_cast || context.has(transformers::nan_filter_key))
        return {};
    return transformers::nan_filter_text();
}
Found torch_dtype_removed(const Context& context, const Facts&) {
    if (!context.has("torch_dtype") || knows_torch_dtype(context)) return {};
    return FindingText{
        fmt::format("{} refuses `torch_dtype` as an unknown argument: 0.27 removed it in favour of `dtype`",
                    title(context)),
        "rename the key to `dtype`"};
}
Found dtype_too_new(const Context& context, const Facts&) {
    if (!context.has("dtype") || knows_dtype(context)) return {};
    return FindingText{
        fmt::format("{} refuses `dtype` as an unknown argument: before 0.23 the key is `torch_dtype`", title(context)),
        "rename the key to `torch_dtype`"};
}
Found both_names(const Context& context, const Facts&) {
    if (!context.has("dtype") || !context.has("torch_dtype") || !knows_dtype(context) || !knows_torch_dtype(context))
        return {};
    return FindingText{"`dtype` and `torch_dtype` are two names of one setting: TRL ignores `torch_dtype`",
                       "only `dtype`"};
}
/// Returns the narrowest format of trained parameters.
char low_format(const Facts& facts) { return facts.trained == 'F' && facts.saves_modules ? facts.head : facts.trained; }
/// Returns whether TRL casts adapters to bf16, whatever the format in which the model is loaded.
bool casts_adapters(const Facts& facts) { return facts.has_adapter && facts.trained != 'F' && !facts.base.empty(); }

Found low_under_scaler(const Context& context, const Facts& facts) {
    const char low = low_format(facts);
    if (facts.autocast != 'H' || facts.is_cast || low == 'F') return {};
    const bool is_by_adapter = casts_adapters(facts);
    return FindingText{
        fmt::format("{}, and fp16 turns on the GradScaler, which cannot unscale {} gradients: {}",
                    is_by_adapter ? adapter_reason(context, facts) : load_reason(context, facts), format_word(low),
                    low == 'H' ? "\"Attempting to unscale FP16 gradients\"" : "\"not implemented for 'BFloat16'\""),
        is_by_adapter ? std::string(without_scaler(context)) : load_fp32(context),
        is_by_adapter ? 0 : dtype_key(facts, 1)};
}
Found no_master(const Context& context, const Facts& facts) {
    if (facts.loaded == 'F' || facts.is_cast || facts.autocast == 'H') return {};
    if (facts.has_adapter) {
        if (facts.trained == 'F' || !facts.base.empty()) return {};
        return FindingText{
            fmt::format("{}: without fp32 master weights small updates are lost", adapter_reason(context, facts)),
            fmt::format("peft 0.12 or newer, or {}", load_fp32(context)), dtype_key(facts, 0)};
    }
    return FindingText{
        fmt::format("{}: weights and gradients are {}, and without fp32 master weights small updates are lost",
                    load_reason(context, facts), format_word(facts.loaded)),
        load_fp32(context), dtype_key(facts, 0)};
}
Found modules_to_save(const Context&, const Facts& facts) {
    if (!facts.saves_modules || facts.is_cast) return {};
    const char format = low_format(facts);
    return FindingText{
        fmt::format("whole modules are trained in addition to the adapters, in {}{}", format_word(format),
                    format == 'F' ? ": their gradients and moments need more memory than the adapters"
                                  : ", without fp32 master weights: small updates are lost"),
        "remove the key, if these modules need no training"};
}
Found low_adapters(const Context& context, const Facts& facts) {
    if (!facts.has_adapter || facts.base.empty() || facts.trained == 'F' || facts.is_cast) return {};
    return FindingText{
        fmt::format(
            "adapters over a quantised model are trained in bf16, without fp32 master weights, by TRL's trainers "
            "for SFT and GRPO since 0.26{}",
            context.since("0.29") ? ", and by that for DPO since 0.29"
                                  : "; the trainer for DPO keeps them in fp32 before 0.29"),
        {}};
}
Found quantised_full(const Context& context, const Facts& facts) {
    if (facts.base.empty() || facts.has_adapter) return {};
    const bool has_scaler = facts.autocast == 'H' && !prepares_quantised(context);
    return FindingText{"a quantised model can be trained only with adapters: the Trainer raises an error",
                       has_scaler ? fmt::format("use_peft: true with {}", without_scaler(context)) : "use_peft: true",
                       2};
}
Found two_widths(const Context& context, const Facts&) {
    if (!context.flag("load_in_4bit") || !context.flag("load_in_8bit")) return {};
    return FindingText{"at most one of load_in_4bit and load_in_8bit can be true: ModelConfig raises an error",
                       "only one of the two"};
}
Found init_kwargs(const Context& context, const Facts& facts) {
    if (!context.has("model_init_kwargs.dtype") && !context.has("model_init_kwargs.torch_dtype")) return {};
    return FindingText{
        fmt::format(
            "the dtype in `model_init_kwargs` counts only in some versions of TRL's scripts: the import follows "
            "`{}`",
            facts.key),
        fmt::format("`{}`, without a dtype in `model_init_kwargs`", facts.key)};
}
Found env_precision(const Context& context, const Facts&) {
    constexpr std::string_view name = "ACCELERATE_MIXED_PRECISION";
    const files::ConfigValue* value = context.value("env.ACCELERATE_MIXED_PRECISION");
    if (value == nullptr || !context.environment(name).empty() || context.flag("bf16") || context.flag("fp16"))
        return {};
    return FindingText{fmt::format("{} selects autocast if neither bf16 nor fp16 is on, but the import does not read "
                                   "variables from `env`",
                                   name),
                       fmt::format("--env {}={}", name, value->written)};
}

const FindingRow<Facts> finding_rows[] = {
    {"torch-dtype-removed", error, {"torch_dtype"}, torch_dtype_removed},
    {"dtype-too-new", error, {"dtype"}, dtype_too_new},
    {"low-weights-under-scaler", error, {"fp16", "dtype", "torch_dtype"}, low_under_scaler},
    {"quantised-full", error, {"load_in_4bit", "load_in_8bit", "use_peft"}, quantised_full},
    {"load-in-both", error, {"load_in_8bit", "load_in_4bit"}, two_widths},
    {"no-master", warning, {"dtype", "torch_dtype"}, no_master},
    {"modules-to-save", warning, {"lora_modules_to_save"}, modules_to_save},
    {"low-adapters", warning, {"use_peft", "load_in_4bit", "load_in_8bit"}, low_adapters},
    {"init-kwargs-dtype", warning, {"model_init_kwargs"}, init_kwargs},
    {"env-precision", warning, {"env"}, env_precision},
    {"nan-filter", warning, {transformers::nan_filter_key}, nan_filter},
    {"two-dtypes", contradiction, {"torch_dtype", "dtype"}, both_names},
};

/// Rules of the Transformers importer whose findings are removed here. That importer does not know how TRL loads the
/// model.
constexpr std::string_view replaced_rules[] = {"transformers/no-master", "transformers/low-weights-under-scaler"};

/// Rules of the Transformers importer that advise fp16 on a GPU without bf16.
constexpr std::string_view fp16_rules[] = {"transformers/bf16-unsupported", "transformers/bf16-emulated"};

/// Writes the advice of these rules again, because the Transformers importer does not know how TRL loads the model.
/// GradScaler refuses trained weights in other formats than fp32.
void correct_fp16_advice(ImportContext& context, const Facts& facts) {
    transformers::Facts wide = transformers::facts(context);
    if (facts.is_cast || !wide.bf16 || context.device().kind == DeviceProfile::Kind::cpu) return;
    wide.loaded = 'F';
    std::string advice = casts_adapters(facts) ? std::string() : transformers::without_bf16(context, wide);
    if (!advice.empty() && low_format(facts) != 'F') advice += fmt::format(" with {}", load_fp32(context));
    for (Finding& finding : context.findings()) {
        if (std::find(std::begin(fp16_rules), std::end(fp16_rules), finding.rule) != std::end(fp16_rules))
            finding.instead = advice;
    }
}

void set_weights(ImportContext& context, const Facts& facts) {
    const bool is_quantised = !facts.base.empty();
    if (is_quantised)
        context.set("store", word_field(facts.base), context.flag("load_in_8bit") ? "load_in_8bit" : "load_in_4bit");
    if (facts.is_cast) return;
    const bool is_by_transformers = facts.is_default && knows_torch_dtype(context);
    const std::string why = is_by_transformers
                                ? fmt::format("default of transformers {}", to_string(context.version("transformers")))
                                : context.from(facts.key);
    if (!is_quantised && is_by_transformers) context.infer("store", letter(facts.loaded), why);
    if (!is_quantised && !is_by_transformers) context.set("store", letter(facts.loaded), facts.key);
    const bool widens_norms = is_quantised && prepares_quantised(context);
    context.infer("norm", letter(widens_norms ? 'F' : facts.loaded), why);
    for (const std::string_view field : {"embed", "lm_head"}) context.infer(field, letter(facts.head), why);
    context.infer("eval", letter(facts.loaded), why);
    const std::string trains = facts.has_adapter ? "only adapters are trained" : why;
    for (const std::string_view field : {"grad", "accum", "reduce"})
        context.infer(field, letter(facts.trained), trains);
    // The Transformers importer has set the format of moments that do not follow the weights.
    if (follows_weights(find_optimiser(context, "transformers", transformers::optimiser_name(context))))
        context.infer("opt_state", letter(facts.trained), trains);
    if (facts.autocast == 'F' && context.resolved().word("compute") != "T")
        context.infer("compute", letter(facts.loaded), why);
    if (context.flag("cast_lm_head_to_fp32")) {
        for (const std::string_view field : {"lm_head", "logits"})
            context.set(field, letter('F'), "cast_lm_head_to_fp32");
    }
}

void resolve(ImportContext& context) {
    context.delegate(transformers::framework, "");
    context.remove_findings(replaced_rules);
    const Facts found = facts_of(context);
    correct_fp16_advice(context, found);
    report_rows<Facts>(context, found, finding_rows);
    set_weights(context, found);
    if (found.has_adapter)
        context.infer("adapter", letter(found.trained), adapter_reason(context, found));
    else
        context.set("adapter", word_field("none"), "use_peft");
}

// Keys by which a recipe is recognised.
constexpr std::string_view own_keys =
    "dataset_mixer dataset_mixture dataset_name use_peft lora_target_modules lora_r lora_modules_to_save load_in_4bit "
    "load_in_8bit max_length max_prompt_length max_completion_length packing beta num_generations reward_funcs";

/// See Framework::recognises. A recipe names its model as LLaMA-Factory and the example scripts of Transformers do, so
/// it is recognised by further keys, and not if it has keys that only these two have.
int recognises(const files::ConfigValue& root) {
    if (root.entry("model_name_or_path") == nullptr) return 0;
    for (const std::string_view foreign :
         {"stage", "finetuning_type", "template", "cutoff_len", "dataset_dir", "lora_target", "quantization_bit",
          "ds_cfg", "base_model", "use_slow_tokenizer", "block_size", "dataset_config_name",
          "validation_split_percentage", "train_file", "overwrite_cache", "distributed_type"}) {
        if (root.entry(foreign) != nullptr) return 0;
    }
    for (const std::string_view foreign : listed_names(transformers::seq2seq_key_names)) {
        if (root.entry(foreign) != nullptr) return 0;
    }
    const auto own =
        std::count_if(root.entries.begin(), root.entries.end(), [](const files::ConfigValue::Entry& entry) {
            return fmt::format(" {} ", own_keys).find(fmt::format(" {} ", entry.key)) != std::string::npos;
        });
    return own == 0 ? 0 : std::min(50 + 10 * static_cast<int>(own), 95);
}

}  // namespace

extern const Framework framework{
    .name = "trl",
    .title = "TRL",
    .newest = "1.16.0",
    .oldest = "0.12.0",
    .keys = rows,
    .inert_keys = inert_keys,
    .shares_root_with = "transformers",
    .changed_default = changed_default,
    .file_keys = {{"deepspeed", "deepspeed"}},
    .model_keys = "model_name_or_path",
    .dtype_keys = "dtype torch_dtype",
    .marks =
        "@trl* model_name_or_path+!#command+!stage+!finetuning_type+!template+!cutoff_len+!dataset_dir+!ds_cfg+"
        "!per_gpu_train_batch_size+!quantization_bit+!pure_bf16+!base_model+!predict_with_generate+"
        "!generation_num_beams+!generation_max_length+!generation_config+!sortish_sampler",
    .recognises = recognises,
    // TrlParser raises an error on keys that are fields of no data class of the program.
    .refuses_unknown = [](const ImportContext&, std::string_view) { return true; },
    .unknown_remedy = "remove it, unless the program adds it to the arguments of TRL",
    .resolve = resolve};

}  // namespace macheps::configs::trl
