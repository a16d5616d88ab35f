// SPDX-License-Identifier: Apache-2.0
// Keys of TrainingArguments that affect numerical results, and how they fill in the "auto" values of a DeepSpeed
// section. Sources: transformers/training_args.py and integrations/deepspeed.py of 4.38.0 to 5.24.0.
#include "core/error.hpp"
#include "experiments/configs/accelerate/deepspeed_section.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"
#include "experiments/configs/transformers/transformers.hpp"

#include <fmt/format.h>

namespace macheps::configs::transformers {

namespace {

using enum KeyType;

const KeyRow key_rows[] = {
    {.path = "fp16", .type = flag, .defaults = {{"", "false"}}, .sets = "compute oplist scaler"},
    {.path = "bf16", .type = flag, .defaults = {{"", "false"}}, .sets = "compute oplist"},
    {.path = "half_precision_backend",
     .type = choice,
     .defaults = {{"", "auto"}},
     .choices = "auto apex cpu_amp cuda_amp",
     .until = "5",
     .sets = "oplist"},
    {.path = "fp16_backend",
     .type = choice,
     .defaults = {{"", "auto"}},
     .choices = "auto apex cpu_amp cuda_amp",
     .until = "5",
     .sets = "oplist"},
    {.path = "fp16_opt_level",
     .type = choice,
     .defaults = {{"", "O1"}},
     .choices = "O0 O1 O2 O3",
     .until = "5",
     .sets = "compute oplist store master"},
    {.path = "fp16_full_eval", .type = flag, .defaults = {{"", "false"}}, .sets = "eval"},
    {.path = "bf16_full_eval", .type = flag, .defaults = {{"", "false"}}, .sets = "eval"},
    {.path = "tf32", .type = flag, .defaults = {{"", "unset"}}, .sets = "compute"},
    {.path = "optim",
     .type = text,
     .defaults = {{"", "adamw_torch"}, {"4.54", "adamw_torch_fused"}},
     .sets = "opt_kernel opt_state"},
    {.path = "optim_args", .type = text, .summary = "further arguments of the optimiser"},
    {.path = "adafactor", .type = flag, .defaults = {{"", "false"}}, .until = "5", .sets = "opt_kernel"},
    {.path = "max_grad_norm", .type = number, .defaults = {{"", "1.0"}}, .sets = "clip"},
    {.path = "gradient_accumulation_steps", .type = count, .defaults = {{"", "1"}}, .sets = "accum"},
    {.path = "activation_checkpointing",
     .type = flag,
     .since = "5.23",
     .sets = "ckpt",
     .summary = "the new name of gradient_checkpointing"},
    {.path = "gradient_checkpointing", .type = flag, .defaults = {{"", "false"}}, .sets = "ckpt"},
    {.path = "torch_compile", .type = flag, .defaults = {{"", "false"}}, .sets = "compute"},
    {.path = "torch_compile_backend", .type = text},
    {.path = "torch_compile_mode", .type = text},
    {.path = "torchdynamo", .type = text, .until = "5"},
    {.path = "logging_nan_inf_filter",
     .type = flag,
     .defaults = {{"", "true"}},
     .summary = "whether the log leaves out NaN and Inf losses"},
    {.path = "use_cpu", .type = flag, .defaults = {{"", "false"}}},
    {.path = "no_cuda", .type = flag, .defaults = {{"", "false"}}, .until = "5"},
    {.path = "deepspeed", .type = any, .summary = "a DeepSpeed config: the name of a file, or a map"},
    {.path = "fsdp", .type = any, .summary = "sharding options separated by spaces, or a list of them"},
    {.path = "fsdp_config", .type = any, .summary = "the name of a file, or a map"},
    {.path = "per_device_train_batch_size", .type = number, .defaults = {{"", "8"}}},
    {.path = "learning_rate", .type = number, .defaults = {{"", "5e-5"}}},
    {.path = "adam_beta1", .type = number, .defaults = {{"", "0.9"}}},
    {.path = "adam_beta2", .type = number, .defaults = {{"", "0.999"}}},
    {.path = "adam_epsilon", .type = number, .defaults = {{"", "1e-8"}}},
    {.path = "weight_decay", .type = number, .defaults = {{"", "0.0"}}},
    // Arguments of the scripts, which describe the model. TrainingArguments does not have them.
    {.path = "torch_dtype", .type = text, .sets = "store", .summary = "format in which the script loads the weights"},
    {.path = "dtype", .type = text, .sets = "store", .summary = "newer name of torch_dtype"},
    {.path = "load_in_4bit", .type = flag, .defaults = {{"", "false"}}, .sets = "store"},
    {.path = "load_in_8bit", .type = flag, .defaults = {{"", "false"}}, .sets = "store"},
};

}  // namespace

// Arguments of scripts that describe the model, its adapters and the data, and that affect no numerical result here.
// Sources: the examples of Transformers (run_clm.py, run_glue.py), FastChat, LLaVA and QLoRA.
constexpr std::string_view script_key_names =
    "model_name_or_path config_name tokenizer_name cache_dir model_revision token use_auth_token trust_remote_code "
    "low_cpu_mem_usage use_fast_tokenizer attn_implementation use_flash_attention_2 flash_attn model_max_length "
    "max_length max_seq_length dataset_name dataset_config_name train_file validation_file test_file data_path "
    "eval_data_path lazy_preprocess max_train_samples max_eval_samples max_predict_samples block_size streaming "
    "preprocessing_num_workers overwrite_cache task_name pad_to_max_length version use_lora lora_enable lora_r "
    "lora_alpha lora_dropout lora_bias lora_target_modules lora_weight_path freeze_backbone freeze_vision_tower "
    "freeze_llm tune_mm_mlp_adapter freeze_mm_mlp_adapter";

namespace {

// clang-format off
constexpr SharedArgument shared[] = {
    {"train_micro_batch_size_per_gpu", "per_device_train_batch_size"},
    {"gradient_accumulation_steps", "gradient_accumulation_steps"},
    {"gradient_clipping", "max_grad_norm"},
    {"optimizer.params.lr", "learning_rate"},
    {"optimizer.params.eps", "adam_epsilon"},
    {"optimizer.params.weight_decay", "weight_decay"},
    {"scheduler.params.warmup_max_lr", "learning_rate"},
    {"fp16.enabled", "fp16"},
    {"bf16.enabled", "bf16"},
    {"amp.enabled", "fp16"},
    {"amp.opt_level", "fp16_opt_level"},
};
// clang-format on

bool uses_apex(const ImportContext& context) {
    return !context.since("transformers", "5") &&
           (context.text("half_precision_backend") == "apex" || context.text("fp16_backend") == "apex");
}

/// Replaces a text value by a map. The text is the name of a file that contains the map or, as on a command line, the
/// map in JSON.
void follow(ImportContext& context, std::string_view key) {
    const files::ConfigValue* value = context.value(key);
    if (value == nullptr || !value->is_text() || value->written.empty()) return;
    const files::ConfigPlace place = value->place;
    const std::string text = value->written;
    if (text.front() != '{') {
        if (std::optional<files::ConfigValue> read = context.read_file(key, place, text))
            *context.root().find(key) = std::move(*read);
        return;
    }
    try {
        files::ConfigFile read = files::read_json_config(text, place.file);
        context.add_file(read);
        read.root.place = place;
        *context.root().find(key) = std::move(read.root);
    } catch (const Error& error) {
        context.report(FindingCode::error, "unreadable-map", {key},
                       fmt::format("the text is not valid JSON: {}", error.what()), "a map, or the path of a file");
    }
}

}  // namespace

std::span<const KeyRow> keys() { return key_rows; }
std::span<const SharedArgument> shared_arguments() { return shared; }

std::string argument_for(const ImportContext& context, const SharedArgument& one) {
    if (one.deepspeed == "fp16.enabled" || one.deepspeed == "amp.enabled") {
        const bool is_on = context.flag("fp16") || context.flag("fp16_full_eval");
        return is_on && uses_apex(context) == (one.deepspeed == "amp.enabled") ? "true" : "false";
    }
    if (one.deepspeed == "bf16.enabled")
        return context.flag("bf16") || context.flag("bf16_full_eval") ? "true" : "false";
    return context.text(one.argument);
}

void fill_micro_batches(ImportContext& context) {
    constexpr std::string_view key = "gradient_accumulation_steps";
    files::ConfigValue* section = context.root().find("deepspeed");
    // An empty section replaces a file that could not be read.
    if (section == nullptr || !section->is_map() || section->entries.empty()) return;
    if (section->entry(key) != nullptr || !context.has(key)) return;
    section->set(key, files::ConfigValue(*context.value(key)));
}

void prepare(ImportContext& context) {
    follow(context, "deepspeed");
    follow(context, "fsdp_config");
    for (const SharedArgument& one : shared) {
        files::ConfigValue* value = context.root().find(fmt::format("deepspeed.{}", one.deepspeed));
        if (value == nullptr || !value->is_text() || value->written != "auto") continue;
        const std::string filled = argument_for(context, one);
        if (!filled.empty()) *value = files::yaml_scalar(filled, value->place);
        if (const std::optional<double> number = files::written_number(*value); number && value->is_text()) {
            value->kind = files::ConfigValue::Kind::number;  // "5e-5" is a text in YAML, but a number for the arguments
            value->number = *number;
        }
    }
    fill_micro_batches(context);
    files::ConfigValue* section = context.root().find("deepspeed");
    if (section == nullptr || !section->is_map()) return;
    if (const Facts found = facts(context); !found.apex)
        add_precision_section(*section, found.fp16              ? "fp16"
                                        : found.autocast == 'F' ? "no"
                                                                : format_word(found.autocast));
}

}  // namespace macheps::configs::transformers
