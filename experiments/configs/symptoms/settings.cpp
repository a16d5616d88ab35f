// SPDX-License-Identifier: Apache-2.0
// Symptoms in the words of users: settings that have no effect, or another effect than expected, and refused configs.
#include "experiments/configs/symptoms/symptoms.hpp"

namespace macheps::configs {

namespace {

constexpr SymptomRow setting_symptom_rows[] = {
    {.id = "precision-ignored",
     .title = "the precision in the config is ignored",
     .text_rows = {"fp16 is ignored", "bf16 is ignored", "bf16 false is ignored", "wrong dtype is used",
                   "model is loaded in the wrong dtype", "mixed precision is not used", "training runs in fp32",
                   "bf16-true is mixed precision", "bf16-true keeps fp32 weights"},
     .cause_rows =
         {{.text = "two settings name different formats, and one of them wins",
           .rules = "axolotl/float32-ignored axolotl/float16-ignored axolotl/bf16-and-fp16 axolotl/fp16-beside-auto "
                    "axolotl/fp16-and-bfloat16 axolotl/bfloat16-is-amp axolotl/bf16-unused axolotl/bf16-full-is-eval "
                    "accelerate/old-fp16 accelerate/deepspeed-decides longspec/load-dtype longspec/eval-dtype "
                    "longspec/fp16-is-evaluation torch/two-ways deepspeed/autocast-over-model megatron/fp16-and-bf16 "
                    "megatron/bf16-reduction-wins composer/two-formats kohya/full-fp16-and-bf16 trl/two-dtypes "
                    "lightning/deepspeed-sections"},
          {.text = "an environment variable of the launcher decides",
           .rules = "transformers/environment trl/env-precision"},
          {.text = "the engine or the script does not read the key",
           .rules = "verl/dtype-unread verl/param-dtype-ignored gpt-neox/fp16-type-unread trl/init-kwargs-dtype "
                    "kohya/full-bf16-scripts "
                    "torchtitan/no-mixed-precision */unknown-precision-key"},
          {.text = "a value in quotes or the word \"auto\" counts as true",
           .rules = "deepspeed/auto-is-true deepspeed/auto */quoted-boolean accelerate/bare-no axolotl/bf16-word "
                    "axolotl/bf16-full axolotl/tf32-word"},
          {.text = "the program does not use autocast on this device",
           .rules = "nanogpt/dtype-without-autocast nanogpt/no-gpu transformers/fp16-on-cpu accelerate/fp16-on-cpu "
                    "lightning/fp16-on-cpu",
           .faults = "acc-mps-no-amp"},
          {.text = "a word has another meaning than expected", .rules = "lightning/old-word"},
          {.text = "this release has another default",
           .faults = "tf-loads-stored-dtype tf-from-config-dtype trl-bf16-default trl-dtype-left-open "
                     "pl-fsdp-true-keeps-fp32"}},
     .remedy_rows = {"import the config: the field `compute` names the place that decides"},
     .command = "policy import CONFIG"},
    {.id = "setting-ignored",
     .title = "a setting has no effect",
     .text_rows = {"setting has no effect", "option has no effect", "key is ignored", "setting is ignored",
                   "config is ignored"},
     .cause_rows =
         {{.text = "the framework does not know the key, or knows it only in another version",
           .rules = "*/unknown-key */key-of-other-version accelerate/questionnaire-key"},
          {.text = "another setting turns the key off",
           .rules = "deepspeed/hysteresis-unread deepspeed/scaler-keys-unread accelerate/downcast-unread "
                    "deepspeed/overflow-check-unread transformers/load-in-both transformers/two-dtypes "
                    "llamafactory/pure-bf16-adapters "
                    "accelerate/fp8-unread accelerate/te-section-unread transformers/opt-level-unread "
                    "transformers/fsdp-config-unread llamafactory/infer-dtype-unread longspec/optimizer-keys-unread "
                    "longspec/clip-unread megatron/reduction-without-bf16 "
                    "torch/tf32-absent torch/hook-of-ddp axolotl/norm-classes-alone axolotl/bits-ignored "
                    "axolotl/adapter-keys-alone accelerate/section-unread composer/mixed-precision-unread "
                    "kohya/fp8-base-unread"},
          {.text = "the key affects no format, rounding or scale", .rules = "*/inert-key"}},
     .remedy_rows = {"import the config: findings U and I name such keys"},
     .command = "policy import CONFIG"},
    {.id = "config-refused",
     .title = "the framework refuses the config",
     .text_rows = {"config is refused", "training does not start", "validation error in the config",
                   "input should be a valid boolean", "value is not a valid boolean"},
     .cause_rows =
         {{.text = "a value has the wrong type, or is not one of the allowed words",
           .rules = "*/wrong-type */no-such-choice */no-such-dtype */text-number */quoted-boolean axolotl/bf16-word "
                    "axolotl/tf32-word axolotl/bf16-full transformers/unreadable-map apex/bad-loss-scale "
                    "deepspeed/accumulation-dtype megatron/fp8-history composer/mixed-precision-word "
                    "verl/no-such-precision megatron/optimizer-dtype-refused"},
          {.text = "the release does not have the optimiser, the converter or the format",
           .rules = "*/unknown-optimiser */optimiser-raises deepspeed/optimizer-removed torchtitan/converter-name "
                    "torchtitan/unknown-converter torchtune/fp16-refused gpt-neox/fp8-attention"},
          {.text = "the device does not have the format",
           .rules = "*/fp8-unsupported */bf16-unsupported torchtitan/float8-unsupported torchtitan/mx-unsupported "
                    "composer/cpu-precision lightning/fsdp-on-cpu"},
          {.text = "a key appears twice, or a file that the config names is missing",
           .rules = "*/repeated-key */missing-file */unreadable-file */circle-of-files"},
          {.text = "two settings exclude each other",
           .rules = "megatron/fp16-and-bf16 deepspeed/predivide-with-reduce-scatter transformers/deepspeed-and-fsdp "
                    "axolotl/fp16-and-bfloat16 deepspeed/lamb-static-scale apex/batchnorm-with-o1 apex/cast-with-o1 "
                    "apex/masters-with-o1 apex/patches-without-o1 torch/fsdp1-argument torch/fsdp2-argument "
                    "megatron/first-last-with-delayed transformers/fp16-cpu-amp composer/adaptive-clip-with-fsdp "
                    "deepspeed/parameter-dtype kohya/full-fp16-without-mixed kohya/full-bf16-without-mixed "
                    "kohya/fp8-base-without-mixed lightning/strategy-precision torchtitan/recipe-and-all-gather "
                    "torchtitan/recipe-and-recompute torchtune/accumulation-in-backward trl/load-in-both "
                    "lightning/quantised-and-mixed lightning/quantised-and-sharded lightning/int8-format"},
          {.text = "the framework cannot clip gradients in this way",
           .rules = "lightning/deepspeed-clip-by-value lightning/fsdp-clip-by-norm lightning/fused-clip "
                    "lightning/finetune-clip torchtune/clip-in-backward"}},
     .remedy_rows = {"import the config: errors come first"},
     .command = "policy import CONFIG"},
    {.id = "fp16-support",
     .title = "whether a program trains in fp16 with a loss scaler",
     .text_rows = {"does not support fp16", "fp16 is not supported", "need GradScaler for fp16",
                   "GradScaler with FSDP2 and fp16", "is a loss scaler used"},
     .cause_rows = {{.text = "the program has no loss scaler, and refuses fp16 or trains without one",
                     .rules = "torchtune/fp16-refused */fp16-without-scaler"}},
     .remedy_rows = {"import the config: the field `scaler` names the loss scaler, or `none`", "train in bf16"},
     .command = "policy import CONFIG"},
    {.id = "model-vocabulary",
     .title = "the products of the output layer are slow or left out",
     .text_rows = {"vocabulary size is not divisible", "output layer is slow", "vocabulary is not a multiple of 8"},
     .cause_rows = {{.text = "the size of the vocabulary is not a multiple that the matrix units need",
                     .rules = "deepspeed/vocabulary",
                     .diagnoses = "layers-left-out"}},
     .remedy_rows = {"pad the vocabulary to a multiple of 64"},
     .command = "policy import CONFIG"},
    {.id = "quantised-base",
     .title = "the base model is stored in 4 or 8 bits",
     .text_rows = {"base model is quantized", "qlora is worse than lora", "quantized training is worse",
                   "load_in_4bit has no effect"},
     .cause_rows = {{.text = "the base is rounded to 4 or 8 bits, and products use another format",
                     .rules =
                         "axolotl/quantised-base llamafactory/compute-dtype-alone llamafactory/quantised-checkpoint "
                         "llamafactory/recommend-upcast-layernorm deepspeed/compression"},
                    {.text = "the flag is ignored for this adapter", .rules = "axolotl/bits-ignored"}},
     .remedy_rows = {"set bnb_4bit_compute_dtype: bfloat16"},
     .command = "policy import CONFIG"},
    {.id = "apex-removed",
     .title = "apex.amp does not exist any more",
     .text_rows = {"apex has no attribute amp", "module 'apex' has no attribute 'amp'", "apex amp was removed"},
     .cause_rows = {{.text = "Apex removed amp", .rules = "apex/removed"}},
     .remedy_rows = {"use torch.amp.autocast and torch.amp.GradScaler"},
     .command = "policy import CONFIG"},
};

}  // namespace

std::span<const SymptomRow> setting_symptoms() { return setting_symptom_rows; }

}  // namespace macheps::configs
