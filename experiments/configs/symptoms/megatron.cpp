// SPDX-License-Identifier: Apache-2.0
// Messages of Megatron-LM and of trainers that are derived from it.
#include "experiments/configs/symptoms/symptoms.hpp"

namespace macheps::configs {

namespace {

constexpr SymptomRow megatron_symptom_rows[] = {
    {.id = "megatron-nan",
     .title = "Megatron-LM finds a NaN before the reduction over the ranks",
     .text_rows = {"found NaN in local grad norm for bucket", "found NaN in local forward loss calculation"},
     .source = "megatron/core/distributed/param_and_grad_buffer.py",
     .cause_rows = {{.text = "the data or a kernel of the named rank produced the NaN", .diagnoses = "nan-in-loss"},
                    {.text = "an fp8 recipe with a short amax history overflowed",
                     .rules = "megatron/short-amax-history"}},
     .remedy_rows = {"look at the data of the named rank", "train without fp8 for some steps",
                     "do not disable the test (--no-check-for-nan-in-loss-and-grad), because the NaN remains"},
     .command = "report RUN --diagnose"},
    {.id = "megatron-cross-entropy",
     .title = "the fp16 cross entropy of Megatron-LM needs fp16",
     .text_rows = {"lm cross entropy in fp16 only support in fp16 mode."},
     .source = "megatron/training/arguments.py",
     .cause_rows = {{.text = "--fp16-lm-cross-entropy without --fp16", .rules = "megatron/cross-entropy-without-fp16"}},
     .remedy_rows = {"remove --fp16-lm-cross-entropy"},
     .command = "policy import CONFIG"},
    {.id = "megatron-residual",
     .title = "the fp32 residual connection of Megatron-LM needs fp16 or bf16",
     .text_rows = {"residual connection in fp32 only supported when using fp16 or bf16."},
     .source = "megatron/training/arguments.py",
     .cause_rows = {{.text = "--fp32-residual-connection without --fp16 and --bf16",
                     .rules = "megatron/residual-without-low-precision"}},
     .remedy_rows = {"remove --fp32-residual-connection: everything is fp32"},
     .command = "policy import CONFIG"},
    {.id = "megatron-main-gradients",
     .title = "Megatron-LM refuses narrow main gradients",
     .text_rows = {"--main-grads-dtype can only be fp32 when --accumulate-allreduce-grads-in-fp32 is set"},
     .source = "megatron/training/arguments.py",
     .cause_rows = {{.text = "the two flags disagree", .rules = "megatron/narrow-main-gradients"}},
     .remedy_rows = {"remove --main-grads-dtype"},
     .command = "policy import CONFIG"},
    {.id = "megatron-fp4-fp8",
     .title = "Megatron-LM refuses fp4 and fp8 together",
     .text_rows = {"--fp4-format and --fp8-format cannot be used simultaneously. Please choose one.",
                   "fp4 and fp8 cannot be used simultaneously. Please choose one."},
     .source = "megatron/training/arguments.py",
     .cause_rows = {{.text = "both flags are given", .rules = "megatron/fp8-and-fp4"}},
     .remedy_rows = {"remove one of them"},
     .command = "policy import CONFIG --gpu b200"},
    {.id = "megatron-optimizer-dtype",
     .title = "Megatron-LM refuses narrow states of the optimiser",
     .text_rows = {"can only be fp32 when not using precision-aware optimizer"},
     .source = "megatron/core/optimizer/optimizer_config.py (AssertionError)",
     .cause_rows = {{.text = "--main-grads-dtype, --main-params-dtype, --exp-avg-dtype or --exp-avg-sq-dtype without "
                             "--use-precision-aware-optimizer",
                     .rules = "megatron/optimizer-dtype-refused"}},
     .remedy_rows = {"add --use-precision-aware-optimizer", "remove the option"},
     .command = "policy import CONFIG"},
    {.id = "neox-overflow",
     .title = "GPT-NeoX ends the run after 50 skipped steps",
     .text_rows = {"Skipped 50 iterations in a row due to Overflow - Exiting training."},
     .source = "gpt-neox megatron/utils.py (OverflowMonitor)",
     .cause_rows = {{.text = "the forward pass or the data contain NaN, so every step overflows at every scale",
                     .diagnoses = "scale-at-floor nan-in-loss"},
                    {.text = "training diverged", .diagnoses = "divergence-after-spike"},
                    {.text = "gradients are not clipped, because the release leaves clipping out",
                     .rules = "gpt-neox/clipping-omitted"},
                    {.text = "the activations exceed 65504 in fp16", .diagnoses = "activation-overflow"}},
     .remedy_rows = {"train in bf16", "go back to a checkpoint before the loss rose, and lower the learning rate"},
     .command = "report RUN --diagnose"},
    {.id = "neox-conflict",
     .title = "the precision of GPT-NeoX contradicts a section of the config",
     .text_rows = {"DeepSpeed bf16 field was set but precision conflicts",
                   "DeepSpeed fp16 field was set but precision conflicts"},
     .source = "gpt-neox megatron/neox_arguments/arguments.py",
     .cause_rows = {{.text = "`precision` and the section fp16 or bf16 name different formats",
                     .rules = "gpt-neox/precision-conflict"},
                    {.text = "the section fp16 has no key `enabled`, or zero_optimization is missing with bf16",
                     .rules = "gpt-neox/fp16-without-enabled gpt-neox/bf16-without-zero"}},
     .remedy_rows = {"keep one of them"},
     .command = "policy import CONFIG"},
};

}  // namespace

std::span<const SymptomRow> megatron_symptoms() { return megatron_symptom_rows; }

}  // namespace macheps::configs
