// SPDX-License-Identifier: Apache-2.0
// Faults of Axolotl and LLaMA-Factory.
#include "experiments/configs/axolotl/axolotl.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/history/predicates.hpp"
#include "experiments/configs/llamafactory/llamafactory.hpp"

namespace macheps::configs {

namespace faults_of_axolotl {

namespace {

using Context = ImportContext;

const FaultRow rows[] = {
    {.id = "axo-tf32-auto",
     .package = "axolotl",
     .first_bad = "0.16.0",
     .newest_seen = "0.19",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "tf32 not set, a GPU with tf32",
     .keys = {"tf32"},
     .holds = [](const Context& c) { return axolotl::is_auto(c, "tf32") && c.device().torch_says_tf32(); },
     .computes = "tf32 is on (auto); before, it was off",
     .consequence = "the operands of fp32 matmuls are rounded to tf32",
     .remedy = "tf32: false, to keep fp32",
     .cure = "tf32=false",
     .sentence = "`tf32` is not set: Axolotl turns it on from 0.16 on, and left it off before",
     .finding = "axolotl/tf32-auto",
     .evidence = FaultEvidence::read,
     .seen = "0.15.0 and 0.16.0",
     .source = "utils/schemas/config.py 0.15.0:410, 0.16.0:548; PR #3473",
     .sample = "base_model: my/model\nsequence_len: 2048\nmicro_batch_size: 2\nbf16: true\n"},
    {.id = "axo-fp8-router",
     .package = "axolotl",
     .first_bad = "0.12.0",
     .first_good = "0.18.0",
     .code = FindingCode::warning,
     .trigger = "fp8 on a Mixture-of-Experts model",
     .keys = {"fp8"},
     .holds = [](const Context& c) { return c.flag("fp8"); },
     .question = "the model is a Mixture of Experts",
     .computes = "the Linear layers of the routers are converted to fp8 as well",
     .consequence = "rounding changes which experts a token gets",
     .remedy = "axolotl 0.18.0, or fp8: false",
     .cure = "fp8=false",
     .sentence = "Axolotl {v} converts the routers to fp8 as well: rounding changes which experts a token gets",
     .evidence = FaultEvidence::read,
     .seen = "the changes that introduced and repaired it",
     .source = "PR #2926, #3791",
     .sample = "base_model: my/model\nsequence_len: 2048\nmicro_batch_size: 2\nbf16: true\nfp8: true\n"
               "torch_compile: true\n"},
    {.id = "axo-bf16-refusal",
     .package = "axolotl",
     .first_bad = "0.16.0",
     .newest_seen = "0.19",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "bf16 on a device without it",
     .keys = {"bf16"},
     .holds =
         [](const Context& c) {
             return !axolotl::is_auto(c, "bf16") && c.flag("bf16") && !c.device().torch_says_gpu_bf16();
         },
     .computes = "a warning; before, a ValueError",
     .consequence = "the run fails later, in training",
     .remedy = "train on a device with bf16, or bf16: auto, which uses fp16 on other devices",
     .cure = "bf16=auto",
     .sentence = "Axolotl {v} only warns if the device has no bf16; before 0.16 it refused the config",
     .finding = "axolotl/bf16-unsupported",
     .evidence = FaultEvidence::read,
     .seen = "the change that introduced it",
     .source = "PR #3563",
     .sample = "base_model: my/model\nsequence_len: 2048\nmicro_batch_size: 2\nbf16: true\n",
     .sample_device = "cpu"},
    {.id = "axo-eval-packing",
     .package = "axolotl",
     .first_good = "0.16.0",
     .code = FindingCode::warning,
     .trigger = "sample_packing with eval_sample_packing: false",
     .keys = {"eval_sample_packing", "sample_packing"},
     .holds =
         [](const Context& c) {
             return c.flag("sample_packing") && c.has("eval_sample_packing") && !c.flag("eval_sample_packing");
         },
     .computes = "evaluation rows carry the position ids of packed rows",
     .consequence = "eval_loss is too high; training is right",
     .remedy = "axolotl 0.16.0, or eval_sample_packing: true",
     .cure = "eval_sample_packing=true",
     .sentence =
         "with eval_sample_packing off, Axolotl {v} evaluates with the position ids of packed rows: eval_loss is "
         "too high",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "utils/data/sft.py; PR #3478",
     .sample = "base_model: my/model\nsequence_len: 2048\nmicro_batch_size: 2\nbf16: true\nsample_packing: true\n"
               "eval_sample_packing: false\nflash_attention: true\n"},
    {.id = "axo-ga",
     .package = "axolotl",
     .first_good = "0.5.1",
     .code = FindingCode::warning,
     .trigger = "gradient accumulation with transformers 4.46 or newer",
     .keys = {"gradient_accumulation_steps"},
     .holds = [](const Context& c) { return history::accumulates(c) && history::counts_labels(c); },
     .computes = "gradients are summed over micro-batches and not averaged (tf-ga-times-gas)",
     .consequence = "gradients are too large by the number of micro-batches",
     .remedy = "axolotl 0.5.1, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence =
         "with transformers 4.46 or newer, Axolotl {v} does not average the gradients of micro-batches: they are "
         "too large by gradient_accumulation_steps",
     .evidence = FaultEvidence::read,
     .seen = "the changes that repaired it",
     .source = "PR #1980, #2079",
     .sample = "base_model: my/model\nsequence_len: 2048\nmicro_batch_size: 2\nbf16: true\n"
               "gradient_accumulation_steps: 4\n"},
    {.id = "lf-fp8-inert",
     .package = "llamafactory",
     .first_bad = "0.9.4",
     .first_good = "0.9.5",
     .code = FindingCode::warning,
     .trigger = "fp8 in supervised fine-tuning",
     .keys = {"fp8", "stage"},
     .holds = [](const Context& c) { return c.flag("fp8") && c.text("stage") == "sft"; },
     .computes = "configure_fp8_environment is never called: the run uses autocast to bf16",
     .consequence = "the config asks for fp8, and nothing is fp8",
     .remedy = "llamafactory 0.9.5 with transformers 4, or fp8: false",
     .cure = "fp8=false",
     .sentence = "LLaMA-Factory {v} never passes the request for fp8 on: training runs under autocast to bf16",
     .finding = "llamafactory/fp8-dropped",
     .evidence = FaultEvidence::read,
     .seen = "0.9.4 and 0.9.5",
     .source = "train/sft/workflow.py 0.9.4:120-130; issue #9500, PR #9705, #9742",
     .sample =
         "model_name_or_path: my/model\nstage: sft\ndo_train: true\nfinetuning_type: full\nbf16: true\nfp8: true\n"},
};

}  // namespace

}  // namespace faults_of_axolotl

std::span<const FaultRow> axolotl_and_llamafactory_faults() { return faults_of_axolotl::rows; }

}  // namespace macheps::configs
