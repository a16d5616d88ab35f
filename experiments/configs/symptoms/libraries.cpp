// SPDX-License-Identifier: Apache-2.0
// Messages of libraries with kernels, and of trainers with few rows.
#include "experiments/configs/symptoms/symptoms.hpp"

namespace macheps::configs {

namespace {

constexpr SymptomRow library_symptom_rows[] = {
    {.id = "flash-dtype",
     .title = "FlashAttention refuses fp32 inputs",
     .text_rows = {"FlashAttention only support fp16 and bf16 data type"},
     .source = "flash-attention csrc/flash_attn/flash_api.cpp (RuntimeError)",
     .cause_rows = {{.text =
                         "q, k and v are fp32: the weights are fp32 without autocast, or a normalisation returns fp32"},
                    {.text = "the config selects a kernel that the device or the format does not support",
                     .rules = "axolotl/attention-unsupported"}},
     .remedy_rows = {"set bf16: true", "set attn_implementation: sdpa"},
     .command = "policy import CONFIG"},
    {.id = "te-divisible",
     .title = "Transformer Engine refuses the sizes of a layer",
     .text_rows =
         {"FP8 execution requires the product of all dimensions except the last to be divisible by 8 and the last "
          "dimension to be divisible by 16"},
     .source = "transformer_engine/pytorch/utils.py",
     .cause_rows = {{.text = "batch times sequence length is not a multiple of 8, or a width is not a multiple of 16",
                     .diagnoses = "layers-left-out"}},
     .remedy_rows = {"pad the batch or the vocabulary"},
     .command = "policy advise --gpu h100 --goal pretrain"},
    {.id = "te-capability",
     .title = "Transformer Engine refuses fp8 on this GPU",
     .text_rows = {"Device compute capability 8.9 or higher required for FP8 execution.",
                   "Device compute capability 10.0 or higher required for MXFP8 execution."},
     .source = "transformer_engine/pytorch/quantization.py",
     .cause_rows = {{.text = "the GPU does not have the format",
                     .rules = "accelerate/fp8-capability accelerate/fp8-device-untested megatron/fp8-device "
                              "megatron/fp8-recipe-device"}},
     .remedy_rows = {"use bf16"},
     .command = "policy import CONFIG --gpu a100"},
    {.id = "bnb-compute",
     .title = "bitsandbytes computes products of a 4-bit base in fp32",
     .text_rows = {"Input type into Linear4bit is torch.float16, but bnb_4bit_compute_dtype=torch.float32 (default)."},
     .source = "bitsandbytes/nn/modules.py (a warning)",
     .cause_rows = {{.text = "bnb_4bit_compute_dtype is not set, so it is fp32"},
                    {.text = "neither fp16 nor bf16 is on, so the compute dtype applies only to quantised layers",
                     .rules = "llamafactory/compute-dtype-alone"}},
     .remedy_rows = {"set bnb_4bit_compute_dtype: bfloat16"},
     .command = "policy import CONFIG"},
    {.id = "bnb-cast",
     .title = "bitsandbytes casts the inputs of an 8-bit base to fp16",
     .text_rows = {"MatMul8bitLt: inputs will be cast from"},
     .source = "bitsandbytes/autograd/_functions.py (a warning)",
     .cause_rows =
         {{.text = "the base is 8-bit, and the inputs are bf16 or fp32; the products have the range of fp16 (65504)"}},
     .remedy_rows = {"use a 4-bit base"}},
    {.id = "tune-bf16-hardware",
     .title = "torchtune refuses bf16",
     .text_rows = {"bf16 precision was requested but not available on this hardware. Please use fp32 precision "
                   "instead."},
     .source = "torchtune/utils/precision.py 0.1.1 (RuntimeError)",
     .cause_rows = {{.text =
                         "torch has no NCCL, or one before 2.10, as on Windows: torchtune requires it for bf16 even "
                         "with one GPU"},
                    {.text = "the GPU is older than Ampere"},
                    {.text = "torch finds no GPU"}},
     .remedy_rows = {"run python -c \"import torch; print(torch.distributed.is_nccl_available())\"",
                     "install a torch with NCCL", "use fp32"}},
    {.id = "pl-fused-clip",
     .title = "Lightning refuses to clip the gradients of a fused optimiser",
     .text_rows = {"does not allow for gradient clipping because it performs unscaling of gradients internally.",
                   "HINT: Are you using a 'fused' optimizer?",
                   "Gradient clipping is not implemented for optimizers handling the unscaling."},
     .source = "lightning/pytorch/plugins/precision/amp.py and lightning/fabric/plugins/precision/amp.py",
     .cause_rows = {{.text =
                         "the optimiser is fused, and gradients are clipped in mixed precision; the Trainer refuses "
                         "this with bf16, too",
                     .rules = "lightning/fused-clip"}},
     .remedy_rows = {"pass fused=False to the optimiser", "use bf16-true or no clipping"},
     .command = "policy import CONFIG"},
    {.id = "composer-precision",
     .title = "Composer does not know the name of the precision",
     .text_rows = {"Value bf16 not found in Precision", "Value fp16 not found in Precision"},
     .source = "composer/utils/string_enum.py (ValueError)",
     .cause_rows = {{.text = "the names are fp32, amp_fp16, amp_bf16 and amp_fp8"}},
     .remedy_rows = {"use amp_bf16 or amp_fp16"}},
    {.id = "kohya-latents",
     .title = "the VAE of sd-scripts returns NaN",
     .text_rows = {"NaN detected in latents"},
     .source = "sd-scripts library/train_util.py (RuntimeError)",
     .cause_rows = {{.text = "the VAE of SDXL overflows in fp16",
                     .rules = "kohya/half-vae",
                     .diagnoses = "activation-overflow"}},
     .remedy_rows = {"use --no_half_vae, or a VAE that was adapted to fp16"},
     .command = "policy import CONFIG"},
    {.id = "unsloth-bf16",
     .title = "Unsloth replaces bf16 with fp16",
     .text_rows = {"Device does not support bfloat16. Will change to float16."},
     .source = "unsloth/models/loader.py (a warning)",
     .cause_rows = {{.text = "the GPU is older than Ampere, and weights that were trained in bf16 may overflow in fp16",
                     .diagnoses = "activation-overflow"}},
     .remedy_rows = {"check that the first loss is finite", "run the forward pass in fp32 if it overflows"},
     .command = "policy advise --gpu t4 --goal finetune"},
    {.id = "verl-grad",
     .title = "verl leaves out a step",
     .text_rows = {"grad_norm is not finite"},
     .source = "verl/workers/actor/dp_actor.py",
     .cause_rows = {{.text = "the gradient norm is NaN or infinite, so the gradients are set to zero without a step",
                     .rules = "verl/skips-nonfinite",
                     .diagnoses = "nonfinite-update nan-in-gradient"}},
     .remedy_rows = {"count such steps", "find the first NaN"},
     .command = "report RUN --diagnose"},
    {.id = "trl-unknown-arguments",
     .title = "TRL refuses a key of the config file",
     .text_rows = {"Unknown arguments from config file: ['torch_dtype']"},
     .source = "trl/scripts/utils.py (ValueError)",
     .cause_rows = {{.text = "TRL knows the key under another name: `dtype` since 0.23, and only so since 0.27",
                     .rules = "trl/torch-dtype-removed trl/dtype-too-new",
                     .faults = "trl-torch-dtype-refused"},
                    {.text = "the key is misspelt", .rules = "*/unknown-key"}},
     .remedy_rows = {"write dtype instead of torch_dtype with TRL 0.27 or newer"},
     .command = "policy import CONFIG"},
};

}  // namespace

std::span<const SymptomRow> library_symptoms() { return library_symptom_rows; }

}  // namespace macheps::configs
