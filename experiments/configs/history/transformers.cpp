// SPDX-License-Identifier: Apache-2.0
// Faults of Transformers. The figures of a run come from models of width 16 (Llama, GPT-2, T5): the same four rows as
// one batch of 4 and as 4 batches of 1, SGD with rate 1, no clipping. The ratio of the two updates must be 1.
#include "experiments/configs/transformers/transformers.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/history/predicates.hpp"

namespace macheps::configs {

namespace faults_of_transformers {

namespace {

using transformers::Facts;
using Context = ImportContext;
using history::accumulates;

Facts facts(const Context& c) { return transformers::facts(c); }

/// Returns whether the arguments of the model ask for a low-precision dtype.
bool asks_for_low_weights(const Context& c) {
    for (const std::string_view key : {"dtype", "torch_dtype"}) {
        const char format = c.dtype(key);
        if (format == 'H' || format == 'B') return true;
    }
    return false;
}

/// Returns whether the program makes a new model from a config, as run_clm.py does without model_name_or_path.
bool trains_from_config(const Context& c) {
    return !c.has("model_name_or_path") && (c.has("config_name") || c.has("model_type"));
}

/// Returns whether micro-batches are summed by a Trainer that the user wrote or chose. A framework that shares the root
/// of the config brings its own trainers and trains only causal language models.
bool has_own_trainer_and_accumulates(const Context& c) { return accumulates(c) && !c.root_is_shared(); }

/// Returns whether the name of the model is one of Gemma 2, and no key selects an attention kernel other than sdpa.
bool is_gemma2_with_sdpa(const Context& c) {
    if (c.shared_by() != nullptr && c.shared_by()->name == "llamafactory")
        return false;  // LLaMA-Factory selects the kernel itself
    const std::string model = lowered(c.text("model_name_or_path")), kernel = c.text("attn_implementation");
    const bool is_gemma2 = model.find("gemma-2-") != std::string::npos || model.find("gemma2") != std::string::npos;
    return is_gemma2 && (kernel.empty() || kernel == "sdpa") && !c.flag("use_flash_attention_2");
}

/// Returns whether LLaVA accumulates gradients. LLaMA-Factory itself averages the losses of its stages rm, kto and dpo.
bool accumulates_for_llava(const Context& c) {
    const files::ConfigValue* stage = c.value("stage");
    const bool averages = stage != nullptr && history::is_one_of(stage->written, "rm kto dpo");
    const files::ConfigValue* model = c.value(c.framework().name == "axolotl" ? "base_model" : "model_name_or_path");
    return model != nullptr && lowered(model->written).find("llava") != std::string::npos && accumulates(c) &&
           !averages;
}

constexpr std::string_view gas = "gradient_accumulation_steps";

/// The texts of two rows: Transformers 4.47.0 and 4.48.0 invert the same condition.
constexpr std::string_view withheld_trigger =
    "gradient accumulation, a model whose forward takes arguments of the loss";
constexpr std::string_view withheld_question =
    "the forward method of the model takes arguments of the loss (Llama, Qwen and other causal models)";
constexpr std::string_view withheld_consequence = "loss and gradients are too large by the number of micro-batches";
constexpr std::string_view withheld_sentence =
    "Transformers {v} adds the losses of micro-batches and does not average them: gradients are too large "
    "by gradient_accumulation_steps";
constexpr std::string_view withheld_signature = "loss and gradient norm multiplied by the number of micro-batches";

const FaultRow rows[] = {
    {.id = "tf-ga-times-gas",
     .package = "transformers",
     .first_bad = "4.46.0",
     .first_good = "4.48.0",
     .code = FindingCode::warning,
     .trigger = "gradient accumulation, a model whose forward takes no arguments of the loss",
     .keys = {gas},
     .importers = "transformers axolotl",
     .holds = accumulates,
     .question = "the forward method of the model takes no arguments of the loss (GPT-2, T5, most encoders)",
     .computes = "gradients are summed over micro-batches and not averaged",
     .consequence =
         "gradients are too large by the number of micro-batches, so clipping has an effect where it had none; "
         "4.46.2 and 4.46.3 still log the right loss",
     .remedy = "transformers 4.48.1, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence = "Transformers {v} sums gradients over micro-batches and does not average them: they are too large by "
                 "gradient_accumulation_steps",
     .signature = "a gradient norm multiplied by the number of micro-batches; so is the loss in 4.46.1 and 4.47",
     .evidence = FaultEvidence::run,
     .seen = "the ratio is 4.0 in 4.46.1, 4.46.2, 4.46.3 and 4.47.1 (GPT-2, T5), and 1.0 in 4.45.2 and 4.48.3 to 5.1",
     .source = "trainer.py 4.46.1:3605, 4.46.3:3612-3616, 4.47.1:3687-3691; PR #34191, #34511, #35207",
     .sample = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 4\n"},
    {.id = "tf-count-withheld-4.47",
     .package = "transformers",
     .first_bad = "4.47.0",
     .first_good = "4.47.1",
     .code = FindingCode::warning,
     .trigger = withheld_trigger,
     .keys = {gas},
     .importers = "transformers axolotl",
     .holds = accumulates,
     .question = withheld_question,
     .needs_loss_arguments = true,
     .computes = "a condition is inverted, as again in 4.48.0: the number of labels is passed only to models that do "
                 "not take it, so the loss is a mean over each micro-batch, and these means are added",
     .consequence = withheld_consequence,
     .remedy = "transformers 4.48.1, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence = withheld_sentence,
     .signature = withheld_signature,
     .evidence = FaultEvidence::run,
     .seen = "the ratio of a Llama is 4.0 in 4.47.0, and 1.0 in 4.46.3 and 4.47.1",
     .source = "trainer.py 4.47.0:3652, 4.47.1:3654",
     .sample = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 4\n"},
    {.id = "tf-count-withheld",
     .package = "transformers",
     .first_bad = "4.48.0",
     .first_good = "4.48.1",
     .code = FindingCode::warning,
     .trigger = withheld_trigger,
     .keys = {gas},
     .importers = "transformers axolotl",
     .holds = accumulates,
     .question = withheld_question,
     .needs_loss_arguments = true,
     .computes = "a condition is inverted: the number of labels is passed only to models that do not take it, so the "
                 "loss is a mean over each micro-batch, and these means are added",
     .consequence = withheld_consequence,
     .remedy = "transformers 4.48.1, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence = withheld_sentence,
     .signature = withheld_signature,
     .evidence = FaultEvidence::run,
     .seen = "the ratio of a Llama is 4.0 in 4.48.0, and 1.0 in 4.47.1 and 4.48.1",
     .source = "trainer.py 4.48.0:3675, 4.48.1:3675",
     .sample = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 4\n"},
    {.id = "tf-own-compute-loss",
     .package = "transformers",
     .first_bad = "4.46.0",
     .newest_seen = "5.24.0",
     .code = FindingCode::warning,
     .trigger = "gradient accumulation, a Trainer with its own compute_loss, a model that takes **kwargs",
     .keys = {gas},
     .holds = has_own_trainer_and_accumulates,
     .question = "the Trainer has its own compute_loss and the model takes **kwargs (Llama, Qwen)",
     .needs_loss_arguments = true,
     .computes = "the Trainer assumes that the loss was divided by num_items_in_batch",
     .consequence = "gradients are too large by the number of micro-batches",
     .remedy = "divide by num_items_in_batch in compute_loss, or set model_accepts_loss_kwargs = False in the Trainer",
     .cure = "gradient_accumulation_steps=1",
     .sentence =
         "Transformers {v} assumes that compute_loss divides by num_items_in_batch: otherwise gradients are too "
         "large by gradient_accumulation_steps",
     .signature = "a gradient norm multiplied by the number of micro-batches",
     .evidence = FaultEvidence::run,
     .seen = "the ratio is 4.0 in 4.46.1 to 5.1, 5.5.4, 5.14.1 and 5.24.0 (Llama with its own compute_loss)",
     .source = "trainer.py 4.57.6:4060-4064, 5.14.1:1940",
     .sample = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 4\n"},
    {.id = "tf-ga-divided-twice",
     .package = "transformers",
     .first_bad = "5.2.0",
     .first_good = "5.5.4",
     .code = FindingCode::error,
     .trigger = "gradient accumulation without DeepSpeed",
     .keys = {gas},
     .importers = "transformers axolotl",
     .holds = [](const Context& c) { return accumulates(c) && !history::names_deepspeed(c); },
     .computes =
         "the Trainer tells Accelerate the number of micro-batches, and Accelerate divides the loss by it again",
     .consequence = "gradients are too small by the number of micro-batches: clipping has no effect, SGD learns more "
                    "slowly, and Adam hides most of it. The logged loss is right",
     .remedy = "transformers 5.5.4 or 5.1, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence = "Transformers {v} divides the loss by gradient_accumulation_steps twice: gradients are too small by "
                 "this number",
     .signature = "the right loss with a gradient norm that is smaller by the number of micro-batches",
     .evidence = FaultEvidence::run,
     .seen = "the ratio is 0.25 in 5.2.0 (Llama, GPT-2) and 5.4.0 (Llama), and 1.0 in 5.1.0 and 5.5.4; 5.5.0 to 5.5.3 "
             "were read. With DeepSpeed, Accelerate does not divide (accelerator.py 1.13.0:2826)",
     .source = "trainer.py 5.2.0:757, 5.5.0:768, 5.5.4:769",
     .sample = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 4\n"},
    {.id = "tf-kwargs-without-items",
     .package = "transformers",
     .first_bad = "5.0.0",
     .newest_seen = "5.24.0",
     .code = FindingCode::warning,
     .trigger = "gradient accumulation, a model that takes **kwargs and ignores num_items_in_batch",
     .keys = {gas},
     .holds = has_own_trainer_and_accumulates,
     .question = "the model takes **kwargs and ignores num_items_in_batch (T5)",
     .computes = "each micro-batch has a mean loss, and the losses are not divided by their number",
     .consequence = "gradients and the logged loss are too large by the number of micro-batches",
     .remedy = "accepts_loss_kwargs = False on the model, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence = "Transformers {v} does not average the losses of the micro-batches: gradients are too large by "
                 "gradient_accumulation_steps",
     .signature = "a logged loss of about ln V times the number of micro-batches",
     .evidence = FaultEvidence::run,
     .seen =
         "T5 has the ratio 4.0 and logs a loss of 16.9 for 4.22 in 5.0.0, 5.1.0, 5.5.4, 5.14.1 and 5.24.0; in 5.2.0 "
         "two faults cancel in the step",
     .source = "trainer.py; models/t5/modeling_t5.py",
     .sample = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 4\n"},
    {.id = "tf-llava-kwargs-without-items",
     .package = "transformers",
     .first_bad = "4.49.0",
     .first_good = "4.52.1",
     .code = FindingCode::warning,
     .trigger = "gradient accumulation, LLaVA",
     .keys = {gas, "model_name_or_path"},
     .importers = "transformers axolotl",
     .holds = accumulates_for_llava,
     .question = "the model is LlavaForConditionalGeneration",
     .computes = "the forward method takes **lm_kwargs, so the Trainer expects a loss that is divided by "
                 "num_items_in_batch, but the loss is the mean of the micro-batch",
     .consequence = "gradients and the logged loss are too large by the number of micro-batches, also with DeepSpeed",
     .remedy = "transformers 4.52.4, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence =
         "Transformers {v} does not average the losses of the micro-batches of LLaVA: gradients are too large by "
         "gradient_accumulation_steps",
     .signature = "a logged loss that is multiplied by the number of micro-batches",
     .evidence = FaultEvidence::read,
     .seen = "4.48.1, 4.49.0, 4.50.0, 4.51.0, 4.51.3, 4.52.1 and 4.52.4",
     .source = "models/llava/modeling_llava.py 4.49.0:348 and 462, 4.52.1:463, trainer.py 4.49.0:3732; "
               "LLaMA-Factory issue #7443",
     .sample = "model_name_or_path: llava-hf/llava-1.5-7b-hf\nper_device_train_batch_size: 4\n"
               "gradient_accumulation_steps: 4\n"},
    {.id = "tf-bf16-scaler",
     .package = "transformers",
     .first_bad = "4.13.0",
     .first_good = "4.27.0",
     .code = FindingCode::note,
     .trigger = "bf16 on a GPU without DeepSpeed and FSDP",
     .keys = {"bf16"},
     .holds =
         [](const Context& c) {
             return c.flag("bf16") && !c.has("fsdp") && !history::names_deepspeed(c) && c.device().is_cuda_like() &&
                    !c.root_is_shared();
         },
     .computes = "a GradScaler with the initial scale 65536 scales the loss of bf16, too",
     .consequence = "a step with Inf or NaN is skipped; bf16 has the range of fp32, so the scale changes no rounding",
     .remedy = "transformers 4.27.0, if the program counts skipped steps",
     .sentence = "Transformers {v} scales the loss of bf16 with a GradScaler: a step with Inf or NaN is skipped",
     .evidence = FaultEvidence::read,
     .seen = "4.12.0, which has no bf16, 4.13.0, 4.14.1, 4.17.0, 4.21.0, 4.26.1 and 4.27.0",
     .source = "trainer.py 4.26.1:572-593, 4.27.0:604-607; PR #21428",
     .sample = "per_device_train_batch_size: 4\nbf16: true\n"},
    {.id = "tf-deepspeed-gas-twice",
     .package = "transformers",
     .first_bad = "4.46.2",
     .first_good = "4.49.0",
     .code = FindingCode::warning,
     .trigger = "DeepSpeed, gradient accumulation, a model whose forward takes arguments of the loss",
     .keys = {gas, "deepspeed"},
     .importers = "transformers axolotl",
     .holds = [](const Context& c) { return accumulates(c) && history::names_deepspeed(c); },
     .question = "the forward method of the model takes arguments of the loss (Llama, Qwen)",
     .needs_loss_arguments = true,
     .computes = "the loss is divided by num_items_in_batch, and by the number of micro-batches in DeepSpeed's engine",
     .consequence = "gradients are too small by the number of micro-batches",
     .remedy = "transformers 4.49.0 with a deepspeed other than 0.18.3, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence = "with DeepSpeed, the loss of Transformers {v} is divided by gradient_accumulation_steps twice: "
                 "gradients are too small by this number",
     .signature = "a gradient norm that is smaller by the number of micro-batches",
     .evidence = FaultEvidence::read,
     .seen = "both releases",
     .source = "trainer.py 4.49.0:3738 (scale_wrt_gas); PR #35808",
     .sample = R"({"per_device_train_batch_size": 4, "bf16": true, "gradient_accumulation_steps": 4, "deepspeed":
{"bf16": {"enabled": "auto"}, "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 1}}})"},
    {.id = "tf-items-count-first-token",
     .package = "transformers",
     .first_bad = "4.46.2",
     .first_good = "5.10.1",
     .code = FindingCode::note,
     .trigger = "a causal language model with gradient accumulation",
     .keys = {gas},
     .importers = "transformers axolotl",
     .holds = accumulates,
     .question = "the model is a causal language model",
     .computes =
         "the count of labels includes position 0, which has no loss, so the divisor is too large by one per row",
     .consequence = "loss and gradients are smaller by 1/T for rows of T tokens. GPT-2 still has this in 5.24.0",
     .remedy = "do not compare losses across this version",
     .cure = "gradient_accumulation_steps=1",
     .sentence =
         "Transformers {v} counts the first label of each row, which has no loss: loss and gradients are smaller "
         "by 1/T for rows of T tokens",
     .evidence = FaultEvidence::run,
     .seen = "Llama, T = 16: the loss of one batch is 3.2531 in 4.46.2 to 5.5.4, and 3.4700 in 4.45.2, 4.46.1, 5.14.1 "
             "and 5.24.0. GPT-2: 3.2594 for 3.4767 in 5.24.0",
     .source = "trainer.py 4.46.2:5056, 5.10.1:2150",
     .sample = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 4\n"},
    {.id = "tf-average-tokens-default",
     .package = "transformers",
     .first_bad = "4.46.2",
     .first_good = "4.54.0",
     .code = FindingCode::note,
     .trigger = "several ranks, average_tokens_across_devices not set",
     .keys = {"average_tokens_across_devices"},
     .holds = [](const Context& c) { return !c.has("average_tokens_across_devices"); },
     .question = "several ranks have different numbers of labels",
     .computes = "each rank divides by its own number of labels, and the ranks are averaged",
     .consequence = "tokens of ranks with few labels have more weight",
     .remedy = "average_tokens_across_devices: true",
     .cure = "average_tokens_across_devices=true",
     .sentence = "average_tokens_across_devices is off by default in Transformers {v}: tokens of ranks with few labels "
                 "have more weight",
     .evidence = FaultEvidence::run,
     .seen = "the default is False in 4.46.3 to 4.53.3 and True in 4.57.6; read: False in 4.53.3, True in 4.54.0",
     .source = "training_args.py 4.46.2:1533, 4.54.0:1559",
     .sample = "per_device_train_batch_size: 4\nbf16: true\n"},
    {.id = "tf-loads-stored-dtype",
     .package = "transformers",
     .first_bad = "5.0.0",
     .newest_seen = "5.24.0",
     .is_change = true,
     .code = FindingCode::warning,
     .trigger = "from_pretrained without dtype, a bf16 or fp16 checkpoint",
     .keys = {"bf16", "fp16"},
     .holds = [](const Context& c) { return !c.root_is_shared() && facts(c).loaded != 'F'; },
     .computes = "weights are loaded in the dtype of the checkpoint; 4.x loads them in fp32",
     .consequence = "no fp32 master weights with bf16: true, and a ValueError with fp16: true",
     .remedy = "dtype=torch.float32 in from_pretrained",
     .sentence = "Transformers {v} loads weights in the dtype of the checkpoint (4.x: fp32): there are no fp32 master "
                 "weights",
     .finding = "transformers/no-master transformers/low-weights-under-scaler",
     .evidence = FaultEvidence::run,
     .seen = "a bf16 checkpoint is loaded in fp32 in 4.41 to 4.57; 5.0.0 was read",
     .source = "modeling_utils.py 5.0.0:790-832",
     .sample = "per_device_train_batch_size: 4\nbf16: true\n"},
    {.id = "tf-from-config-dtype",
     .package = "transformers",
     .first_bad = "4.49.0",
     .newest_seen = "5.24.0",
     .is_change = true,
     .code = FindingCode::warning,
     .trigger = "pre-training with from_config, a config.json with a low-precision dtype",
     .keys = {"config_name", "model_type", "model_name_or_path"},
     .holds = trains_from_config,
     .question = "config.json names bf16 or fp16",
     .computes = "a new model has the dtype of its config.json; before, it was fp32",
     .consequence = "pre-training without fp32 master weights",
     .remedy = "torch_dtype=torch.float32 in from_config",
     .sentence = "from_config of Transformers {v} makes the weights in the dtype of config.json (before 4.49: fp32): "
                 "pre-training has no fp32 master weights",
     .evidence = FaultEvidence::run,
     .seen = "fp32 in 4.41 to 4.48.3, bf16 in 4.50.3 to 4.57.6; 4.49.0 was read",
     .source = "modeling_utils.py 4.49.0:1361, 1461",
     .sample = "per_device_train_batch_size: 4\nbf16: true\nconfig_name: my/config\n"},
    {.id = "tf-logits-low",
     .package = "transformers",
     .first_bad = "4.46.0",
     .newest_seen = "5.24.0",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "a bf16 or fp16 model without autocast",
     .keys = {"bf16", "fp16"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return !c.root_is_shared() && f.autocast == 'F' && (f.loaded != 'F' || asks_for_low_weights(c));
         },
     .computes = "logits have the dtype of the model; before, they were fp32. The loss is still computed in fp32",
     .consequence = "own losses, log-probabilities and ties of argmax change",
     .remedy = "logits.float() in own losses",
     .cure = "bf16=true",
     .sentence = "the logits of a low-precision model have its format in Transformers {v}; before 4.46 they were fp32",
     .evidence = FaultEvidence::run,
     .seen = "fp32 in 4.41.2 and 4.45.2, bf16 in 4.46.3 to 4.57.6; 4.45.2 and 4.46.0 were read",
     .source = "models/llama/modeling_llama.py 4.45.2:1214 (.float()), 4.46.0",
     .sample = "per_device_train_batch_size: 4\ntorch_dtype: bfloat16\n"},
    {.id = "tf-optim-fused-default",
     .package = "transformers",
     .first_bad = "4.54.0",
     .newest_seen = "5.24.0",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "optim not set, torch 2.8 or newer",
     .keys = {"optim"},
     .holds = [](const Context& c) { return !c.has("optim") && !c.flag("adafactor") && c.since("torch", "2.8"); },
     .computes = "the default optimiser is adamw_torch_fused; before, it was adamw_torch",
     .consequence = "with fp16, the kernel skips a step on its own, and the schedule advances",
     .remedy = "optim: adamw_torch",
     .cure = "optim=adamw_torch",
     .sentence =
         "`optim` is not set: the default is adamw_torch_fused from Transformers 4.54 on, and adamw_torch before",
     .evidence = FaultEvidence::read,
     .seen = "4.53.3 and 4.54.0 were read, 4.57.6 was run",
     .source = "training_args.py 4.54.0:1286-1291",
     .sample = "per_device_train_batch_size: 4\nbf16: true\n"},
    {.id = "tf-fsdp-version-default",
     .package = "transformers",
     .first_bad = "5.10.1",
     .newest_seen = "5.24.0",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "fsdp without a version",
     .keys = {"fsdp_config.version", "fsdp"},
     .holds =
         [](const Context& c) {
             return facts(c).fsdp && !c.has("fsdp_config.version") && !c.has("fsdp_config.fsdp_version");
         },
     .computes = "FSDP 2 is used; before, FSDP 1 was",
     .consequence = "another scaler and another clip, and no dtype of buffers",
     .remedy = "fsdp_config.version: 1 or 2",
     .cure = "fsdp_config.version=1",
     .sentence = "the version of FSDP is not set: Transformers uses FSDP 2 from 5.10.1 on, and FSDP 1 before",
     .evidence = FaultEvidence::read,
     .seen = "5.9.0 and 5.10.1",
     .source = "training_args.py 5.9.0:2812, 5.10.1:2736",
     .sample = "per_device_train_batch_size: 4\nbf16: true\nfsdp: full_shard\n"},
    {.id = "tf-cpu-fp16",
     .package = "transformers",
     .first_bad = "4.42.0",
     .newest_seen = "5.24.0",
     .code = FindingCode::warning,
     .trigger = "fp16 on a CPU",
     .keys = {"fp16", "use_cpu"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return f.fp16 && f.on_cpu;
         },
     .computes = "there is no autocast and no scaler: the run computes in fp32. 4.41 refuses it with torch before 2.3",
     .consequence = "a slow fp32 run that seems to use fp16",
     .remedy = "bf16: true",
     .cure = "fp16=false bf16=true",
     .sentence = "Transformers {v} accepts fp16 on a CPU and computes in fp32",
     .finding = "transformers/fp16-on-cpu",
     .evidence = FaultEvidence::run,
     .seen = "accepted in 4.41.2 to 4.57.6 with torch 2.15",
     .source = "training_args.py 4.41.2, 4.42.4",
     .sample = "per_device_train_batch_size: 4\nfp16: true\nuse_cpu: true\n"},
    {.id = "tf-cpu-bf16",
     .package = "transformers",
     .first_bad = "4.52.0",
     .newest_seen = "5.24.0",
     .is_change = true,
     .code = FindingCode::error,
     .trigger = "bf16 on a CPU without use_cpu",
     .keys = {"use_cpu", "bf16"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return f.bf16 && f.on_cpu && !f.says_cpu;
         },
     .computes = "ValueError: Your setup doesn't support bf16/gpu. Older versions accept it",
     .consequence = "the run does not start",
     .remedy = "use_cpu: true",
     .cure = "use_cpu=true",
     .sentence = "Transformers {v} refuses bf16 on a CPU without use_cpu",
     .signature = "Your setup doesn't support bf16/gpu.",
     .finding = "transformers/bf16-unsupported",
     .evidence = FaultEvidence::run,
     .seen = "accepted in 4.41.2 to 4.51.3, refused in 4.53.3 and 4.57.6; 4.52.4 was read",
     .source = "training_args.py 4.52.4:1688",
     .sample = "per_device_train_batch_size: 4\nbf16: true\n",
     .sample_device = "cpu"},
    {.id = "tf-console-words",
     .package = "transformers",
     .first_bad = "5.0.0",
     .newest_seen = "5.24.0",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "the lines that the Trainer prints",
     .question = "a program reads the lines that the Trainer prints",
     .computes = "values are texts of four significant digits, such as {'loss': '3.253'}; before, they were numbers",
     .consequence = "a reader that expects numbers finds none",
     .remedy = "read trainer_state.json",
     .sentence = "Transformers {v} prints the values of its log lines as texts of four digits",
     .evidence = FaultEvidence::run,
     .seen = "4.57.6, 5.1.0 and 5.14.1",
     .source = "trainer_callback.py"},
    {.id = "tf-loss-rounded",
     .package = "transformers",
     .first_good = "5.0.0",
     .code = FindingCode::note,
     .trigger = "the losses in trainer_state.json of 4.x",
     .question = "a program reads the losses in trainer_state.json",
     .computes = "the logged loss is rounded to four decimals",
     .consequence = "0.0 means below 0.00005, not zero",
     .remedy = "do not take a logged 0.0 for a loss of zero",
     .sentence = "Transformers {v} rounds the logged loss to four decimals: 0.0 means below 0.00005",
     .evidence = FaultEvidence::read,
     .seen = "4.57.6 and 5.0.0",
     .source = "trainer.py 4.57.6:3205, 5.0.0:3004"},
    {.id = "tf-full-eval-buffers",
     .package = "transformers",
     .newest_seen = "5.24.0",
     .code = FindingCode::warning,
     .trigger = "bf16_full_eval",
     .keys = {"bf16_full_eval"},
     .holds = [](const Context& c) { return c.flag("bf16_full_eval"); },
     .computes = "model.to(bfloat16) also casts buffers, among them the frequencies of rotary embeddings",
     .consequence = "logits at distant positions are wrong in evaluation",
     .remedy = "bf16_full_eval: false, so that evaluation runs under autocast",
     .cure = "bf16_full_eval=false",
     .sentence =
         "bf16_full_eval also casts buffers in Transformers {v}: the frequencies of rotary embeddings are rounded",
     .finding = "transformers/full-eval-buffers",
     .evidence = FaultEvidence::run,
     .seen = "the buffers are bf16 after model.to in 4.41.2 to 4.57.6",
     .source = "trainer.py 4.57.6:4434; issue #30709",
     .sample = "per_device_train_batch_size: 4\nbf16: true\nbf16_full_eval: true\n"},
    {.id = "tf-gemma2-sdpa",
     .package = "transformers",
     .first_bad = "4.42.0",
     .first_good = "4.45.0",
     .code = FindingCode::warning,
     .trigger = "Gemma 2, attn_implementation not set or sdpa",
     .keys = {"attn_implementation", "model_name_or_path"},
     .holds = is_gemma2_with_sdpa,
     .question = "batches are padded, and torch is older than 2.5",
     .computes = "attention with sdpa is NaN in rows that are masked completely",
     .consequence = "the logits are NaN and the loss is 0 or NaN from the first step on",
     .remedy = "attn_implementation: eager, or transformers 4.45.0, which selects eager for Gemma 2",
     .cure = "attn_implementation=eager",
     .sentence = "Transformers {v} runs Gemma 2 with sdpa, which gives NaN in rows of padding",
     .signature = "a loss of 0 and a gradient norm of NaN from the first step on",
     .evidence = FaultEvidence::read,
     .seen = "4.42.0, 4.44.2 and 4.45.0 were read; the NaN is known from the issues",
     .source = "modeling_gemma2.py 4.44.2:983-986, 4.45.0:678-689; issue #32390, pytorch #103749, PR #133882",
     .sample = "model_name_or_path: google/gemma-2-2b\nper_device_train_batch_size: 4\nbf16: true\n"},
};

}  // namespace

}  // namespace faults_of_transformers

std::span<const FaultRow> transformers_faults() { return faults_of_transformers::rows; }

}  // namespace macheps::configs
