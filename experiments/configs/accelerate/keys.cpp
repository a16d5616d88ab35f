// SPDX-License-Identifier: Apache-2.0
// Keys of Accelerate's config file that affect numerical results. Sources: accelerate/commands/config/config_args.py,
// commands/launch.py and utils/dataclasses.py of 0.30.1 to 1.15.0.
#include "experiments/configs/accelerate/accelerate.hpp"

namespace macheps::configs::accelerate {

namespace {

using enum KeyType;

const KeyRow key_rows[] = {
    {.path = "compute_environment", .type = text, .defaults = {{"", "LOCAL_MACHINE"}}},
    {.path = "distributed_type", .type = any, .summary = "NO, MULTI_GPU, FSDP, DEEPSPEED, ..."},
    {.path = "num_processes", .type = number},
    {.path = "mixed_precision", .type = any, .defaults = {{"", "no"}}, .sets = "compute oplist scaler fp8"},
    {.path = "fp16", .type = flag, .summary = "key of old files, read as mixed_precision: fp16"},
    {.path = "use_cpu", .type = flag, .defaults = {{"", "false"}}},
    {.path = "downcast_bf16", .type = any, .defaults = {{"", "no"}}, .summary = "on TPUs"},
    {.path = "fp8_config", .type = map, .since = "0.34"},
    {.path = "fp8_config.backend", .type = text, .since = "0.34", .sets = "fp8"},
    {.path = "fp8_config.fp8_format", .type = text, .defaults = {{"", "HYBRID"}}, .since = "0.34", .sets = "fp8"},
    {.path = "fp8_config.margin", .type = number, .defaults = {{"", "0"}}, .since = "0.34", .sets = "fp8"},
    {.path = "fp8_config.interval", .type = number, .defaults = {{"", "1"}}, .since = "0.34", .sets = "fp8"},
    {.path = "fp8_config.amax_history_len", .type = number, .defaults = {{"", "1024"}}, .since = "0.34", .sets = "fp8"},
    {.path = "fp8_config.amax_compute_algo",
     .type = text,
     .defaults = {{"", "most_recent"}},
     .since = "0.34",
     .sets = "fp8"},
    {.path = "fp8_config.override_linear_precision", .type = any, .since = "0.34", .sets = "fp8"},
    {.path = "fp8_config.use_mxfp8_block_scaling",
     .type = flag,
     .defaults = {{"", "false"}},
     .since = "1.11",
     .sets = "fp8"},
    {.path = "fp8_config.use_autocast_during_eval", .type = flag, .defaults = {{"", "false"}}, .since = "0.34"},
    {.path = "fp8_config.opt_level", .type = text, .defaults = {{"", "O2"}}, .since = "0.34"},
    // Before 1.13, the defaults of torchao apply to these two.
    {.path = "fp8_config.pad_inner_dim",
     .type = flag,
     .defaults = {{"", "false"}, {"1.13", "true"}},
     .since = "1.13",
     .sets = "fp8"},
    {.path = "fp8_config.enable_fsdp_float8_all_gather",
     .type = flag,
     .defaults = {{"", "false"}, {"1.13", "true"}},
     .since = "1.13",
     .sets = "fp8"},
    // The questionnaire of `accelerate config` writes these keys, but no recipe reads them.
    {.path = "fp8_config.amax_history_length", .type = any, .effect = KeyEffect::inert, .since = "0.34"},
    {.path = "fp8_config.amax_compute_algorithm", .type = any, .effect = KeyEffect::inert, .since = "0.34"},
    {.path = "fp8_config.optimization_level", .type = any, .effect = KeyEffect::inert, .since = "0.34"},
    {.path = "fsdp_config", .type = map},
    {.path = "fsdp_config.fsdp_version",
     .type = number,
     .defaults = {{"", "1"}},
     .since = "1.6",
     .sets = "reduce buffers scaler"},
    {.path = "fsdp_config.fsdp_cpu_ram_efficient_loading", .type = flag, .defaults = {{"", "true"}}},
    {.path = "fsdp_config.fsdp_sync_module_states", .type = flag, .defaults = {{"", "true"}}},
    {.path = "fsdp_config.fsdp_activation_checkpointing",
     .type = flag,
     .defaults = {{"", "false"}},
     .since = "0.31",
     .sets = "ckpt"},
    {.path = "deepspeed_config", .type = map},
    {.path = "deepspeed_config.deepspeed_config_file",
     .type = any,
     .summary = "the path of DeepSpeed's JSON file, or a map with its content"},
    {.path = "deepspeed_config.deepspeed_config_file.*", .type = any},
    {.path = "deepspeed_config.zero_stage", .type = number, .defaults = {{"", "2"}}, .sets = "scaler"},
    {.path = "deepspeed_config.gradient_clipping", .type = number, .defaults = {{"", "1.0"}}, .sets = "clip"},
    {.path = "deepspeed_config.gradient_accumulation_steps", .type = number},
    {.path = "deepspeed_config.offload_optimizer_device", .type = text, .defaults = {{"", "none"}}},
    {.path = "dynamo_config", .type = map},
    {.path = "dynamo_config.dynamo_backend", .type = any, .summary = "torch.compile"},
    {.path = "dynamo_backend", .type = any, .summary = "torch.compile, in old files"},
    {.path = "megatron_lm_config", .type = map},
    {.path = "megatron_lm_config.megatron_lm_gradient_clipping",
     .type = number,
     .defaults = {{"", "1.0"}},
     .sets = "clip"},
    // These are not keys of the file, but arguments that a program passes to Accelerator(kwargs_handlers=[...]). Users
    // of macheps can give them as overrides (`key=value`) on the command line.
    {.path = "kwargs_handlers", .type = map},
    {.path = "kwargs_handlers.GradScalerKwargs", .type = map},
    {.path = "kwargs_handlers.GradScalerKwargs.init_scale",
     .type = number,
     .defaults = {{"", "65536.0"}},
     .sets = "scaler"},
    {.path = "kwargs_handlers.GradScalerKwargs.growth_factor",
     .type = number,
     .defaults = {{"", "2.0"}},
     .sets = "scaler"},
    {.path = "kwargs_handlers.GradScalerKwargs.backoff_factor",
     .type = number,
     .defaults = {{"", "0.5"}},
     .sets = "scaler"},
    {.path = "kwargs_handlers.GradScalerKwargs.growth_interval",
     .type = number,
     .defaults = {{"", "2000"}},
     .sets = "scaler"},
    {.path = "kwargs_handlers.GradScalerKwargs.enabled", .type = flag, .defaults = {{"", "true"}}, .sets = "scaler"},
    {.path = "kwargs_handlers.DistributedDataParallelKwargs", .type = map},
    {.path = "kwargs_handlers.DistributedDataParallelKwargs.comm_hook",
     .type = choice,
     .defaults = {{"", "no"}},
     .choices = "no fp16 bf16 power_sgd batched_power_sgd",
     .sets = "reduce"},
    {.path = "kwargs_handlers.FP8RecipeKwargs", .type = any},
    {.path = "kwargs_handlers.AORecipeKwargs", .type = any},
    {.path = "kwargs_handlers.TERecipeKwargs", .type = any},
    {.path = "kwargs_handlers.MSAMPRecipeKwargs", .type = any},
};

}  // namespace

std::span<const KeyRow> keys() { return key_rows; }

int recognises(const files::ConfigValue& root) {
    for (std::string_view key : {"per_device_train_batch_size", "model_name_or_path", "base_model", "zero_optimization",
                                 "max_duration", "pretrained_model_name_or_path", "clip_skip"}) {
        if (root.entry(key)) return 0;
    }
    int score = root.entry("distributed_type") ? 70 : 0;
    for (std::string_view key :
         {"compute_environment", "mixed_precision", "num_processes", "num_machines", "machine_rank", "main_process_ip",
          "main_training_function", "downcast_bf16", "fsdp_config", "fp8_config", "deepspeed_config",
          "megatron_lm_config", "rdzv_backend", "same_network", "gpu_ids"}) {
        if (root.entry(key)) score += 25;
    }
    return score > 95 ? 95 : score;
}

}  // namespace macheps::configs::accelerate
