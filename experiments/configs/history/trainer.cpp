// SPDX-License-Identifier: Apache-2.0
// Faults of Megatron-LM, Composer, Lightning, verl, torchtune and torchtitan. Versions of Megatron-LM are those of its
// core.
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/history/predicates.hpp"

namespace macheps::configs {

namespace faults_of_trainer {

namespace {

using Context = ImportContext;

/// Returns whether Lightning's strategy is FSDP, given as a word or as a class.
bool has_fsdp_strategy(const Context& c) {
    const std::string name = c.text("trainer.strategy");
    return name.starts_with("fsdp") || c.text("trainer.strategy.class_path").find("FSDP") != std::string::npos;
}
bool has_precision(const Context& c, std::string_view words) {
    return has_fsdp_strategy(c) && history::is_one_of(c.text("trainer.precision"), words);
}

/// Words of mixed precision in Lightning; 1.x has those without "-mixed".
constexpr std::string_view mixed_words = "bf16-mixed 16-mixed bf16 16";

/// Returns whether a plugin FSDPPrecision of Lightning gets a scaler.
bool gives_fsdp_scaler(const Context& c) {
    const files::ConfigValue* plugins = c.value("trainer.plugins");
    if (plugins == nullptr) return false;
    for (const files::ConfigValue& plugin : plugins->items) {
        const files::ConfigValue* name = plugin.find("class_path");
        const files::ConfigValue* scaler = plugin.find("init_args.scaler");
        if (name != nullptr && name->written.ends_with("FSDPPrecision") && scaler != nullptr && !scaler->is_null())
            return true;
    }
    return false;
}

/// Mixed precision of verl's FSDP engine, in a whole config and in the config of an engine.
constexpr std::string_view verl_paths[] = {"actor_rollout_ref.actor.fsdp_config.mixed_precision",
                                           "actor.fsdp_config.mixed_precision", "engine.mixed_precision",
                                           "mixed_precision"};

bool has_verl_mixed_precision(const Context& c) {
    for (const std::string_view path : verl_paths) {
        if (c.has(path)) return true;
    }
    return false;
}
/// Returns whether verl's FSDP engine trains. Before 0.8, a run of PPO uses the worker of the actor by default, and the
/// importer warns about the formats of that worker.
bool trains_verl_engine(const Context& c) {
    return c.root().entry("engine") != nullptr || c.text("trainer.use_legacy_worker_impl") == "disable";
}
bool has_verl_param_dtype(const Context& c) {
    if (!trains_verl_engine(c)) return false;
    for (const std::string_view path : verl_paths) {
        const char format = c.dtype(std::string(path) + ".param_dtype");
        if (format == 'H' || format == 'F') return true;
    }
    return false;
}

/// Returns whether Megatron gathers MXFP8 weights into the buffer of gradients, and does not overlap both transfers.
bool shares_mxfp8_buffer_without_overlap(const Context& c) {
    return c.text("fp8-recipe") == "mxfp8" && c.flag("fp8-param-gather") &&
           c.flag("reuse-grad-buf-for-mxfp8-param-ag") &&
           !(c.flag("overlap-param-gather") && c.flag("overlap-grad-reduce"));
}

const FaultRow rows[] = {
    {.id = "mg-moe-aux-tp",
     .package = "megatron",
     .first_good = "0.19.0",
     .code = FindingCode::warning,
     .trigger = "an auxiliary loss of the routers with tensor parallelism",
     .keys = {"moe-aux-loss-coeff", "tensor-model-parallel-size"},
     .holds =
         [](const Context& c) {
             return c.number("moe-aux-loss-coeff").value_or(0) != 0 &&
                    c.number("tensor-model-parallel-size").value_or(1) > 1;
         },
     .computes = "gradients of the auxiliary loss and of the z-loss have a wrong factor",
     .consequence = "experts are balanced with another strength than the config says",
     .remedy = "megatron core 0.19.0, or --tensor-model-parallel-size 1",
     .cure = "tensor-model-parallel-size=1",
     .sentence = "with tensor parallelism, gradients of the auxiliary loss have a wrong factor in Megatron core {v}",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "core/transformer/moe/router.py; PR #5047",
     .sample = "bf16: true\nmoe-aux-loss-coeff: 0.01\ntensor-model-parallel-size: 2\n"},
    {.id = "mg-fsdp-scaling",
     .package = "megatron",
     .first_bad = "0.15",
     .first_good = "0.16.0",
     .code = FindingCode::error,
     .trigger = "--use-megatron-fsdp",
     .keys = {"use-megatron-fsdp"},
     .holds = [](const Context& c) { return c.flag("use-megatron-fsdp"); },
     .computes = "the factor that averages gradients is applied to the whole buffer in place of one bucket",
     .consequence = "gradients are scaled more than once",
     .remedy = "megatron core 0.16.0, or no --use-megatron-fsdp",
     .cure = "use-megatron-fsdp=false",
     .sentence = "Megatron-FSDP of core {v} scales gradients more than once",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "megatron_fsdp/param_and_grad_buffer.py; PR #3023",
     .sample = "bf16: true\nuse-megatron-fsdp: true\n"},
    {.id = "mg-mtp-nan",
     .package = "megatron",
     .first_bad = "0.13",
     .first_good = "0.17.0",
     .code = FindingCode::warning,
     .trigger = "multi-token prediction, a micro-batch without tokens",
     .keys = {"mtp-num-layers"},
     .holds = [](const Context& c) { return c.number("mtp-num-layers").value_or(0) > 0; },
     .question = "a micro-batch has no tokens for multi-token prediction",
     .computes = "the loss is 0/0",
     .consequence = "the loss is NaN",
     .remedy = "megatron core 0.17.0",
     .sentence = "the loss of multi-token prediction is NaN in Megatron core {v}",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "PR #3396",
     .sample = "bf16: true\nmtp-num-layers: 1\n"},
    {.id = "mg-zero-loss-hidden",
     .package = "megatron",
     .first_good = "0.17.0",
     .code = FindingCode::note,
     .trigger = "any config",
     .holds = [](const Context&) { return true; },
     .computes = "a loss of exactly 0 is not printed",
     .consequence = "the line of the log has no loss",
     .remedy = "megatron core 0.17.0",
     .sentence = "Megatron core {v} does not print a loss of exactly 0",
     .signature = "a line without `lm loss:`",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "training/training.py; PR #1555",
     .sample = "bf16: true\n"},
    {.id = "mg-mxfp8-reuse",
     .package = "megatron",
     .first_bad = "0.14",
     .first_good = "0.15.0",
     .code = FindingCode::warning,
     .trigger = "--reuse-grad-buf-for-mxfp8-param-ag",
     .keys = {"reuse-grad-buf-for-mxfp8-param-ag"},
     .holds = [](const Context& c) { return c.flag("reuse-grad-buf-for-mxfp8-param-ag"); },
     .computes = "the buffer of gradients is reused for gathered weights too early",
     .consequence = "training converges worse",
     .remedy = "megatron core 0.15.0, or no --reuse-grad-buf-for-mxfp8-param-ag",
     .cure = "reuse-grad-buf-for-mxfp8-param-ag=false",
     .sentence = "with --reuse-grad-buf-for-mxfp8-param-ag, training converges worse in Megatron core {v}",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "commit c2c36f77cf",
     .sample = "bf16: true\nfp8-format: e4m3\nfp8-recipe: mxfp8\nreuse-grad-buf-for-mxfp8-param-ag: true\n",
     .sample_device = "b200"},
    {.id = "mg-mxfp8-no-overlap",
     .package = "megatron",
     .first_bad = "0.15",
     .newest_seen = "0.15.0",
     .code = FindingCode::warning,
     .trigger = "MXFP8 parameters in the buffer of gradients, without both overlap options",
     .keys = {"overlap-param-gather", "overlap-grad-reduce", "reuse-grad-buf-for-mxfp8-param-ag"},
     .holds = shares_mxfp8_buffer_without_overlap,
     .question = "the release is older than PR #4800 (May 2026)",
     .computes = "gathered weights and gradients share a buffer; the cause of the NaN was not read",
     .consequence = "the loss of large models is NaN in the second iteration",
     .remedy = "--overlap-param-gather and --overlap-grad-reduce",
     .cure = "overlap-param-gather=true overlap-grad-reduce=true",
     .sentence = "with MXFP8 parameters and without --overlap-param-gather and --overlap-grad-reduce, the loss becomes "
                 "NaN in Megatron core {v}",
     .evidence = FaultEvidence::thread,
     .seen = "a report about 0.15; the first release with the repair was not read",
     .source = "issue #2272, PR #4769, #4800; core/distributed/distributed_data_parallel.py 0.15.0:509-522",
     .sample = "bf16: true\nfp8-format: e4m3\nfp8-recipe: mxfp8\nfp8-param-gather: true\n"
               "reuse-grad-buf-for-mxfp8-param-ag: true\n",
     .sample_device = "b200"},
    {.id = "composer-fsdp-scaler",
     .package = "composer",
     .first_bad = "0.11.0",
     .first_good = "0.14.0",
     .code = FindingCode::warning,
     .trigger = "FSDP with precision amp_fp16",
     .keys = {"precision", "fsdp_config"},
     .holds = [](const Context& c) { return c.text("precision") == "amp_fp16" && c.has("fsdp_config"); },
     .computes = "each rank has a GradScaler of its own, which sees only the gradients of its shards",
     .consequence = "after an overflow only some ranks skip the step, and the loss scales of the ranks differ",
     .remedy = "composer 0.14.0, or precision: amp_bf16",
     .cure = "precision=amp_bf16",
     .sentence =
         "Composer {v} makes a GradScaler on each rank of FSDP: after an overflow only some ranks skip the step, "
         "and their loss scales differ",
     .evidence = FaultEvidence::read,
     .seen = "0.11.0, 0.12.1, 0.13.5 and 0.14.0",
     .source = "composer/trainer/trainer.py 0.13.5:1329, 0.14.0:1260-1271; PR #2138",
     .sample = "precision: amp_fp16\nmax_duration: 1ba\nfsdp_config:\n  sharding_strategy: FULL_SHARD\n"},
    {.id = "tune-accumulation-mean",
     .package = "torchtune",
     .first_bad = "0.2.0",
     .first_good = "0.4.0",
     .code = FindingCode::note,
     .trigger = "gradient accumulation",
     .keys = {"gradient_accumulation_steps"},
     .holds = [](const Context& c) { return c.number("gradient_accumulation_steps").value_or(1) > 1; },
     .question = "micro-batches have different numbers of labels",
     .computes = "the mean losses of the micro-batches are averaged",
     .consequence = "labels of micro-batches with few labels have more weight than in one large batch",
     .remedy = "torchtune 0.4.0 (recipes of supervised fine-tuning), or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence = "torchtune {v} averages the mean losses of the micro-batches: labels of micro-batches with few labels "
                 "have more weight",
     .evidence = FaultEvidence::read,
     .seen = "0.2.0, 0.3.1 and 0.4.0",
     .source = "recipes/full_finetune_single_device.py 0.3.1:574, 0.4.0:698-705; PR #1875, #1917",
     .sample = "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\noptimizer:\n"
               "  _component_: torch.optim.AdamW\n  lr: 2e-5\ndtype: bf16\ngradient_accumulation_steps: 8\n"},
    {.id = "pl-fsdp-mixed-is-low",
     .package = "lightning",
     .first_bad = "1.8.0",
     .first_good = "2.0.3",
     .code = FindingCode::warning,
     .trigger = "FSDP with precision 16, bf16, 16-mixed or bf16-mixed",
     .keys = {"trainer.precision", "trainer.strategy"},
     .holds = [](const Context& c) { return has_precision(c, mixed_words); },
     .computes =
         "param_dtype, reduce_dtype and buffer_dtype are the low-precision format: weights are gathered and used "
         "in it, and gradients are summed over ranks in it. Shards and moments stay fp32",
     .consequence = "operations that autocast leaves in fp32 get rounded weights, and sums over ranks are rounded",
     .remedy = "lightning 2.0.3, which gathers weights in fp32",
     .cure = "trainer.strategy=ddp",
     .sentence = "with FSDP and mixed precision, Lightning {v} gathers weights and sums gradients over ranks in the "
                 "low-precision format; only shards and moments are fp32",
     .evidence = FaultEvidence::read,
     .seen = "1.8.0, 1.9.0, 1.9.5, 2.0.0, 2.0.2 and 2.0.3",
     .source = "pytorch/plugins/precision/fsdp.py 2.0.2:59-67, fsdp_native_native_amp.py 1.9.5:58-67; issue #17506, "
               "PR #17670",
     .sample =
         "trainer:\n  precision: bf16-mixed\n  strategy: fsdp\n  max_steps: 10\nmodel:\n  class_path: my.Model\n"},
    {.id = "pl-fsdp-mixed-fp32",
     .package = "lightning",
     .first_bad = "2.0.3",
     .first_good = "2.6.0",
     .code = FindingCode::warning,
     .trigger = "FSDP with precision bf16-mixed or 16-mixed",
     .keys = {"trainer.precision", "trainer.strategy"},
     .holds = [](const Context& c) { return has_precision(c, mixed_words); },
     .computes = "weights are gathered in fp32 (param_dtype), gradients are summed over ranks in the low-precision "
                 "format, and autocast is on",
     .consequence = "the memory of fp32 weights, and sums over ranks in bf16 or fp16",
     .remedy = "lightning 2.6.4",
     .cure = "trainer.strategy=ddp",
     .sentence = "with FSDP, Lightning {v} gathers weights in fp32 and sums gradients over ranks in the format of "
                 "autocast",
     .finding = "lightning/fsdp-low-reduce",
     .evidence = FaultEvidence::read,
     .seen = "2.0.2, 2.0.3, 2.1.0 and 2.6.0",
     .source = "pytorch/plugins/precision/fsdp.py; PR #17670, #21361",
     .sample =
         "trainer:\n  precision: bf16-mixed\n  strategy: fsdp\n  max_steps: 10\nmodel:\n  class_path: my.Model\n"},
    {.id = "pl-fsdp-mixed-bf16-init",
     .package = "lightning",
     .first_bad = "2.6.0",
     .first_good = "2.6.4",
     .code = FindingCode::warning,
     .trigger = "FSDP with precision bf16-mixed, a model that configure_model makes",
     .keys = {"trainer.precision", "trainer.strategy"},
     .holds = [](const Context& c) { return has_precision(c, "bf16-mixed bf16"); },
     .question = "configure_model makes the model",
     .computes = "the parameters are made in bf16",
     .consequence = "shards and moments of Adam are bf16: there are no fp32 master weights",
     .remedy = "lightning 2.6.4",
     .cure = "trainer.strategy=ddp",
     .sentence =
         "with FSDP and bf16-mixed, Lightning {v} makes the parameters in bf16: there are no fp32 master weights",
     .finding = "lightning/no-master",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "module_init_context with mixed_precision_config.param_dtype; PR #21586",
     .sample =
         "trainer:\n  precision: bf16-mixed\n  strategy: fsdp\n  max_steps: 10\nmodel:\n  class_path: my.Model\n"},
    {.id = "pl-fsdp-scaler-refused",
     .package = "lightning",
     .first_bad = "2.1.0",
     .newest_seen = "2.6.5",
     .code = FindingCode::error,
     .trigger = "FSDPPrecision with a scaler",
     .keys = {"trainer.plugins"},
     .holds = gives_fsdp_scaler,
     .computes = "ValueError: the class compares its default precision before it stores the given one",
     .consequence = "the program stops",
     .remedy = "FSDPPrecision without scaler",
     .sentence = "FSDPPrecision of Lightning {v} refuses every scaler, also with 16-mixed: ValueError",
     .signature = "`precision='16-mixed'` does not use a scaler",
     .evidence = FaultEvidence::run,
     .seen = "raised in 2.6.5",
     .source = "pytorch/plugins/precision/fsdp.py",
     .sample = "trainer:\n  strategy: fsdp\n  max_steps: 10\n  plugins:\n"
               "    - class_path: lightning.pytorch.plugins.FSDPPrecision\n      init_args:\n"
               "        precision: 16-mixed\n        scaler:\n          class_path: my.Scaler\n"
               "model:\n  class_path: my.Model\n"},
    {.id = "pl-fsdp-true-keeps-fp32",
     .package = "lightning",
     .first_bad = "2.1.0",
     .first_good = "2.5.0",
     .code = FindingCode::warning,
     .trigger = "FSDP with precision bf16-true or 16-true",
     .keys = {"trainer.precision", "trainer.strategy"},
     .holds = [](const Context& c) { return has_precision(c, "bf16-true 16-true"); },
     .question = "configure_model does not make the model",
     .computes =
         "the module is not converted: its shards, their gradients and the moments stay fp32. FSDP casts weights "
         "to the low-precision format when it gathers them, and sums gradients over ranks in that format",
     .consequence = "the memory of fp32 weights and moments, and updates of fp32 weights, until 2.5.0 converts them",
     .remedy = "lightning 2.5.0, or make the model in configure_model",
     .cure = "trainer.strategy=ddp",
     .sentence = "with FSDP, Lightning {v} does not convert the model: weights, shards of gradients and moments stay "
                 "fp32, and only products and sums over ranks are in the low-precision format",
     .evidence = FaultEvidence::read,
     .seen = "2.1.0, 2.4.0 and 2.5.0",
     .source = "pytorch/plugins/precision/fsdp.py 2.5.0:78 (convert_module), trainer/call.py 2.4.0:118; issues #18717, "
               "#19973, PR #20323",
     .sample = "trainer:\n  precision: bf16-true\n  strategy: fsdp\n  max_steps: 10\nmodel:\n  class_path: my.Model\n"},
    {.id = "pl-amp-clip-scaled",
     .package = "lightning",
     .first_bad = "1.4.0",
     .first_good = "1.4.9",
     .code = FindingCode::error,
     .trigger = "precision 16 with gradient_clip_val, and not with Apex",
     .keys = {"trainer.gradient_clip_val", "trainer.precision", "trainer.amp_backend"},
     .holds =
         [](const Context& c) {
             return c.text("trainer.precision") == "16" && c.text("trainer.amp_backend") != "apex" &&
                    c.number("trainer.gradient_clip_val").value_or(0) > 0;
         },
     .computes = "gradients are clipped in the closure, while they are still multiplied by the loss scale, and are "
                 "unscaled after that",
     .consequence = "the norm of the gradients is at most gradient_clip_val divided by the loss scale, so SGD hardly "
                    "learns",
     .remedy = "lightning 1.4.9 or 1.3.8, or no gradient_clip_val",
     .cure = "trainer.gradient_clip_val=0",
     .sentence = "Lightning {v} clips gradients before it divides them by the loss scale: their norm is at most "
                 "gradient_clip_val divided by the loss scale",
     .signature = "with SGD, a loss that hardly falls, and does so if gradient_clip_val is removed",
     .evidence = FaultEvidence::read,
     .seen = "1.4.0, 1.4.5 and 1.4.8; 1.3.8 and 1.4.9 unscale first",
     .source = "plugins/precision/native_amp.py 1.4.5:58-60 and 1.4.9:73-77, loops/batch/training_batch_loop.py "
               "1.4.5:442-445; issues #9330, #9599, #9694",
     .sample = "trainer:\n  precision: 16\n  gradient_clip_val: 1.0\n  max_steps: 10\nmodel:\n"
               "  class_path: my.Model\n"},
    {.id = "pl-fsdp-true-says-full",
     .package = "lightning",
     .first_bad = "2.6.0",
     .newest_seen = "2.6.5",
     .code = FindingCode::warning,
     .trigger = "FSDP with precision bf16-true",
     .keys = {"trainer.precision", "trainer.strategy"},
     .holds = [](const Context& c) { return has_precision(c, "bf16-true"); },
     .computes = "a warning says that a copy in full precision is kept, but the module is cast and there is no copy",
     .consequence = "no fp32 master weights, against what the log says",
     .remedy = "precision: bf16-mixed",
     .cure = "trainer.precision=bf16-mixed",
     .sentence = "Lightning {v} says that FSDP keeps a copy in full precision with bf16-true, but there is none",
     .evidence = FaultEvidence::read,
     .seen = "2.6.5",
     .source = "fabric/plugins/precision/fsdp.py (convert_module)",
     .sample = "trainer:\n  precision: bf16-true\n  strategy: fsdp\n  max_steps: 10\nmodel:\n  class_path: my.Model\n"},
    {.id = "verl-param-dtype",
     .package = "verl",
     .first_bad = "0.6.0",
     .first_good = "0.8.0",
     .code = FindingCode::error,
     .trigger = "FSDP engine with mixed_precision.param_dtype fp16 or fp32",
     .keys = {"actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype", "engine.mixed_precision.param_dtype",
              "trainer.use_legacy_worker_impl"},
     .holds = has_verl_param_dtype,
     .computes = "autocast uses bf16 whatever param_dtype says; fp16 has no loss scaler",
     .consequence = "the run is not in the requested format",
     .remedy = "verl 0.8.0, or param_dtype: bf16",
     .cure = "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=bf16",
     .sentence = "the FSDP engine of verl {v} uses autocast to bf16 whatever param_dtype says, and no loss scaler",
     .finding = "verl/param-dtype-ignored",
     .evidence = FaultEvidence::read,
     .seen = "both releases",
     .source = "workers/engine/fsdp/transformer_impl.py; issue #5932, PR #6150",
     .sample =
         "actor_rollout_ref:\n  model:\n    path: my/model\n  actor:\n    strategy: fsdp\n    fsdp_config:\n"
         "      model_dtype: fp32\n      mixed_precision:\n        param_dtype: fp16\n  rollout:\n    name: vllm\n"
         "trainer:\n  use_legacy_worker_impl: disable\n"},
    {.id = "verl-fsdp-mixed-missing",
     .package = "verl",
     .first_bad = "0.5.0",
     .first_good = "0.6.0",
     .code = FindingCode::note,
     .trigger = "FSDP engine with mixed_precision",
     .keys = {"actor_rollout_ref.actor.fsdp_config.mixed_precision"},
     .holds = has_verl_mixed_precision,
     .computes = "FSDPEngineConfig has no such field",
     .consequence = "the setting is refused or dropped",
     .remedy = "verl 0.6.0",
     .sentence = "FSDPEngineConfig of verl {v} has no field mixed_precision: it is refused or dropped",
     .evidence = FaultEvidence::read,
     .seen = "the change that added it",
     .source = "PR #3068",
     .sample =
         "actor_rollout_ref:\n  model:\n    path: my/model\n  actor:\n    strategy: fsdp\n    fsdp_config:\n"
         "      model_dtype: fp32\n      mixed_precision:\n        param_dtype: bf16\n  rollout:\n    name: vllm\n"
         "trainer:\n  n_gpus_per_node: 8\n"},
    {.id = "verl-sft-normalise",
     .package = "verl",
     .first_good = "0.6.1",
     .code = FindingCode::warning,
     .trigger = "supervised fine-tuning on several ranks",
     .keys = {"model"},
     .holds = [](const Context& c) { return !c.has("actor_rollout_ref"); },
     .question = "supervised fine-tuning runs on several ranks",
     .computes = "the loss is a mean on each rank, and not over the tokens of the global batch",
     .consequence = "tokens of ranks with few labels have more weight",
     .remedy = "verl 0.6.1",
     .sentence = "verl {v} averages the loss on each rank: tokens of ranks with few labels have more weight",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "PR #3994",
     .sample = "model:\n  partial_pretrain: my/model\n  strategy: fsdp2\ntrainer:\n  n_gpus_per_node: 8\n"
               "  project_name: p\n"},
    {.id = "tune-fp32-precision",
     .package = "torchtune",
     .first_bad = "0.2",
     .first_good = "0.6.0",
     .code = FindingCode::note,
     .trigger = "dtype fp32 on CUDA",
     .keys = {"dtype"},
     .holds = [](const Context& c) { return c.dtype("dtype") == 'F' && c.device().is_cuda_like(); },
     .computes = "no recipe calls the function that calls set_float32_matmul_precision",
     .consequence = "fp32 matmuls stay fp32; tf32 was meant",
     .remedy = "call torch.set_float32_matmul_precision(\"high\") in the recipe, if tf32 is wanted",
     .sentence = "torchtune {v} never turns on tf32 for fp32 matmuls: no recipe calls the function that does so",
     .evidence = FaultEvidence::read,
     .seen = "every package from 0.2.0 to 0.6.1: nothing calls the function",
     .source = "training/precision.py; PR #2271",
     .sample = "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\noptimizer:\n"
               "  _component_: torch.optim.AdamW\n  lr: 2e-5\ndtype: fp32\n"},
    {.id = "titan-rope-fused",
     .package = "torchtitan",
     .newest_seen = "0.2.2",
     .code = FindingCode::warning,
     .trigger = "compiled training in bf16",
     .keys = {"compile.enable", "training.mixed_precision_param"},
     .holds =
         [](const Context& c) {
             const bool is_compiled = c.flag("compile.enable") || c.flag("training.compile");
             return is_compiled && c.text("training.mixed_precision_param") != "float32";
         },
     .computes = "the compiler removes the cast of the rotary embedding from bf16 to fp32. The main branch is repaired "
                 "since 2026-03-14",
     .consequence = "angles of distant positions are rounded",
     .remedy = "the main branch from 2026-03-14 on, or no compilation",
     .cure = "compile.enable=false",
     .sentence =
         "compiled code of torchtitan {v} computes the rotary embedding in bf16, although the model asks for fp32",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "PR #2575",
     .sample = "model:\n  name: llama3\ntraining:\n  local_batch_size: 1\n  mixed_precision_param: bfloat16\n"
               "compile:\n  enable: true\n"},
    {.id = "titan-validation-scale",
     .package = "torchtitan",
     .first_bad = "0.1.0",
     .first_good = "0.2.0",
     .code = FindingCode::note,
     .trigger = "validation with several micro-batches",
     .keys = {"validation.enabled"},
     .holds = [](const Context& c) { return c.flag("validation.enabled") || c.flag("validation.enable"); },
     .question = "validation uses several micro-batches",
     .computes = "the accumulated loss is not divided by the number of micro-batches",
     .consequence = "only the validation loss is wrong",
     .remedy = "torchtitan 0.2.0",
     .sentence = "torchtitan {v} does not divide the accumulated validation loss by the number of micro-batches",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "PR #1758",
     .sample = "model:\n  name: llama3\ntraining:\n  local_batch_size: 1\nvalidation:\n  enabled: true\n"},
};

}  // namespace

}  // namespace faults_of_trainer

std::span<const FaultRow> trainer_faults() { return faults_of_trainer::rows; }

}  // namespace macheps::configs
