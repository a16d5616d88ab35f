// SPDX-License-Identifier: Apache-2.0
// Faults of TRL. Its recipes hold arguments of the model, of the trainer and of Transformers side by side.
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/history/predicates.hpp"

namespace macheps::configs {

namespace faults_of_trl {

namespace {

using Context = ImportContext;

bool leaves_dtype_open(const Context& c) {
    return c.has("model_name_or_path") && !c.has("dtype") && !c.has("torch_dtype") && history::loads_stored_dtype(c) &&
           history::may_have_low_checkpoint(c);
}
bool has_undivided_loss(const Context& c) { return history::accumulates(c) && history::counts_labels(c); }

const FaultRow rows[] = {
    {.id = "trl-torch-dtype-refused",
     .package = "trl",
     .first_bad = "0.27.0",
     .newest_seen = "1.16",
     .is_change = true,
     .code = FindingCode::error,
     .trigger = "torch_dtype in a recipe",
     .keys = {"torch_dtype"},
     .holds = [](const Context& c) { return c.has("torch_dtype"); },
     .computes = "ValueError: Unknown arguments from config file. 0.23 to 0.26 also read `dtype`; older releases read "
                 "only `torch_dtype`",
     .consequence = "published recipes of 2024 and 2025 are refused",
     .remedy = "rename the key to `dtype`",
     .sentence = "TRL {v} refuses `torch_dtype`: the key is `dtype` since 0.27.0",
     .signature = "Unknown arguments from config file",
     .finding = "trl/torch-dtype-removed",
     .evidence = FaultEvidence::run,
     .seen = "TrlParser accepts it in 0.26.2 and raises in 0.27.2",
     .source = "trainer/model_config.py 0.26.2:184; PR #4000",
     .sample =
         "model_name_or_path: my/model\ndataset_name: d\noutput_dir: o\nmax_length: 1024\ntorch_dtype: bfloat16\n"},
    {.id = "trl-bf16-default",
     .package = "trl",
     .first_bad = "0.19.0",
     .newest_seen = "1.16",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "neither bf16 nor fp16 set",
     .keys = {"bf16", "fp16"},
     .holds = [](const Context& c) { return !c.has("bf16") && !c.flag("fp16"); },
     .computes = "autocast to bf16 is on; before, it was off, as in TrainingArguments",
     .consequence = "an upgrade changes the numbers, and a CPU is refused",
     .remedy = "bf16: true or false",
     .cure = "bf16=false",
     .sentence = "`bf16` is not set: it is on by default from TRL 0.19 on, and was off before",
     .evidence = FaultEvidence::run,
     .seen = "False in 0.18.2, True in 0.19.1; 0.19.0 was read",
     .source = "trainer/sft_config.py 0.19.0:252; PR #3515",
     .sample = "model_name_or_path: my/model\ndataset_name: d\noutput_dir: o\nmax_length: 1024\n"},
    {.id = "trl-dtype-left-open",
     .package = "trl",
     .first_good = "0.27.0",
     .code = FindingCode::warning,
     .trigger = "a model given by name without dtype, transformers 5 or newer, a bf16 or fp16 checkpoint",
     .keys = {"dtype", "model_name_or_path"},
     .holds = leaves_dtype_open,
     .asks = history::asks_for_low_checkpoint,
     .computes = "Transformers decides: 4.x loads fp32, 5.x the dtype of the checkpoint. The default auto that 0.26 "
                 "documents is not passed on; from 0.27.0 on fp32 is passed on",
     .consequence = "weights without fp32 masters, trained in bf16",
     .remedy = "dtype: float32, or trl 0.27.0",
     .cure = "dtype=float32",
     .sentence = "TRL {v} leaves the dtype of the weights to Transformers, and version 5 keeps that of the checkpoint: "
                 "there are no fp32 master weights",
     .finding = "trl/no-master",
     .evidence = FaultEvidence::run,
     .seen =
         "a bf16 checkpoint is loaded in fp32 by 0.25.1 and 0.26.2 with transformers 4.57.6, in bf16 with 5.1.0, and "
         "in fp32 by 0.27.2 with both",
     .source = "trainer/utils.py 0.26.2:2007, 0.27.0:1154; PR #4509, #4770, #4778",
     .sample = "model_name_or_path: my/model\ndataset_name: d\noutput_dir: o\nmax_length: 1024\nbf16: true\n"},
    {.id = "trl-ga-loss",
     .package = "trl",
     .first_good = "0.14.0",
     .code = FindingCode::warning,
     .trigger = "DPO, KTO, CPO, BCO or GRPO with gradient accumulation, transformers 4.46 or newer",
     .keys = {"gradient_accumulation_steps"},
     .holds = has_undivided_loss,
     .question = "the recipe is for DPO, KTO, CPO, BCO or GRPO",
     .computes = "the losses of these trainers are not divided by the number of micro-batches",
     .consequence = "gradients are too large by the number of micro-batches",
     .remedy = "trl 0.14.0, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence = "the trainers of TRL {v} do not divide their losses: gradients are too large by "
                 "gradient_accumulation_steps",
     .evidence = FaultEvidence::read,
     .seen = "the changes that repaired it; the mechanism was run (tf-own-compute-loss)",
     .source = "PR #2615, #2638, #2645, #2647, #2648",
     .sample = "model_name_or_path: my/model\ndataset_name: d\noutput_dir: o\nbeta: 0.1\n"
               "gradient_accumulation_steps: 4\n"},
    {.id = "trl-orpo-ga",
     .package = "trl",
     .first_good = "0.20.0",
     .code = FindingCode::warning,
     .trigger = "ORPO with gradient accumulation, transformers 4.46 or newer",
     .keys = {"gradient_accumulation_steps"},
     .holds = has_undivided_loss,
     .question = "the recipe is for ORPO",
     .computes = "the loss of ORPO is not divided by the number of micro-batches",
     .consequence = "gradients are too large by the number of micro-batches",
     .remedy = "trl 0.20.0, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence = "ORPO of TRL {v} does not divide its loss: gradients are too large by gradient_accumulation_steps",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "PR #3716",
     .sample = "model_name_or_path: my/model\ndataset_name: d\noutput_dir: o\nbeta: 0.1\n"
               "gradient_accumulation_steps: 4\n"},
    {.id = "trl-grpo-normalisation",
     .package = "trl",
     .first_bad = "0.14.0",
     .first_good = "0.16.0",
     .code = FindingCode::note,
     .trigger = "GRPO",
     .keys = {"loss_type"},
     .holds = [](const Context&) { return true; },
     .question = "the recipe is for GRPO",
     .computes = "the loss is the mean of the means of the sequences; from 0.16.0 on all tokens have the same weight",
     .consequence = "tokens of short answers have more weight",
     .remedy = "trl 0.16.0, with the loss_type that is meant",
     .sentence = "GRPO of TRL {v} averages each sequence first: tokens of short answers have more weight",
     .evidence = FaultEvidence::read,
     .seen = "the change that introduced the new loss",
     .source = "PR #2881",
     .sample = "model_name_or_path: my/model\ndataset_name: d\noutput_dir: o\nnum_generations: 8\n"},
    {.id = "trl-gkd-liger",
     .package = "trl",
     .first_good = "1.4.0",
     .code = FindingCode::warning,
     .trigger = "GKD with Liger's kernels",
     .keys = {"use_liger_kernel"},
     .holds = history::uses_liger,
     .question = "the recipe is for GKD",
     .computes = "the fused path computes another loss than the divergence of GKD",
     .consequence = "the run minimises a wrong objective",
     .remedy = "trl 1.4.0, or use_liger_kernel: false",
     .cure = "use_liger_kernel=false",
     .sentence = "with use_liger_kernel, GKD of TRL {v} computes another loss",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "PR #5731",
     .sample =
         "model_name_or_path: my/model\ndataset_name: d\noutput_dir: o\nmax_length: 1024\nuse_liger_kernel: true\n"},
};

}  // namespace

}  // namespace faults_of_trl

std::span<const FaultRow> trl_faults() { return faults_of_trl::rows; }

}  // namespace macheps::configs
