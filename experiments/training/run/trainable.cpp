// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/trainable.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace macheps::training {

namespace {

/// Returns true if `narrow` has fewer significand bits or fewer bits than `wide`. bf16 therefore counts as narrower
/// than fp16, despite its wider range.
bool is_narrower(const Format& narrow, const Format& wide) {
    return narrow.precision < wide.precision || narrow.bits < wide.bits;
}

[[noreturn]] void refuse(const policy::ResolvedPolicy& policy, const std::string& parameter, std::string_view rule,
                         const std::string& what, const std::string& fix) {
    throw Error({.what = fmt::format("{} [{}]", what, rule),
                 .where = fmt::format("policy {}, parameter {}", policy.name, parameter),
                 .fix = fix,
                 .exit = Exit::check_failed});
}

}  // namespace

void check_trainable(const policy::ResolvedPolicy& policy) {
    const std::string_view scaler = policy.loss_scaler.kind->name;
    for (const auto& place : policy.order) {
        const std::string& name = place.first;
        if (place.second != "value") continue;
        const auto format = [&](const char* of) { return policy.cast(name + ":" + of).format; };
        if (policy.has_master(name) && is_narrower(format("master"), format("value"))) {
            refuse(policy, name, "train/master-narrower-than-store",
                   fmt::format("the format of the master copy, {}, is narrower than that of the weight, {}",
                               format_name(format("master")), format_name(format("value"))),
                   "use a master copy in fp32, or none");
        }
        const Format sum = format(policy.has_sum(name) ? "accum" : "grad");
        if (scaler == "torch" && sum == fp16) {
            refuse(policy, name, "torch/fp16-gradients",
                   "GradScaler raises ValueError, \"Attempting to unscale FP16 gradients\", before the first step",
                   "use fp32 weights with autocast, or FSDP's scaler, torch-sharded, which accepts fp16 gradients");
        }
    }
}

void check_batches(const policy::ResolvedPolicy& policy, const ModelConfig& model, const TrainOptions& options) {
    const std::int64_t tokens = options.batch / max_of(options.ranks, std::int64_t{1}) * model.context;
    for (const auto& [slot, cast] : policy.casts) {
        const std::string where = fmt::format("policy {}, {}", policy.name, slot);
        if (cast.hadamard && tokens % 16 != 0) {
            throw Error({.what = fmt::format("'{}' mixes 16 tokens at a time, but a batch has {} tokens",
                                             to_string(cast), tokens),
                         .where = where,
                         .fix = "use a `batch` whose number of tokens is a multiple of 16"});
        }
        // Each scale depends on the amaxes of all ranks. This process runs the ranks one after the other, each with all
        // its micro-batches, so these amaxes are not known before the second micro-batch.
        if (cast.has_history() && options.ranks > 1 && options.micro_batches > 1) {
            throw Error({.what = fmt::format(
                             "'{}' cannot be used on {} ranks with {} micro-batches each: the second micro-batch of a "
                             "rank would need the amaxes of the other ranks' first micro-batches, which are "
                             "computed later",
                             to_string(cast), options.ranks, options.micro_batches),
                         .where = where,
                         .fix = "use `ranks` or `micro_batches`, not both"});
        }
    }
}

}  // namespace macheps::training
