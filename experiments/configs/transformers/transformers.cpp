// SPDX-License-Identifier: Apache-2.0
// Importer of TrainingArguments of Transformers. It covers autocast, the loss scaler, and the settings that
// Transformers passes on to DeepSpeed and FSDP. Sources: training_args.py (__post_init__, _validate_args) and
// trainer.py of 4.38.0 to 5.24.0.
#include "experiments/configs/transformers/transformers.hpp"
#include "experiments/configs/accelerate/fsdp.hpp"
#include "experiments/configs/apex/apex.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs::transformers {

namespace {

constexpr char letter_of(std::string_view dtype) { return dtype == "bf16" ? 'B' : dtype == "fp16" ? 'H' : 'F'; }

bool is_set(const ImportContext& context, std::string_view path) {
    const files::ConfigValue* value = context.value(path);
    if (value == nullptr || value->is_null()) return false;
    if (value->is_boolean()) return value->boolean;
    if (value->is_list()) return !value->items.empty();
    if (value->is_map()) return !value->entries.empty();
    return !value->written.empty();
}

int fsdp_version(const ImportContext& context) {
    for (std::string_view key : {"fsdp_config.version", "fsdp_config.fsdp_version"}) {
        if (context.value(key)) return context.number(key).value_or(1) == 2 ? 2 : 1;
    }
    return context.since("transformers", "5.10.1") ? 2 : 1;
}

/// Reads the key with which a script sets the format of the loaded weights. If both keys are set, `dtype` applies, as
/// in from_pretrained. A framework that passes its own root on to Transformers reads these keys itself.
void read_load_dtype(const ImportContext& context, Facts& facts) {
    if (context.root_is_shared()) return;
    for (const std::string_view key : {"torch_dtype", "dtype"}) {
        if (!context.has(key)) continue;
        facts.load_key = key;
        const char letter = context.text(key) == "auto" ? letter_of(context.checkpoint_dtype()) : context.dtype(key);
        if (letter != 0) facts.loaded = letter;
    }
}

}  // namespace

std::string optimiser_name(const ImportContext& context) {
    if (context.flag("adafactor")) return "adafactor";
    if (context.has("optim")) return context.text("optim");
    // The fused kernel is the default only from torch 2.8 on.
    if (!context.since("torch", "2.8")) return "adamw_torch";
    return std::string(default_of(framework, "optim", context.version("transformers")).value_or("adamw_torch"));
}

Facts facts(const ImportContext& context) {
    Facts facts;
    facts.fp16 = context.flag("fp16");
    facts.bf16 = context.flag("bf16");
    char low = facts.fp16 ? 'H' : facts.bf16 ? 'B' : 'F';
    if (low == 'F') {
        low = letter_of(context.environment("ACCELERATE_MIXED_PRECISION"));
        facts.from_environment = low != 'F';
    }
    facts.apex = facts.fp16 && !context.since("transformers", "5") &&
                 (context.text("half_precision_backend") == "apex" || context.text("fp16_backend") == "apex");
    facts.says_cpu = context.flag("use_cpu") || context.flag("no_cuda");
    const DeviceProfile& device = context.device();
    facts.on_cpu = facts.says_cpu || device.kind == DeviceProfile::Kind::cpu;
    facts.has_tf32 = !facts.says_cpu && device.kind == DeviceProfile::Kind::cuda && device.capability() >= 80;
    facts.compiles = context.flag("torch_compile") || is_set(context, "torch_compile_backend") ||
                     is_set(context, "torch_compile_mode") || is_set(context, "torchdynamo");
    facts.optimiser = find_optimiser(context, "transformers", optimiser_name(context));
    facts.fused = facts.optimiser != nullptr && facts.optimiser->name == "adamw_torch_fused";
    facts.deepspeed = is_set(context, "deepspeed");
    facts.fsdp = is_set(context, "fsdp") && context.text("fsdp") != "false";
    facts.fsdp_version = fsdp_version(context);
    facts.autocast = facts.on_cpu && low == 'H' ? 'F' : low;  // Accelerate has no fp16 autocast on a CPU
    // The format of the loaded weights does not matter with DeepSpeed, which casts the model. With FSDP and mixed
    // precision it does not matter either, because Accelerate widens the shards to fp32.
    const bool is_widened = facts.fsdp && facts.autocast != 'F';
    facts.loads_stored = context.since("transformers", "5");
    if (facts.deepspeed || is_widened) return facts;
    if (facts.loads_stored) facts.loaded = letter_of(context.checkpoint_dtype());
    read_load_dtype(context, facts);
    return facts;
}

namespace {

std::string_view switch_of(const Facts& facts) { return facts.bf16 && !facts.fp16 ? "bf16" : "fp16"; }

void set_plain(ImportContext& context, const Facts& facts) {
    const std::string_view from = switch_of(facts);
    if (facts.autocast != 'F')
        set_storage(context, facts.loaded == 'F' ? storage::amp : storage::low_amp, facts.autocast, from);
    else
        set_storage(context, facts.loaded == 'F' ? storage::fp32 : storage::pure, facts.loaded, from);
    if (facts.loaded != 'F') {
        const std::string why =
            facts.load_key.empty() ? fmt::format("the {} checkpoint: transformers {} loads weights as they are stored",
                                                 context.checkpoint_dtype(), to_string(context.version("transformers")))
                                   : context.from(facts.load_key);
        for (std::string_view field :
             {"store", "grad", "accum", "reduce", "opt_state", "norm", "embed", "lm_head", "buffers", "eval"})
            context.infer(field, letter(field == "buffers" ? 'F' : facts.loaded), why);
        if (facts.autocast == 'F') context.infer("compute", letter(facts.loaded), why);
    }
    const bool has_scaler = facts.autocast == 'H';
    context.set("scaler", has_scaler ? torch_scaler_field({}) : no_scaler_field(), from);
    if (facts.from_environment)
        context.infer("compute", letter(facts.autocast), "environment ACCELERATE_MIXED_PRECISION");
}

void set_apex(ImportContext& context) {
    const std::string level = context.text("fp16_opt_level");
    set_storage(context, apex::recipe(level), 'H', "fp16_opt_level");
    const bool is_scaled = level != "O0" && level != "O3";
    context.set("scaler", is_scaled ? apex::dynamic_scaler(0, 0x1p24) : no_scaler_field(), "fp16_opt_level");
}

/// Sets `compute` to tf32 if tf32 is on. The tf32 flag applies to the whole process, so all fp32 matmuls become tf32
/// matmuls.
void set_tf32(ImportContext& context, const Facts& facts) {
    if (context.resolved().word("compute") != "F" || !facts.has_tf32) return;
    const std::optional<bool> said = context.maybe_flag("tf32");
    if (said ? *said : false)
        context.set("compute", letter('T'), "tf32");
    else if (!said && facts.compiles && !facts.fp16)
        context.set("compute", letter('T'), "torch_compile");
}

void set_update(ImportContext& context, const Facts& facts) {
    if (facts.optimiser != nullptr)
        set_optimiser(context, *facts.optimiser, context.flag("adafactor") ? "adafactor" : "optim");
    const bool is_fsdp1 = facts.fsdp && facts.fsdp_version == 1;
    context.set("clip", clip_field(is_fsdp1 ? "fsdp1" : "torch", context.number("max_grad_norm").value_or(0)),
                "max_grad_norm");
}

void set_evaluation(ImportContext& context) {
    const bool fp16 = context.flag("fp16_full_eval"), bf16 = context.flag("bf16_full_eval");
    if (fp16 == bf16) return;
    context.set("eval", letter(fp16 ? 'H' : 'B'), fp16 ? "fp16_full_eval" : "bf16_full_eval");
}

void resolve(ImportContext& context) {
    const Facts found = facts(context);
    report_findings(context, found);
    report_optimiser(context, "optim");
    if (found.fsdp && found.autocast != 'F') {
        const AccelerateFsdp fsdp{
            .low = found.autocast, .version = found.fsdp_version, .loaded = found.loads_stored ? '\0' : 'F'};
        set_accelerate_fsdp(context, fsdp, switch_of(found));
        report_accelerate_fsdp(context, fsdp, switch_of(found));
    } else if (found.apex) {
        set_apex(context);
    } else {
        set_plain(context, found);
        // set_plain() has chosen the operation list of autocast for the device profile. If `use_cpu` or `no_cuda` is
        // set, the CPU computes, so its list applies.
        if (found.says_cpu && found.autocast != 'F')
            context.infer("oplist", word_field("torch-cpu"), context.flag("use_cpu") ? "use_cpu" : "no_cuda");
    }
    set_tf32(context, found);
    set_update(context, found);
    set_evaluation(context);
    const std::string_view checkpointing =
        context.has("activation_checkpointing") ? "activation_checkpointing" : "gradient_checkpointing";
    context.set("ckpt", {.value = context.flag(checkpointing), .parts = {}}, checkpointing);
    context.infer("fp8", word_field("none"), "TrainingArguments has no fp8");
    if (const files::ConfigValue* section = context.value("deepspeed"); found.deepspeed && section && section->is_map())
        context.delegate(deepspeed::framework, "deepspeed");
    if (found.deepspeed) keep_under_deepspeed(context, found.optimiser, "optim");
    if (found.says_cpu) context.set("device", word_field("cpu"), context.flag("use_cpu") ? "use_cpu" : "no_cuda");
}

int recognises(const files::ConfigValue& root) {
    for (std::string_view key :
         {"compute_environment", "distributed_type", "base_model", "model_name_or_path", "finetuning_type", "stage",
          "ds_cfg", "zero_optimization", "do_sample", "dataset_dir", "micro_batch_size", "sequence_len",
          "pretrained_model_name_or_path", "clip_skip", "max_duration", "checkpoint_dir"}) {
        if (root.entry(key)) return 0;
    }
    int score = 0;
    for (std::string_view key :
         {"per_device_train_batch_size", "per_device_eval_batch_size", "output_dir", "num_train_epochs",
          "learning_rate", "optim", "max_grad_norm", "gradient_accumulation_steps", "fp16_full_eval", "bf16_full_eval",
          "half_precision_backend", "fp16_opt_level", "lr_scheduler_type", "logging_steps", "save_steps",
          "eval_strategy", "evaluation_strategy", "warmup_ratio", "max_steps"}) {
        if (root.entry(key)) score += 20;
    }
    for (std::string_view key : {"fp16", "bf16", "tf32"}) {
        const files::ConfigValue::Entry* entry = root.entry(key);
        if (entry && !entry->value.is_map()) score += 25;
    }
    return score > 80 ? 80 : score;
}

}  // namespace

extern const Framework framework{
    .name = "transformers",
    .title = "Transformers",
    .newest = "5.24.0",
    .oldest = "4.38",
    .keys = transformers::keys(),
    .inert_keys = script_key_names,
    .own_class_keys = seq2seq_key_names,
    .file_keys = {{"deepspeed", "deepspeed"}},
    .model_keys = "model_name_or_path",
    .dtype_keys = "torch_dtype dtype",
    .marks =
        "#command+per_device_train_batch_size #command+output_dir+fp16 #command+output_dir+bf16 "
        "#command+output_dir+learning_rate "
        "predict_with_generate+!stage+!finetuning_type+!template+!dataset_dir+!ds_cfg "
        "generation_num_beams+!stage+!finetuning_type+!template+!dataset_dir+!ds_cfg "
        "generation_max_length+!stage+!finetuning_type+!template+!dataset_dir+!ds_cfg "
        "generation_config+!stage+!finetuning_type+!template+!dataset_dir+!ds_cfg "
        "sortish_sampler+!stage+!finetuning_type+!template+!dataset_dir+!ds_cfg",
    .scripts_add_options = true,
    .recognises = transformers::recognises,
    // HfArgumentParser raises an error on keys that are not fields of the data class.
    .refuses_unknown = [](const ImportContext&, std::string_view) { return true; },
    .prepare = transformers::prepare,
    .resolve = transformers::resolve};

}  // namespace macheps::configs::transformers
