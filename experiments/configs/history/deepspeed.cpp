// SPDX-License-Identifier: Apache-2.0
// Faults of DeepSpeed. The figures of a run come from one linear layer with eight weights, SGD with rate 1 and two
// micro-batches whose gradients are 0.125 and 0.375: a weight must move by 0.25.
#include "experiments/configs/deepspeed/deepspeed.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/history/predicates.hpp"

namespace macheps::configs {

namespace faults_of_deepspeed {

namespace {

using deepspeed::Facts;
using Context = ImportContext;

Facts facts(const Context& c) { return deepspeed::facts(c); }

/// Returns train_batch_size / train_micro_batch_size_per_gpu, or 1 if one of them is missing. If
/// gradient_accumulation_steps is missing, the engine divides this by the number of ranks.
double micro_batches_of_all_ranks(const Context& c) {
    const double batch = c.number("train_batch_size").value_or(0),
                 micro = c.number("train_micro_batch_size_per_gpu").value_or(0);
    return batch > 0 && micro > 0 ? batch / micro : 1;
}
bool has_steps(const Context& c) { return c.number("gradient_accumulation_steps").has_value(); }
bool accumulates(const Context& c) {
    return has_steps(c) ? history::accumulates(c) : micro_batches_of_all_ranks(c) > 1;
}
std::string_view asks_for_few_ranks(const Context& c) {
    return has_steps(c) ? "" : "fewer than train_batch_size / train_micro_batch_size_per_gpu ranks train";
}

bool clips(const Context& c) { return c.number("gradient_clipping").value_or(0) > 0; }
bool is_fp16(const Facts& f) { return f.fp16 && !f.amp; }
bool is_bf16(const Facts& f) { return f.bf16 && !f.fp16 && !f.amp; }
bool sums_in_fp32(const Context& c) { return c.dtype("data_types.grad_accum_dtype") == 'F'; }

/// Returns whether torch_autocast uses this dtype for a model that stays fp32.
bool autocasts(const Context& c, const Facts& f, char dtype) {
    const char low = c.dtype("torch_autocast.dtype") == 'H' ? 'H' : 'B';
    return f.autocast && f.low == 'F' && !f.amp && low == dtype;
}

/// Returns whether bf16 without ZeRO has the wrapper of optimisers that are not fused, or may have it.
bool has_unfused_bf16(const Context& c) {
    const Facts f = facts(c);
    return is_bf16(f) && f.stage == 0 && (!f.fused || f.optimizer.empty());
}
std::string_view asks_for_unfused(const Context& c) {
    return facts(c).optimizer.empty() ? "the optimiser of the program is not DeepSpeed's fused Adam" : "";
}
std::string_view asks_for_fused(const Context& c) {
    return facts(c).optimizer.empty() ? "the optimiser of the program is DeepSpeed's fused Adam" : "";
}

/// Returns whether fp32 sums of bf16 gradients were requested of an engine that may have the wrapper of fp16 for them.
bool has_wrong_wrapper(const Context& c) {
    const Facts f = facts(c);
    return is_bf16(f) && f.stage <= 1 && !(f.stage == 1 && f.offload) && sums_in_fp32(c);
}

/// Returns whether ZeRO casts bf16 gradients to the default of communication_data_type, fp16. From 0.7.1 on, every path
/// of ZeRO 1 and 2 casts to this type. Before, only the sum over the whole bucket did, and the sum of single gradients
/// (ZeRO 1, or no contiguous_gradients) always was fp16. ZeRO 3 casts from 0.8.2 on.
bool reduces_bf16_in_fp16(const Context& c) {
    const Facts f = facts(c);
    const auto runs_since = [&](std::string_view release) {
        return *c.assumed_version("deepspeed") >= parse_version(release);
    };
    if (!is_bf16(f) || f.stage == 0) return false;
    const bool sums_single =
        f.stage == 1 || (f.stage == 2 && !c.maybe_flag("zero_optimization.contiguous_gradients").value_or(true));
    if (sums_single && !runs_since("0.7.1")) return true;
    if (c.has("communication_data_type")) return false;
    if (f.stage == 3) return runs_since("0.8.2");
    return runs_since("0.7.1") || !c.maybe_flag("zero_optimization.reduce_scatter").value_or(true);
}

bool uses_cpu_adam(const Context& c) {
    const Facts f = facts(c);
    const bool is_adam = f.optimizer.empty() || f.optimizer == "adam" || f.optimizer == "adamw";
    return f.stage == 3 && is_adam && !c.flag("optimizer.params.torch_adam") &&
           lowered(c.text("zero_optimization.offload_optimizer.device")) == "cpu";
}

const FaultRow rows[] = {
    {.id = "ds-z0-fp16-unscaled",
     .package = "deepspeed",
     .first_bad = "0.18.3",
     .newest_seen = "0.19.8",
     .code = FindingCode::error,
     .trigger = "fp16 without ZeRO",
     .keys = {"zero_optimization.stage", "fp16.enabled"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_fp16(f) && f.stage == 0 && f.loss_scale != 1;
         },
     .computes = "backward does not multiply the loss by the scale, but step divides the gradients by it; both the "
                 "fused and the unfused wrapper do this",
     .consequence = "gradients are 65536 times too small: SGD does not learn, Adam learns until its eps dominates, and "
                    "clipping has no effect",
     .remedy = "\"zero_optimization\": {\"stage\": 1}, or deepspeed 0.18.2",
     .cure = "zero_optimization.stage=1",
     .sentence = "without ZeRO, DeepSpeed {v} does not multiply the loss by the scale but divides the gradients by it: "
                 "they are too small by the loss scale (2^16 by default)",
     .signature = "a gradient norm of about 1e-5 while the scale falls, or a loss that is flat from the first step",
     .evidence = FaultEvidence::run,
     .seen = "the weight moves by 3.8e-6 in 0.18.3 to 0.19.8, and by 0.25 up to 0.18.2",
     .source = "runtime/engine.py 0.19.8:3417 scales only for ZeROOptimizer; unfused_optimizer.py:245; commit "
               "53e91a098; PR #8393",
     .sample =
         R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 0}, "train_micro_batch_size_per_gpu": 4})"},
    {.id = "ds-bf16-reduced-in-fp16",
     .package = "deepspeed",
     .first_bad = "0.6.3",
     .first_good = "0.9.0",
     .code = FindingCode::warning,
     .trigger = "bf16 with ZeRO, communication_data_type not set",
     .keys = {"communication_data_type", "zero_optimization.stage", "bf16.enabled", "zero_optimization.reduce_scatter",
              "zero_optimization.contiguous_gradients"},
     .holds = reduces_bf16_in_fp16,
     .computes = "ZeRO casts bf16 gradients to fp16 before it sums them over ranks, because the default of "
                 "communication_data_type with ZeRO is fp16 for every model. ZeRO 2 does so from 0.7.1 on, or without "
                 "reduce_scatter or contiguous_gradients, and ZeRO 3 from 0.8.2 on. ZeRO 1 does not read the key "
                 "before 0.7.1",
     .consequence = "gradients above 65504 become infinite, and gradients below about 3e-8 become 0",
     .remedy = "deepspeed 0.9.2, or, from 0.7.1 on, \"communication_data_type\": \"bfp16\", which is bf16",
     .sentence =
         "DeepSpeed {v} casts the bf16 gradients of this config to fp16 and sums them over ranks in fp16: large "
         "ones become infinite, and small ones become 0",
     .evidence = FaultEvidence::read,
     .seen = "0.6.3 to 0.7.3, 0.7.7 and 0.8.0 to 0.8.3; 0.9.0 and 0.9.1 sum in fp32, and 0.9.2 in bf16",
     .source = "runtime/engine.py 0.6.5:733-742 and 0.9.2:776-787; runtime/zero/stage_1_and_2.py 0.7.0:862-891 and "
               "1342-1365, 0.7.1:970; runtime/zero/stage3.py 0.8.2:1165; issue #2071, PR #3370",
     .sample =
         R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 4})"},
    {.id = "ds-z0-fp16-fused-never-steps",
     .package = "deepspeed",
     .first_bad = "0.17.6",
     .first_good = "0.18.2",
     .code = FindingCode::error,
     .trigger = "fp16 without ZeRO, fused Adam",
     .keys = {"zero_optimization.stage", "fp16.enabled", "optimizer.type", "optimizer.params.torch_adam"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_fp16(f) && f.stage == 0 && f.fused;
         },
     .asks = asks_for_fused,
     .computes = "step returns before the update, in every step",
     .consequence = "the weights never change; there is no message, and skipped_steps counts only overflows",
     .remedy = "deepspeed 0.18.2, \"zero_optimization\": {\"stage\": 1}, or \"torch_adam\": true",
     .cure = "zero_optimization.stage=1",
     .sentence = "the fused fp16 wrapper of DeepSpeed {v} returns before the update: the weights never change",
     .signature = "a flat loss and a gradient norm of 0.0",
     .evidence = FaultEvidence::run,
     .seen = "the class of FusedAdam with a plain step: the weight moves by 0 in 0.17.6, and by 0.25 in 0.18.2",
     .source = "runtime/fp16/fused_optimizer.py 0.17.6:273-292; commit 889f0ead2; PR #7645",
     .sample = R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 0}, "optimizer": {"type": "AdamW",
"params": {"lr": 1e-4}}, "train_micro_batch_size_per_gpu": 4})"},
    {.id = "ds-z2-last-micro-batch",
     .package = "deepspeed",
     .first_bad = "0.17.6",
     .first_good = "0.18.3",
     .code = FindingCode::error,
     .trigger = "ZeRO 2 with gradient accumulation, optimiser on the GPU",
     .keys = {"zero_optimization.stage", "gradient_accumulation_steps", "zero_optimization.offload_optimizer.device"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return f.stage == 2 && !f.offload && accumulates(c);
         },
     .asks = asks_for_few_ranks,
     .computes =
         "each micro-batch overwrites the buffer of gradients, so only the last one counts; it is still divided "
         "by the number of micro-batches",
     .consequence = "the step uses one micro-batch, at a fraction of its size; the loss looks like that of a smaller "
                    "batch",
     .remedy = "deepspeed 0.18.4, \"gradient_accumulation_steps\": 1, or the optimiser on the CPU",
     .cure = "gradient_accumulation_steps=1",
     .sentence =
         "with ZeRO 2 and gradient accumulation, DeepSpeed {v} keeps only the gradient of the last micro-batch, "
         "and divides it by the number of micro-batches",
     .signature = "a gradient norm that is smaller than that of ZeRO 1 by the number of micro-batches",
     .evidence = FaultEvidence::run,
     .seen = "the weight moves by 0.1875 in 0.17.6, 0.18.0 and 0.18.2, and by 0.25 in 0.14.4 to 0.17.2 and from 0.18.3 "
             "on; ZeRO 1, ZeRO 3 and offload are right",
     .source = "runtime/zero/stage_1_and_2.py 0.18.2:855; PR #7509; accelerate issue #3877",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}, "gradient_accumulation_steps": 4})"},
    {.id = "ds-z0-bf16-65536",
     .package = "deepspeed",
     .first_bad = "0.18.3",
     .first_good = "0.18.6",
     .code = FindingCode::error,
     .trigger = "bf16 without ZeRO, optimiser not fused",
     .keys = {"zero_optimization.stage", "bf16.enabled", "optimizer.type"},
     .holds = has_unfused_bf16,
     .asks = asks_for_unfused,
     .computes = "the unfused wrapper of fp16 is used with its initial scale 65536, and divides the gradients by it",
     .consequence = "nothing is learnt",
     .remedy = "deepspeed 0.18.6, or \"zero_optimization\": {\"stage\": 1} without grad_accum_dtype",
     .cure = "zero_optimization.stage=1",
     .sentence = "without ZeRO and with this optimiser, DeepSpeed {v} divides bf16 gradients by 65536",
     .signature = "a gradient norm 65536 times smaller than expected",
     .evidence = FaultEvidence::run,
     .seen = "the weight moves by 3.8e-6 in 0.18.3 to 0.18.5, and by 0.25 in 0.18.6",
     .source = "runtime/engine.py (_configure_fp16_optimizer); issue #7837, PR #7839",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 0}, "optimizer": {"type": "AdamW",
"params": {"lr": 1e-4, "torch_adam": true}}})"},
    {.id = "ds-z0-bf16-never-zeroed",
     .package = "deepspeed",
     .first_bad = "0.17.6",
     .first_good = "0.18.6",
     .code = FindingCode::error,
     .trigger = "bf16 without ZeRO, optimiser not fused",
     .keys = {"zero_optimization.stage", "bf16.enabled", "optimizer.type"},
     .holds = has_unfused_bf16,
     .asks = asks_for_unfused,
     .computes = "gradients are not set to zero between steps, so they add up over the run",
     .consequence = "the effective learning rate grows with every step until training diverges",
     .remedy = "deepspeed 0.18.6, or \"zero_optimization\": {\"stage\": 1} without grad_accum_dtype",
     .cure = "zero_optimization.stage=1",
     .sentence = "without ZeRO and with this optimiser, DeepSpeed {v} never sets bf16 gradients to zero: "
                 "they add up over all steps",
     .signature = "a gradient norm that grows linearly from the first step",
     .evidence = FaultEvidence::run,
     .seen = "two steps move the weight by 0.25 and then 0.5 in 0.17.6, and by 3.8e-6 and then 7.6e-6 in 0.18.3 and "
             "0.18.5",
     .source = "runtime/engine.py (_take_model_step); PR #7839",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 0}, "optimizer": {"type": "AdamW",
"params": {"lr": 1e-4, "torch_adam": true}}})"},
    {.id = "ds-z1-bf16-acc32-wrapper",
     .package = "deepspeed",
     .first_bad = "0.17.6",
     .first_good = "0.18.5",
     .code = FindingCode::warning,
     .trigger = "bf16, ZeRO 0 or 1, fp32 sums of gradients",
     .keys = {"data_types.grad_accum_dtype", "bf16.enabled", "zero_optimization.stage"},
     .holds = has_wrong_wrapper,
     .computes =
         "two constants have the same text, so the wrapper of fp16 is used in place of BF16_Optimizer: no ZeRO, "
         "and sums in bf16",
     .consequence = "the memory of ZeRO 0, and sums in bf16",
     .remedy = "deepspeed 0.18.5 with ZeRO 1, or ZeRO 1 without grad_accum_dtype",
     .cure = "zero_optimization.stage=1 data_types.grad_accum_dtype=bf16",
     .sentence = "with bf16 and grad_accum_dtype fp32, DeepSpeed {v} uses the wrapper of fp16 without ZeRO: gradients "
                 "are summed in bf16",
     .finding = "deepspeed/accumulation-unread",
     .evidence = FaultEvidence::run,
     .seen = "the wrapper is FP16_UnfusedOptimizer from 0.17.6 to 0.18.4, and BF16_Optimizer in 0.17.5 and 0.18.5",
     .source =
         "runtime/constants.py 0.18.4:147 DDP_BFLOAT16; runtime/engine.py 0.18.4:1523; commit 1393f75dc; PR #7788",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1},
"data_types": {"grad_accum_dtype": "fp32"}})"},
    {.id = "ds-z1-bf16-acc32-65536",
     .package = "deepspeed",
     .first_bad = "0.18.3",
     .first_good = "0.18.5",
     .code = FindingCode::error,
     .trigger = "bf16, ZeRO 0 or 1, fp32 sums of gradients, optimiser not fused",
     .keys = {"data_types.grad_accum_dtype", "bf16.enabled", "zero_optimization.stage"},
     .holds = [](const Context& c) { return has_wrong_wrapper(c) && (!facts(c).fused || facts(c).optimizer.empty()); },
     .asks = asks_for_unfused,
     .computes = "the wrapper of fp16, used by mistake, divides gradients by its initial scale of 65536, although the "
                 "loss is not scaled",
     .consequence = "nothing is learnt",
     .remedy = "deepspeed 0.18.5 with ZeRO 1, or ZeRO 1 without grad_accum_dtype",
     .cure = "zero_optimization.stage=1 data_types.grad_accum_dtype=bf16",
     .sentence = "with bf16, grad_accum_dtype fp32 and this optimiser, DeepSpeed {v} divides gradients by 65536",
     .signature = "a loss that stays where it starts",
     .evidence = FaultEvidence::run,
     .seen = "both steps move the weight by 3.8e-6 in 0.18.3 and 0.18.4, and by 0.25 in 0.18.2 and 0.18.5",
     .source = "runtime/fp16/unfused_optimizer.py; PR #7788",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}, "optimizer": {"type": "SGD"},
"data_types": {"grad_accum_dtype": "fp32"}})"},
    {.id = "ds-z0-bf16-acc32-refused",
     .package = "deepspeed",
     .first_bad = "0.18.5",
     .newest_seen = "0.19.8",
     .is_change = true,
     .code = FindingCode::error,
     .trigger = "bf16 without ZeRO, fp32 sums of gradients",
     .keys = {"zero_optimization.stage", "data_types.grad_accum_dtype", "bf16.enabled"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_bf16(f) && f.stage == 0 && sums_in_fp32(c);
         },
     .computes =
         "NotImplementedError: unsupported mix of model_dtype=torch.bfloat16 and grad_accum_dtype=torch.float32",
     .consequence = "the run does not start",
     .remedy = "\"zero_optimization\": {\"stage\": 1}, which sums in fp32",
     .cure = "zero_optimization.stage=1",
     .sentence = "without ZeRO, DeepSpeed {v} refuses bf16 with grad_accum_dtype fp32: NotImplementedError",
     .signature = "NotImplementedError: unsupported mix of model_dtype and grad_accum_dtype",
     .finding = "deepspeed/accumulation-mix",
     .evidence = FaultEvidence::run,
     .seen = "raised in 0.18.5 to 0.19.8, accepted in 0.17.6",
     .source = "runtime/engine.py (_do_optimizer_sanity_check); commit 09885efef; PR #7790",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 0},
"data_types": {"grad_accum_dtype": "fp32"}})"},
    {.id = "ds-bf16-optimizer-grad-leak",
     .package = "deepspeed",
     .first_bad = "0.18.3",
     .first_good = "0.19.0",
     .code = FindingCode::warning,
     .trigger = "bf16, ZeRO 1, fp32 sums of gradients, more than one rank",
     .keys = {"bf16.immediate_grad_update", "data_types.grad_accum_dtype", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_bf16(f) && f.stage == 1 && !f.offload && sums_in_fp32(c) &&
                    !c.flag("bf16.immediate_grad_update");
         },
     .question = "more than one rank trains",
     .computes = "the last micro-batch is added after the sum over ranks, so each rank uses its own",
     .consequence = "the weights of the ranks drift apart",
     .remedy = "deepspeed 0.19.0, or \"immediate_grad_update\": true in the section bf16",
     .cure = "bf16.immediate_grad_update=true",
     .sentence =
         "DeepSpeed {v} adds the last micro-batch after the sum over ranks: each rank steps with its own gradient",
     .evidence = FaultEvidence::read,
     .seen = "the source of the releases around it; not run on several ranks",
     .source = "runtime/engine.py (_backward_epilogue); PR #7985",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1},
"data_types": {"grad_accum_dtype": "fp32"}})"},
    {.id = "ds-bf16-nan-applied",
     .package = "deepspeed",
     .first_bad = "0.11.2",
     .first_good = "0.19.3",
     .code = FindingCode::warning,
     .trigger = "bf16, check_grad_overflow not set",
     .keys = {"bf16.check_grad_overflow", "bf16.enabled"},
     .holds = [](const Context& c) { return is_bf16(facts(c)) && !c.flag("bf16.check_grad_overflow"); },
     .computes = "gradients are not checked for Inf and NaN, which reach the weights",
     .consequence = "one bad batch destroys the model",
     .remedy = "\"check_grad_overflow\": true in the section bf16 (from 0.17.1 on)",
     .cure = "bf16.check_grad_overflow=true",
     .sentence = "DeepSpeed {v} does not check bf16 gradients by default: a NaN reaches the weights",
     .finding = "deepspeed/nan-reaches-weights",
     .evidence = FaultEvidence::run,
     .seen = "after a step with Inf the weights are not finite in 0.16.5 to 0.19.2; the step is skipped from 0.19.3 on",
     .source = "runtime/precision_config.py 0.17.1 to 0.19.2; PR #4512, PR #8035",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})"},
    {.id = "ds-norm-says-one",
     .package = "deepspeed",
     .first_bad = "0.16.6",
     .first_good = "0.19.8",
     .code = FindingCode::note,
     .trigger = "bf16 with ZeRO, gradients not checked",
     .keys = {"bf16.check_grad_overflow", "bf16.enabled", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_bf16(f) && f.stage >= 1 && !c.flag("bf16.check_grad_overflow");
         },
     .computes = "get_global_grad_norm returns 1.0 for gradients with Inf or NaN: -1 marks them, and is squared",
     .consequence = "the log shows the norm 1.0 in the step that destroys the weights",
     .remedy = "look at the loss and the weights, not at the norm",
     .cure = "bf16.check_grad_overflow=true",
     .sentence = "DeepSpeed {v} reports the gradient norm 1.0 if a gradient is Inf or NaN",
     .signature = "a gradient norm of exactly 1.0, once or from a step on",
     .evidence = FaultEvidence::run,
     .seen = "1.0 in 0.16.9 to 0.19.2; NaN in 0.14.4 to 0.16.5; Inf in 0.19.8. With the check, skipped steps up to "
             "0.19.7 repeat the last finite norm",
     .source = "runtime/zero/stage_1_and_2.py; PR #7171",
     .sample = R"({"bf16": {"enabled": true, "check_grad_overflow": false}, "zero_optimization": {"stage": 1}})"},
    {.id = "ds-clip-inf",
     .package = "deepspeed",
     .first_bad = "0.13.2",
     .first_good = "0.16.6",
     .code = FindingCode::warning,
     .trigger = "bf16, ZeRO, gradient clipping",
     .keys = {"gradient_clipping", "bf16.enabled", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_bf16(f) && f.stage >= 1 && clips(c) && !c.flag("bf16.check_grad_overflow");
         },
     .computes = "an infinite norm becomes NaN (0 times Inf), and the gradients are clipped by it. fp16 skips a step "
                 "that overflows before the norm is computed",
     .consequence = "one infinite gradient turns all gradients into NaN",
     .remedy = "deepspeed 0.16.6",
     .sentence = "DeepSpeed {v} turns an infinite gradient norm into NaN and clips by it: all gradients become NaN",
     .evidence = FaultEvidence::read,
     .seen = "0.16.5 was read: fp16 returns before the norm (stage_1_and_2.py:1851-1870), bf16 checks nothing "
             "(:1728-1734, :1987-1999; stage3.py:1813-1820); the logged norm is NaN in 0.16.5",
     .source = "runtime/zero/stage_1_and_2.py; commits 61daaa1ea, 1f706621f; issue #5242, PR #7171",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}, "gradient_clipping": 1.0})"},
    {.id = "ds-clip-not-applied",
     .package = "deepspeed",
     .first_bad = "0.13.2",
     .first_good = "0.13.3",
     .code = FindingCode::warning,
     .trigger = "gradient clipping",
     .keys = {"gradient_clipping"},
     .holds = clips,
     .computes = "clip_grad_norm_ computes the coefficient and does not apply it",
     .consequence = "gradients are not clipped",
     .remedy = "deepspeed 0.13.3",
     .sentence = "clip_grad_norm_ of DeepSpeed {v} does not scale the gradients: they are not clipped",
     .evidence = FaultEvidence::read,
     .seen = "both releases",
     .source = "runtime/utils.py; PR #4915, PR #5150",
     .sample = R"({"bf16": {"enabled": true}, "gradient_clipping": 1.0})"},
    {.id = "ds-clipping-default",
     .package = "deepspeed",
     .first_bad = "0.19.3",
     .newest_seen = "0.19.8",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "gradient_clipping not set",
     .keys = {"gradient_clipping"},
     .holds = [](const Context& c) { return !c.has("gradient_clipping"); },
     .computes = "gradients are clipped at norm 1.0 by default; before, they were not clipped",
     .consequence = "an upgrade changes the trajectory",
     .remedy = "\"gradient_clipping\": 1.0, or 0.0 for none",
     .cure = "gradient_clipping=1.0",
     .sentence = "`gradient_clipping` is not set: DeepSpeed clips at 1.0 from 0.19.3 on, and did not clip before",
     .evidence = FaultEvidence::read,
     .seen = "every tag from 0.12.0 to 0.19.5",
     .source = "runtime/constants.py GRADIENT_CLIPPING_DEFAULT; PR #8068",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})"},
    {.id = "ds-autocast-clip",
     .package = "deepspeed",
     .first_bad = "0.17.2",
     .newest_seen = "0.19.8",
     .code = FindingCode::error,
     .trigger = "torch_autocast in fp16 with ZeRO and gradient clipping",
     .keys = {"gradient_clipping", "torch_autocast.dtype", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return autocasts(c, f, 'H') && f.stage >= 1 && clips(c);
         },
     .computes = "gradients are clipped while they still carry the loss scale, and are then divided by it",
     .consequence = "updates are about 65536 times too small; the logged norm is multiplied by the scale",
     .remedy = "\"gradient_clipping\": 0, or \"dtype\": \"bfloat16\" in torch_autocast",
     .cure = "gradient_clipping=0",
     .sentence = "with torch_autocast in fp16 and ZeRO, DeepSpeed {v} clips gradients that still carry the loss scale: "
                 "the updates are about 65536 times too small",
     .signature = "a gradient norm in the ten thousands and a flat loss",
     .evidence = FaultEvidence::run,
     .seen = "clipped at 1.0, the weight moves by 5.4e-6 in 0.17.2 and 0.19.8 and by 1.1e-5 in 0.18.6, with a logged "
             "norm of 46341; without clipping it moves by 0.25",
     .source = "runtime/zero/stage_1_and_2.py; runtime/engine.py (torch_autocast_z0_gradscaler)",
     .sample = R"({"torch_autocast": {"enabled": true, "dtype": "float16"}, "zero_optimization": {"stage": 1},
"gradient_clipping": 1.0})"},
    {.id = "ds-autocast-z0-unscaled",
     .package = "deepspeed",
     .first_bad = "0.17.2",
     .first_good = "0.18.0",
     .code = FindingCode::warning,
     .trigger = "torch_autocast in fp16 without ZeRO",
     .keys = {"torch_autocast.dtype", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return autocasts(c, f, 'H') && f.stage == 0;
         },
     .computes = "there is no loss scaler, and steps with Inf are not skipped",
     .consequence = "small gradients underflow, and an overflow reaches the weights",
     .remedy = "deepspeed 0.18.0, or \"dtype\": \"bfloat16\" in torch_autocast",
     .cure = "torch_autocast.dtype=bfloat16",
     .sentence = "with torch_autocast in fp16 and without ZeRO, DeepSpeed {v} has no loss scaler: small gradients "
                 "underflow, and Inf reaches the weights",
     .evidence = FaultEvidence::run,
     .seen = "a step with Inf is taken in 0.17.2 and 0.17.6, and is skipped in 0.18.3",
     .source = "runtime/engine.py; PR #7619",
     .sample = R"({"torch_autocast": {"enabled": true, "dtype": "float16"}, "zero_optimization": {"stage": 0}})"},
    {.id = "ds-autocast-bf16-scaler",
     .package = "deepspeed",
     .first_bad = "0.17.2",
     .first_good = "0.17.6",
     .code = FindingCode::warning,
     .trigger = "torch_autocast in bf16 with ZeRO",
     .keys = {"torch_autocast.dtype", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return autocasts(c, f, 'B') && f.stage >= 1;
         },
     .computes = "a GradScaler is used for bf16 too, and a tied parameter is reduced more than once",
     .consequence = "the gradient norm is multiplied by the scale, and gradients of tied weights are wrong",
     .remedy = "deepspeed 0.18.6",
     .sentence = "with torch_autocast in bf16 and ZeRO, DeepSpeed {v} scales the loss, and sums gradients of tied "
                 "weights more than once",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "PR #7534",
     .sample = R"({"torch_autocast": {"enabled": true, "dtype": "bfloat16"}, "zero_optimization": {"stage": 1}})"},
    {.id = "ds-gas-overflow",
     .package = "deepspeed",
     .first_bad = "0.18.3",
     .first_good = "0.19.6",
     .code = FindingCode::note,
     .trigger = "fp16 with a dynamic scale and gradient accumulation",
     .keys = {"fp16.initial_scale_power", "gradient_accumulation_steps"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_fp16(f) && f.dynamic && accumulates(c);
         },
     .asks = asks_for_few_ranks,
     .computes = "gradients are divided by the number of micro-batches after the backward pass, so they are larger in "
                 "fp16 by this number",
     .consequence =
         "log2 of the number of micro-batches more steps are skipped, and the scale settles lower by as many "
         "powers of two",
     .remedy = "deepspeed 0.19.6, or an initial_scale_power that is lower by log2(gradient_accumulation_steps)",
     .sentence = "DeepSpeed {v} divides by the number of micro-batches after the backward pass: the loss scale settles "
                 "lower by this factor",
     .evidence = FaultEvidence::run,
     .seen = "the first step is skipped at scale 2^16 in 0.18.3 to 0.19.3, and is taken up to 0.17.6, in 0.19.6 and in "
             "0.19.8",
     .source = "runtime/engine.py (_backward_prologue_per_tensor); PR #7665",
     .sample = R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}, "gradient_accumulation_steps": 8})"},
    {.id = "ds-scale-wrt-gas-ignored",
     .package = "deepspeed",
     .first_bad = "0.18.3",
     .first_good = "0.18.4",
     .code = FindingCode::error,
     .trigger = "DeepSpeed in the Trainer of Transformers 4.49 or newer, gradient accumulation",
     .keys = {"gradient_accumulation_steps", "deepspeed"},
     .importers = "transformers axolotl",
     .holds =
         [](const Context& c) {
             return history::names_deepspeed(c) && history::accumulates(c) && c.since("transformers", "4.49");
         },
     .computes =
         "the engine ignores scale_wrt_gas=False, so gradients are divided by the number of micro-batches twice",
     .consequence = "SGD learns more slowly by this number, and clipping has no effect",
     .remedy = "deepspeed 0.18.4, or gradient_accumulation_steps: 1",
     .cure = "gradient_accumulation_steps=1",
     .sentence = "DeepSpeed {v} ignores that the Trainer has divided the loss by gradient_accumulation_steps, and "
                 "divides the gradients by it again",
     .signature = "a gradient norm that is smaller than without accumulation by the number of micro-batches",
     .evidence = FaultEvidence::run,
     .seen =
         "backward(loss, scale_wrt_gas=False) with two micro-batches moves the weight by 0.25 in 0.18.3, and by 0.5 "
         "in 0.18.2 and 0.18.4",
     .source = "runtime/engine.py; PR #7724; accelerate issue #3877",
     .sample = R"({"per_device_train_batch_size": 4, "bf16": true, "gradient_accumulation_steps": 4, "deepspeed":
{"bf16": {"enabled": "auto"}, "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 1}}})"},
    {.id = "ds-z2-offload-accumulation",
     .package = "deepspeed",
     .first_good = "0.15.2",
     .code = FindingCode::warning,
     .trigger = "ZeRO 2 with the optimiser on the CPU and gradient accumulation",
     .keys = {"zero_optimization.offload_optimizer.device", "gradient_accumulation_steps", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return f.stage == 2 && f.offload && accumulates(c);
         },
     .asks = asks_for_few_ranks,
     .computes =
         "the counter of micro-batches starts at the wrong value, so buffers are copied where they must be added",
     .consequence = "sums over micro-batches may be wrong",
     .remedy = "deepspeed 0.15.2, or the optimiser on the GPU",
     .cure = "zero_optimization.offload_optimizer.device=none",
     .sentence =
         "with ZeRO 2, the optimiser on the CPU and gradient accumulation, DeepSpeed {v} may copy micro-batches "
         "where it must add them",
     .evidence = FaultEvidence::read,
     .seen = "both releases. In steps of 0.14.4 to 0.15.1 with two micro-batches on a CPU, the sums are right",
     .source = "runtime/zero/stage_1_and_2.py; PR #6550",
     .sample = R"({"bf16": {"enabled": true}, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2,
"offload_optimizer": {"device": "cpu"}}})"},
    {.id = "ds-z1-overflow-local",
     .package = "deepspeed",
     .first_bad = "0.17.1",
     .first_good = "0.18.0",
     .code = FindingCode::warning,
     .trigger = "fp16, ZeRO 1, more than one rank",
     .keys = {"zero_optimization.stage", "fp16.enabled"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_fp16(f) && f.stage == 1;
         },
     .question = "more than one rank trains",
     .computes = "the overflow flag is not combined over ranks, so each rank skips steps on its own",
     .consequence = "weights and loss scales of the ranks differ",
     .remedy = "deepspeed 0.18.4",
     .sentence = "with fp16 and ZeRO 1, DeepSpeed {v} lets each rank skip steps on its own: weights and loss scales "
                 "drift apart",
     .evidence = FaultEvidence::read,
     .seen = "the source of the releases around it; not run on several ranks",
     .source = "runtime/zero/stage_1_and_2.py; issue #7568, PR #7580; the flag came with PR #6976",
     .sample = R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}})"},
    {.id = "ds-overlap-race",
     .package = "deepspeed",
     .first_good = "0.19.3",
     .code = FindingCode::warning,
     .trigger = "ZeRO 1 or 2 with overlap_comm",
     .keys = {"zero_optimization.overlap_comm", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const int stage = facts(c).stage;
             return (stage == 1 || stage == 2) && c.flag("zero_optimization.overlap_comm");
         },
     .computes = "a bucket can be reduced before all streams have written it",
     .consequence = "rare wrong gradients that cannot be reproduced",
     .remedy = "deepspeed 0.19.3, or \"overlap_comm\": false",
     .cure = "zero_optimization.overlap_comm=false",
     .sentence =
         "with overlap_comm, DeepSpeed {v} can reduce a bucket before it is complete: rarely, gradients are wrong",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "runtime/zero/stage_1_and_2.py (average_tensor); issue #8061, PR #8080",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "overlap_comm": true}})"},
    {.id = "ds-z0-bf16-allreduce",
     .package = "deepspeed",
     .first_good = "0.13.3",
     .code = FindingCode::warning,
     .trigger = "bf16 without ZeRO, more than one rank",
     .keys = {"zero_optimization.stage", "bf16.enabled"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_bf16(f) && f.stage == 0;
         },
     .question = "more than one rank trains",
     .computes = "the bf16 gradients are summed over ranks, but the step uses the fp32 sums of each rank",
     .consequence = "the weights of the ranks drift apart",
     .remedy = "deepspeed 0.13.3, or \"zero_optimization\": {\"stage\": 1}",
     .cure = "zero_optimization.stage=1",
     .sentence = "without ZeRO, DeepSpeed {v} sums bf16 gradients over ranks but steps with the fp32 sums of each rank",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "PR #5170",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 0}})"},
    {.id = "ds-z0-ulysses",
     .package = "deepspeed",
     .first_good = "0.14.3",
     .code = FindingCode::warning,
     .trigger = "sequence parallelism without ZeRO",
     .keys = {"zero_optimization.stage"},
     .holds = [](const Context& c) { return facts(c).stage == 0; },
     .question = "the program uses sequence parallelism (Ulysses)",
     .computes = "gradients are divided by the sequence-parallel size in addition to the data-parallel size",
     .consequence = "gradients are too small by the sequence-parallel size",
     .remedy = "deepspeed 0.14.3, or \"zero_optimization\": {\"stage\": 1}",
     .cure = "zero_optimization.stage=1",
     .sentence = "without ZeRO, DeepSpeed {v} divides gradients by the sequence-parallel size as well",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it; its text gives a norm of 3.96 in place of 15.8 with four ranks",
     .source = "PR #5555",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 0}})"},
    {.id = "ds-offload-norm",
     .package = "deepspeed",
     .first_good = "0.17.0",
     .code = FindingCode::note,
     .trigger = "optimiser on the CPU with gradient clipping",
     .keys = {"gradient_clipping", "zero_optimization.offload_optimizer.device"},
     .holds = [](const Context& c) { return facts(c).offload && clips(c); },
     .computes = "the reported norm is not that of the clipped gradients",
     .consequence = "only the logged norm is wrong",
     .remedy = "deepspeed 0.17.0",
     .sentence = "with the optimiser on the CPU, the gradient norm that DeepSpeed {v} reports ignores the clipping",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "PR #7302",
     .sample = R"({"bf16": {"enabled": true}, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2,
"offload_optimizer": {"device": "cpu"}}})"},
    {.id = "ds-cpuadam-subgroup",
     .package = "deepspeed",
     .first_good = "0.19.0",
     .code = FindingCode::warning,
     .trigger = "ZeRO 3 with Adam on the CPU",
     .keys = {"zero_optimization.offload_optimizer.device", "zero_optimization.stage"},
     .holds = uses_cpu_adam,
     .asks = [](const Context& c) -> std::string_view {
         return facts(c).optimizer.empty() ? "the optimiser of the program is DeepSpeedCPUAdam" : "";
     },
     .computes = "the step counter advances with each sub-group of parameters, so later sub-groups have a wrong bias "
                 "correction",
     .consequence = "the parameters of one step use different bias corrections",
     .remedy = "deepspeed 0.19.0, or the optimiser on the GPU",
     .cure = "zero_optimization.offload_optimizer.device=none",
     .sentence = "with ZeRO 3 and Adam on the CPU, DeepSpeed {v} counts a step for each sub-group: bias corrections "
                 "differ within one step",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "csrc/adam; issue #7819, PR #7982",
     .sample = R"({"bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}})"},
    {.id = "ds-buffers-cast",
     .package = "deepspeed",
     .first_good = "0.19.2",
     .code = FindingCode::warning,
     .trigger = "fp16 or bf16",
     .keys = {"bf16.enabled", "fp16.enabled"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return f.low != 'F' && !f.amp;
         },
     .computes = "buffers are cast together with the module, so the frequencies of rotary embeddings are rounded",
     .consequence = "the angles of distant positions are wrong",
     .remedy = "deepspeed 0.19.2, or compute the frequencies in the forward pass",
     .sentence = "DeepSpeed {v} casts buffers with the model: the frequencies of rotary embeddings are rounded",
     .finding = "deepspeed/buffers-cast",
     .evidence = FaultEvidence::read,
     .seen = "every tag",
     .source = "runtime/engine.py; PR #8066",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})"},
    {.id = "ds-bf16-stale-masters",
     .package = "deepspeed",
     .first_good = "0.13.0",
     .code = FindingCode::warning,
     .trigger = "bf16, and a checkpoint of which only the weights are loaded",
     .keys = {"bf16.enabled", "zero_optimization.stage"},
     .holds = [](const Context& c) { return is_bf16(facts(c)); },
     .question =
         "a checkpoint is loaded without the states of the optimiser (load_module_only; `finetune` of GPT-NeoX)",
     .computes = "the fp32 masters keep the values from before loading, usually the random initial ones, and the first "
                 "step writes them into the weights",
     .consequence = "the loaded weights are lost: the first loss is that of the checkpoint, the second is near ln V",
     .remedy = "deepspeed 0.13.0, or load the weights before deepspeed.initialize",
     .sentence =
         "DeepSpeed {v} does not copy the loaded weights into the fp32 masters of bf16: the first step replaces "
         "the weights by what they were before loading",
     .signature = "the loss of the first step is that of the checkpoint, and that of the second is near ln V",
     .evidence = FaultEvidence::read,
     .seen = "load_checkpoint with load_module_only refreshes the masters only for fp16 in ten tags from 0.5.10 to "
             "0.12.6, and always in 0.13.0",
     .source = "runtime/engine.py 0.10.0:2712, 0.12.6:2804, 0.13.0:2835; PR #4141; GPT-NeoX megatron/checkpointing.py; "
               "gpt-neox issue #947",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})"},
    {.id = "ds-bf16-assert-nan",
     .package = "deepspeed",
     .first_good = "0.19.8",
     .code = FindingCode::note,
     .trigger = "bf16 with BF16_Optimizer (ZeRO 1, fp32 sums of gradients)",
     .keys = {"data_types.grad_accum_dtype", "bf16.enabled", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_bf16(f) && f.bf16_optimizer;
         },
     .computes = "a gradient norm that is 0, Inf or NaN ends the run with an AssertionError without a text",
     .consequence = "a traceback that does not name the cause",
     .remedy = "look for the NaN in the loss of the last step",
     .sentence =
         "an AssertionError in bf16_optimizer.py of DeepSpeed {v} means that the gradient norm is 0, Inf or NaN",
     .signature = "assert all_groups_norm > 0.",
     .evidence = FaultEvidence::run,
     .seen = "AssertionError in a step with Inf in 0.14.4 to 0.19.7; the step is skipped in 0.19.8",
     .source = "runtime/bf16_optimizer.py",
     .sample = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1},
"data_types": {"grad_accum_dtype": "fp32"}})"},
};

}  // namespace

}  // namespace faults_of_deepspeed

std::span<const FaultRow> deepspeed_faults() { return faults_of_deepspeed::rows; }

}  // namespace macheps::configs
