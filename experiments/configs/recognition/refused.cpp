// SPDX-License-Identifier: Apache-2.0
// The marks were taken from published configs and launch scripts of each framework (2024 to 2026).
#include "experiments/configs/recognition/refused.hpp"

namespace macheps::configs {

namespace {

constexpr std::string_view for_programs =
    "give the config or the command line that starts it; `macheps policy advise` recommends formats for a device";

constexpr RefusedFramework rows[] = {
    {.name = "unsloth", .title = "Unsloth", .marks = "@unsloth @unsloth.*", .remedy = for_programs},
    {.name = "keras", .title = "Keras", .marks = "#program+@keras*", .remedy = for_programs},
    {.name = "python-program", .title = "a Python program", .marks = "#program", .remedy = for_programs},
    {.name = "diffusers",
     .title = "an example script of Diffusers",
     .marks = "pretrained_model_name_or_path+dataset_name+!network_module "
              "pretrained_model_name_or_path+caption_column+!network_module "
              "pretrained_model_name_or_path+instance_data_dir+!network_module "
              "pretrained_model_name_or_path+instance_prompt+!network_module "
              "pretrained_model_name_or_path+placeholder_token+!network_module "
              "pretrained_model_name_or_path+num_train_epochs+!network_module "
              "@train_text_to_image* @train_dreambooth* @train_unconditional.py @train_instruct_pix2pix*",
     .remedy = "give --mixed_precision to the script as well as to the launcher: the scripts for LoRA cast the frozen "
               "model by the launcher's value, and adapters by their own option"},
    {.name = "onetrainer",
     .title = "OneTrainer",
     .marks = "training_method+train_dtype train_dtype=FLOAT_*|BFLOAT_* weight_dtype=FLOAT_*|BFLOAT_*"},
    {.name = "maxtext", .title = "MaxText", .marks = "base_config weight_dtype+per_device_batch_size @MaxText*"},
    {.name = "nemo-rl",
     .title = "NeMo RL",
     .marks = "policy.megatron_cfg policy.dtensor_cfg policy.generation.vllm_cfg policy.model_name+policy.precision"},
    {.name = "megatron-bridge", .title = "Megatron Bridge", .marks = "mixed_precision=bf16_with_*|fp16_with_*"},
    {.name = "openrlhf",
     .title = "OpenRLHF",
     .marks = "@openrlhf.cli* ds.zero_stage ds.param_dtype #command+zero_stage+param_dtype"},
    {.name = "ms-swift",
     .title = "ms-swift",
     .marks = "@swift* #command+@megatron tuner_type train_type+tuner_backend"},
    {.name = "open-instruct",
     .title = "open-instruct",
     .marks = "@open_instruct* use_slow_tokenizer+with_tracking use_slow_tokenizer+checkpointing_steps"},
    {.name = "lingua", .title = "Lingua", .marks = "distributed.fsdp_type+distributed.model_dtype"},
    {.name = "llm.c", .title = "llm.c", .marks = "input_bin+input_val_bin @train_gpt2cu @train_gpt2.py"},
};

}  // namespace

std::span<const RefusedFramework> refused_frameworks() { return rows; }

}  // namespace macheps::configs
