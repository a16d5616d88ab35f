// SPDX-License-Identifier: Apache-2.0
// Keys of a LLaMA-Factory YAML that affect numerical results. The YAML may also contain the keys of Transformers. All
// other keys are in keys/llamafactory.txt. Sources: llamafactory/hparams of 0.9.3 to 0.9.5.
#include "experiments/configs/llamafactory/llamafactory.hpp"

namespace macheps::configs::llamafactory {

namespace {

using enum KeyType;

const KeyRow key_rows[] = {
    {.path = "stage", .type = choice, .defaults = {{"", "sft"}}, .choices = "pt sft rm ppo dpo kto"},
    {.path = "finetuning_type", .type = text, .defaults = {{"", "lora"}}, .sets = "store adapter opt_state"},
    {.path = "pure_bf16", .type = flag, .defaults = {{"", "false"}}, .sets = "store compute grad opt_state"},
    {.path = "use_galore", .type = flag, .defaults = {{"", "false"}}, .sets = "opt_state"},
    {.path = "galore_layerwise", .type = flag, .defaults = {{"", "false"}}},
    {.path = "galore_rank", .type = count, .defaults = {{"", "16"}}, .sets = "opt_state"},
    {.path = "use_apollo", .type = flag, .defaults = {{"", "false"}}, .sets = "opt_state"},
    {.path = "apollo_layerwise", .type = flag, .defaults = {{"", "false"}}},
    {.path = "use_badam", .type = flag, .defaults = {{"", "false"}}, .sets = "store opt_state"},
    {.path = "use_adam_mini", .type = flag, .defaults = {{"", "false"}}, .sets = "opt_state"},
    {.path = "use_muon", .type = flag, .defaults = {{"", "false"}}, .sets = "opt_state"},
    {.path = "loraplus_lr_ratio", .type = number, .summary = "LoRA+: the rate of the matrices B, divided by that of A"},
    {.path = "badam_mode", .type = choice, .defaults = {{"", "layer"}}, .choices = "layer ratio"},
    {.path = "upcast_layernorm", .type = flag, .defaults = {{"", "false"}}, .sets = "norm"},
    {.path = "upcast_lmhead_output", .type = flag, .defaults = {{"", "false"}}, .sets = "logits"},
    {.path = "infer_dtype",
     .type = choice,
     .defaults = {{"", "auto"}},
     .choices = "auto float16 bfloat16 float32",
     .summary = "read when nothing is trained"},
    {.path = "additional_target", .type = text, .sets = "grad opt_state", .summary = "modules that are trained whole"},
    {.path = "flash_attn", .type = text, .defaults = {{"", "auto"}}},
    {.path = "disable_gradient_checkpointing", .type = flag, .defaults = {{"", "false"}}, .sets = "ckpt"},
    {.path = "use_reentrant_gc", .type = flag, .defaults = {{"", "true"}}},
    {.path = "quantization_bit", .type = count, .sets = "store"},
    {.path = "quantization_method",
     .type = text,
     .defaults = {{"", "bnb"}},
     .sets = "store",
     .summary = "bnb, hqq or eetq; older versions use numbers"},
    {.path = "quantization_type", .type = choice, .defaults = {{"", "nf4"}}, .choices = "fp4 nf4", .sets = "store"},
    {.path = "quantization_device_map", .type = text},
    {.path = "double_quantization", .type = flag, .defaults = {{"", "true"}}, .sets = "store"},
    {.path = "fp8", .type = flag, .defaults = {{"", "false"}}, .since = "0.9.4", .sets = "fp8"},
    {.path = "fp8_backend",
     .type = choice,
     .defaults = {{"", "auto"}},
     .choices = "auto torchao te msamp",
     .since = "0.9.4",
     .sets = "fp8"},
    {.path = "fp8_enable_fsdp_float8_all_gather",
     .type = flag,
     .defaults = {{"", "false"}},
     .since = "0.9.4",
     .sets = "fp8"},
    {.path = "pissa_init", .type = flag, .defaults = {{"", "false"}}},
    {.path = "resize_vocab", .type = flag, .defaults = {{"", "false"}}},
    {.path = "create_new_adapter", .type = flag, .defaults = {{"", "false"}}},
    {.path = "adapter_name_or_path", .type = text, .summary = "a name, or several names separated by commas"},
    {.path = "pref_loss", .type = text, .defaults = {{"", "sigmoid"}}},
    {.path = "do_train", .type = flag, .defaults = {{"", "false"}}},
};

}  // namespace

std::span<const KeyRow> keys() { return key_rows; }

}  // namespace macheps::configs::llamafactory
