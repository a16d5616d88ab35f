// SPDX-License-Identifier: Apache-2.0
// Faults of Accelerate.
#include "experiments/configs/accelerate/accelerate.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/history/predicates.hpp"
#include "experiments/configs/transformers/transformers.hpp"

namespace macheps::configs {

namespace faults_of_accelerate {

namespace {

using accelerate::Backend;
using accelerate::Facts;
using Context = ImportContext;

Facts facts(const Context& c) { return accelerate::facts(c); }

/// Returns whether FSDP 2 with mixed precision trains weights that are low precision, or may be.
bool has_low_shards(const Context& c) {
    if (!history::may_have_low_checkpoint(c)) return false;
    if (c.framework().name != "transformers") {
        const Facts f = facts(c);
        return f.fsdp && f.fsdp_version == 2 && f.autocast != 'F';
    }
    const transformers::Facts f = transformers::facts(c);
    return history::loads_stored_dtype(c) && f.fsdp && f.fsdp_version == 2 && f.autocast != 'F';
}
/// Returns whether FSDP 1 with mixed precision trains weights that are loaded in a low-precision format, or may be.
bool has_low_flat_parameters(const Context& c) {
    const Facts f = facts(c);
    return f.fsdp && f.fsdp_version == 1 && f.autocast != 'F' && history::may_have_low_checkpoint(c);
}
/// LLaMA-Factory and TRL, which share the root with Transformers, choose the dtype of the weights themselves.
std::string_view asks_for_low_weights(const Context& c) {
    return c.root_is_shared() ? "the weights are loaded in bf16 or fp16" : history::asks_for_low_checkpoint(c);
}

/// Returns whether the file asks for fp8 on a device that has it.
bool is_fp8(const Facts& f) { return f.asked == "fp8" && f.precision != "fp16"; }

/// Returns whether fp8 comes from the launcher's file, and its backend does not have the effect that the file says.
bool loses_fp8_backend(const Context& c) {
    const Facts f = facts(c);
    if (!is_fp8(f) || f.deepspeed || f.megatron) return false;
    const bool uses_installed = f.fp8_source == accelerate::Fp8Source::installed;
    return f.fp8_source == accelerate::Fp8Source::none || (uses_installed && f.backend != accelerate::Backend::torchao);
}

const FaultRow rows[] = {
    {.id = "acc-fsdp2-upcast-noop",
     .package = "accelerate",
     .first_bad = "1.13.0",
     .first_good = "1.14.0",
     .code = FindingCode::error,
     .trigger = "FSDP 2 with mixed precision, weights loaded in bf16 or fp16",
     .keys = {"fsdp_config.fsdp_version", "mixed_precision"},
     .importers = "accelerate transformers",
     .holds = has_low_shards,
     .asks = asks_for_low_weights,
     .computes =
         "the widened parameter is assigned to a local variable: shards stay in the low-precision format, while a "
         "warning says that they are fp32",
     .consequence = "no fp32 master weights, and moments of Adam in the low-precision format",
     .remedy = "accelerate 1.14.0 or 1.12.0, or weights loaded in fp32",
     .cure = "fsdp_config.fsdp_version=1",
     .sentence = "Accelerate {v} does not widen the shards of FSDP 2 to fp32, although it says so: there are no fp32 "
                 "master weights",
     .finding = "accelerate/fsdp-no-master",
     .evidence = FaultEvidence::run,
     .seen = "a bf16 model has bf16 shards and moments in 1.13.0, and fp32 ones in 1.12.0, 1.14.0 and 1.15.0",
     .source = "utils/fsdp_utils.py 1.13.0:738-740; issue #3979, PR #3985",
     .sample = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"
               "fsdp_config:\n  fsdp_version: 2\n"},
    {.id = "acc-fp8-deepspeed-off",
     .package = "accelerate",
     .first_bad = "0.30",
     .first_good = "1.4.0",
     .code = FindingCode::warning,
     .trigger = "fp8 with DeepSpeed",
     .keys = {"mixed_precision", "distributed_type"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return is_fp8(f) && f.deepspeed;
         },
     .computes = "no fp8 handler is made: the run computes in bf16",
     .consequence = "the config asks for fp8, and nothing is fp8",
     .remedy = "accelerate 1.4.0, or mixed_precision: bf16",
     .cure = "mixed_precision=bf16",
     .sentence = "with DeepSpeed, Accelerate {v} ignores mixed_precision fp8 and trains in bf16",
     .finding = "accelerate/fp8-not-reached",
     .evidence = FaultEvidence::read,
     .seen = "0.30.1 to 1.3.0",
     .source = "state.py; accelerator.py 1.3.0:3603; PR #3361, #3611",
     .sample =
         "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: fp8\nnum_processes: 8\n"
         "deepspeed_config:\n  zero_stage: 2\n"},
    {.id = "acc-fp8-launcher-off",
     .package = "accelerate",
     .first_bad = "1.6.0",
     .first_good = "1.9.0",
     .code = FindingCode::warning,
     .trigger = "fp8 from the launcher's file",
     .keys = {"fp8_config.backend", "mixed_precision"},
     .holds = loses_fp8_backend,
     .computes = "1.6 and 1.7 make no fp8 handler and train in bf16; 1.8 uses the first installed backend, torchao "
                 "before Transformer Engine",
     .consequence = "the recipe of the file is not used",
     .remedy = "accelerate 1.9.0, or mixed_precision: bf16",
     .cure = "mixed_precision=bf16",
     .sentence =
         "Accelerate {v} does not use the fp8 recipe of the launcher's file: 1.6 and 1.7 train in bf16, and 1.8 "
         "uses the first backend that is installed",
     .finding = "accelerate/fp8-not-reached accelerate/fp8-backend-unread",
     .evidence = FaultEvidence::read,
     .seen = "1.7.0 and 1.9.0",
     .source = "accelerator.py 1.7.0:465; PR #3677",
     .sample =
         "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: fp8\nnum_processes: 8\n"
         "fp8_config:\n  backend: TE\n"},
    {.id = "acc-ao-default",
     .package = "accelerate",
     .first_bad = "1.13.0",
     .newest_seen = "1.15.0",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "fp8 with torchao, its two keys not set",
     .keys = {"fp8_config.pad_inner_dim", "fp8_config.enable_fsdp_float8_all_gather", "fp8_config.backend"},
     .holds =
         [](const Context& c) {
             return facts(c).backend == Backend::torchao &&
                    !(c.has("fp8_config.pad_inner_dim") && c.has("fp8_config.enable_fsdp_float8_all_gather"));
         },
     .computes =
         "the default config of torchao pads inner dimensions and gathers weights in fp8; before, it did neither, "
         "and the two keys were unknown",
     .consequence = "more layers are fp8",
     .remedy = "write pad_inner_dim and enable_fsdp_float8_all_gather",
     .cure = "fp8_config.pad_inner_dim=true fp8_config.enable_fsdp_float8_all_gather=true",
     .sentence = "from Accelerate 1.13 on, torchao's fp8 pads inner dimensions and gathers weights in fp8 by default",
     .evidence = FaultEvidence::read,
     .seen = "every tag",
     .source = "utils/dataclasses.py 1.13.0:334; PR #3831",
     .sample =
         "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: fp8\nnum_processes: 8\n"
         "fp8_config:\n  backend: AO\n"},
    {.id = "acc-mps-no-amp",
     .package = "accelerate",
     .first_good = "1.11.0",
     .code = FindingCode::warning,
     .trigger = "mixed precision on an Apple GPU (mps)",
     .keys = {"mixed_precision"},
     .holds =
         [](const Context& c) {
             const Facts f = facts(c);
             return c.device().name == "mps" && history::is_one_of(f.asked, "fp16 bf16") && !f.on_cpu;
         },
     .computes = "there is no autocast on mps: the run computes in fp32",
     .consequence = "mixed_precision has no effect",
     .remedy = "accelerate 1.11.0",
     .cure = R"(mixed_precision='"no"')",
     .sentence = "Accelerate {v} has no autocast on mps: the run computes in fp32",
     .evidence = FaultEvidence::read,
     .seen = "the change that repaired it",
     .source = "accelerator.py; PR #3373",
     .sample =
         "compute_environment: LOCAL_MACHINE\ndistributed_type: \"NO\"\nmixed_precision: bf16\nnum_processes: 1\n",
     .sample_device = "mps"},
    {.id = "acc-sync-each-batch",
     .package = "accelerate",
     .first_bad = "0.28.0",
     .first_good = "0.31.0",
     .code = FindingCode::error,
     .trigger = "sync_each_batch with gradient accumulation",
     .keys = {"accelerator_config.gradient_accumulation_kwargs.sync_each_batch", "gradient_accumulation_steps"},
     .importers = "transformers",
     .holds =
         [](const Context& c) {
             return c.flag("accelerator_config.gradient_accumulation_kwargs.sync_each_batch") &&
                    history::accumulates(c);
         },
     .computes =
         "every micro-batch counts as the last one: the optimiser steps on each, with a gradient that is divided "
         "by the number of micro-batches",
     .consequence = "nothing is accumulated",
     .remedy = "accelerate 0.31.0, or sync_each_batch: false",
     .cure = "accelerator_config.gradient_accumulation_kwargs.sync_each_batch=false",
     .sentence = "with sync_each_batch, Accelerate {v} steps on every micro-batch: nothing is accumulated",
     .evidence = FaultEvidence::run,
     .seen = "two micro-batches with gradients 0.1 and 0.3: the weight is 1, 0.95, 0.8 in 0.30.1, and 1, 1, 0.8 in "
             "0.31.0",
     .source = "accelerator.py; PR #2531, #2790",
     .sample = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 4\naccelerator_config:\n"
               "  gradient_accumulation_kwargs:\n    sync_each_batch: true\n"},
    {.id = "acc-bare-no",
     .package = "accelerate",
     .first_bad = "0.34.0",
     .newest_seen = "1.15.0",
     .code = FindingCode::error,
     .trigger = "mixed_precision: no, not quoted",
     .keys = {"mixed_precision"},
     .holds =
         [](const Context& c) {
             const files::ConfigValue* value = c.value("mixed_precision");
             return value != nullptr && value->is_boolean() && !value->boolean;
         },
     .computes =
         "the launcher raises AttributeError: 'bool' object has no attribute 'lower'. Older versions read \"no\"",
     .consequence = "the run does not start",
     .remedy = "mixed_precision: \"no\"",
     .cure = R"(mixed_precision='"no"')",
     .sentence = "YAML reads an unquoted no as false, and the launcher of Accelerate {v} raises an error",
     .signature = "'bool' object has no attribute 'lower'",
     .finding = "accelerate/bare-no",
     .evidence = FaultEvidence::run,
     .seen = "accepted in 0.30.1, 0.32.1 and 0.33.0, raised in 0.34.0",
     .source = "utils/launch.py",
     .sample = "compute_environment: LOCAL_MACHINE\ndistributed_type: \"NO\"\nmixed_precision: no\nnum_processes: 1\n"},
    {.id = "acc-fsdp-no-upcast",
     .package = "accelerate",
     .first_bad = "0.20.3",
     .first_good = "0.30.0",
     .code = FindingCode::error,
     .trigger = "FSDP 1 with mixed precision, weights loaded in bf16 or fp16",
     .keys = {"mixed_precision", "distributed_type"},
     .holds = has_low_flat_parameters,
     .asks = history::asks_for_low_checkpoint,
     .computes = "Accelerate does not widen the shards: weights, their gradients and the moments of the optimiser have "
                 "the format of the checkpoint",
     .consequence = "there are no fp32 master weights, and small updates are lost",
     .remedy = "accelerate 0.30.0, or weights loaded in fp32",
     .sentence = "Accelerate {v} does not widen the shards of FSDP to fp32: there are no fp32 master weights, and "
                 "gradients and moments are in the format of the checkpoint",
     .signature = "training is slower than with DeepSpeed, which keeps fp32 master weights",
     .finding = "accelerate/fsdp-upcast",
     .evidence = FaultEvidence::read,
     .seen = "0.20.3, 0.25.0, 0.28.0 and 0.29.0 to 0.29.3 have no such code; 0.30.0 widens each flat parameter",
     .source = "accelerator.py 0.30.0:1486-1539; issue #2624, PR #2674",
     .sample = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"},
    {.id = "acc-fsdp1-upcast",
     .package = "accelerate",
     .first_bad = "0.30.0",
     .newest_seen = "1.15.0",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "FSDP 1 with mixed precision, weights loaded in bf16 or fp16",
     .keys = {"mixed_precision", "distributed_type"},
     .holds = has_low_flat_parameters,
     .asks = history::asks_for_low_checkpoint,
     .computes = "trainable parameters are widened to fp32; before, they were not",
     .consequence = "fp32 master weights, which need more memory",
     .sentence = "Accelerate {v} widens the trainable shards of FSDP 1 to fp32",
     .finding = "accelerate/fsdp-upcast",
     .evidence = FaultEvidence::read,
     .seen = "the change that introduced it",
     .source = "accelerator.py; PR #2674",
     .sample = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"},
};

}  // namespace

}  // namespace faults_of_accelerate

std::span<const FaultRow> accelerate_faults() { return faults_of_accelerate::rows; }

}  // namespace macheps::configs
