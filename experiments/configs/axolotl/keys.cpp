// SPDX-License-Identifier: Apache-2.0
// Keys of an Axolotl YAML that affect numerical results. All other keys are in keys/axolotl.txt. Sources:
// axolotl/utils/schemas of 0.17.0 to 0.19.0.
#include "experiments/configs/axolotl/axolotl.hpp"

namespace macheps::configs::axolotl {

namespace {

using enum KeyType;

const KeyRow key_rows[] = {
    {.path = "bf16",
     .type = any,
     .defaults = {{"", "auto"}},
     .sets = "compute store oplist",
     .summary = "true, false or auto"},
    {.path = "fp16", .type = flag, .sets = "compute store oplist scaler"},
    {.path = "bfloat16", .type = flag, .sets = "compute store", .summary = "documented as bf16 without autocast"},
    {.path = "float16", .type = flag, .sets = "store"},
    {.path = "float32", .type = flag, .summary = "not read"},
    {.path = "tf32", .type = any, .defaults = {{"", "auto"}}, .sets = "compute", .summary = "true, false or auto"},
    {.path = "fp8", .type = flag, .sets = "fp8 compute"},
    {.path = "fp8_enable_fsdp_float8_all_gather", .type = flag, .sets = "fp8"},
    {.path = "fp8_config", .type = map, .since = "0.19"},
    {.path = "fp8_config.recipe",
     .type = choice,
     .defaults = {{"", "tensorwise"}},
     .choices = "tensorwise rowwise rowwise_with_gw_hp",
     .since = "0.19",
     .sets = "fp8"},
    {.path = "torch_compile", .type = any, .summary = "true, false or auto"},
    {.path = "gradient_checkpointing", .type = any, .sets = "ckpt", .summary = "true, false, offload, offload_disk"},
    {.path = "embeddings_skip_upcast", .type = flag, .sets = "embed lm_head"},
    {.path = "fp32_norms", .type = flag, .sets = "norm"},
    {.path = "fp32_norm_classes", .type = list, .sets = "norm"},
    {.path = "peft_autocast_adapter_dtype", .type = flag, .defaults = {{"", "true"}}, .sets = "adapter"},
    {.path = "lora_modules_to_save",
     .type = list,
     .sets = "grad opt_state",
     .summary = "modules that are trained whole, in the format in which they are loaded"},
    {.path = "bnb_config_kwargs", .type = map, .sets = "store"},
    {.path = "bnb_config_kwargs.bnb_4bit_quant_type", .type = text, .defaults = {{"", "nf4"}}, .sets = "store"},
    {.path = "bnb_config_kwargs.*", .type = any},
    {.path = "load_in_4bit", .type = flag, .defaults = {{"", "false"}}, .sets = "store"},
    {.path = "load_in_8bit", .type = flag, .defaults = {{"", "false"}}, .sets = "store"},
    {.path = "gptq", .type = flag, .sets = "store"},
    {.path = "model_quantization_config",
     .type = text,
     .sets = "store",
     .summary = "Mxfp4Config, FineGrainedFP8Config"},
    {.path = "adapter", .type = text, .sets = "adapter grad opt_state"},
    {.path = "merge_lora", .type = flag, .summary = "nothing is trained"},
    {.path = "plugins", .type = list},
    {.path = "rl", .type = text, .summary = "dpo, ipo, kto, orpo and others"},
    {.path = "attn_implementation", .type = text, .sets = "norm embed"},
    {.path = "flash_attention", .type = flag, .sets = "norm embed"},
    {.path = "sdp_attention", .type = flag, .sets = "norm embed"},
    {.path = "xformers_attention", .type = flag, .sets = "norm embed"},
    {.path = "flex_attention", .type = flag, .sets = "norm embed"},
    {.path = "sage_attention", .type = flag, .sets = "norm embed"},
    {.path = "eager_attention", .type = flag},
    {.path = "gemma4_hybrid_attn_impl", .type = flag, .sets = "norm embed"},
    {.path = "flash_optimum", .type = flag, .summary = "BetterTransformer"},
    {.path = "cut_cross_entropy", .type = flag, .sets = "norm embed"},
    {.path = "dsv4_fp4_grouped_mode", .type = text, .since = "0.18.0"},
    {.path = "dsv4_fp8_nonexpert_mode", .type = text, .since = "0.18.0"},
    {.path = "gemma4_fp8_nonexpert", .type = flag, .since = "0.18.0"},
    {.path = "gemma4_nf4_nonexpert", .type = flag, .since = "0.18.0"},
    {.path = "nvfp4_merge_aware", .type = flag, .since = "0.18.0"},
    {.path = "quantize_moe_experts", .type = flag},
    {.path = "optimizer", .type = text, .defaults = {{"", "adamw_torch_fused"}}, .sets = "opt_kernel opt_state"},
    {.path = "optim_args", .type = any, .summary = "further arguments of the optimiser"},
    {.path = "optim_args.*", .type = any},
    {.path = "qat", .type = map, .summary = "training with fake quantisation"},
    {.path = "qat.*", .type = any},
    {.path = "max_grad_norm", .type = number, .defaults = {{"", "1.0"}}, .sets = "clip"},
    {.path = "gradient_accumulation_steps", .type = count},
    {.path = "sample_packing", .type = flag},
    {.path = "use_ray", .type = flag},
    {.path = "deepspeed", .type = any, .sets = "store master scaler"},
    {.path = "fsdp", .type = any, .sets = "store reduce"},
    {.path = "fsdp_version", .type = count, .sets = "store reduce norm"},
    {.path = "fsdp_config", .type = map, .sets = "reduce"},
    {.path = "fsdp_config.*", .type = any},
};

}  // namespace

std::span<const KeyRow> keys() { return key_rows; }

}  // namespace macheps::configs::axolotl
