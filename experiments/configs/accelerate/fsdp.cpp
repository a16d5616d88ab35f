// SPDX-License-Identifier: Apache-2.0
// FSDP as Accelerate configures it. Sources: accelerate/utils/dataclasses.py (set_mixed_precision of
// FullyShardedDataParallelPlugin), accelerator.py (prepare_model).
#include "experiments/configs/accelerate/fsdp.hpp"
#include "experiments/configs/policy_text/reduce_text.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs {

namespace {

/// Returns the format of the shards of trainable parameters. Accelerate widens them to fp32, except with FSDP 2 in
/// 1.13: that release converts only a loop variable, although a warning says that it widens the parameters. Sources:
/// fsdp_utils.py of 1.12.0, 1.13.0 and 1.14.0; axolotl/monkeypatch/accelerate/fsdp2.py of 0.17.0 to 0.19.0.
char shard_format(const ImportContext& context, const AccelerateFsdp& fsdp) {
    if (fsdp.version == 1) return 'F';
    if (fsdp.widens && (!context.since("accelerate", "1.13") || context.since("accelerate", "1.14"))) return 'F';
    return fsdp.loaded != 0 ? fsdp.loaded : dtype_letter(context.checkpoint_dtype());
}

}  // namespace

void set_accelerate_fsdp(ImportContext& context, const AccelerateFsdp& fsdp, std::string_view from_path) {
    const char low = fsdp.low;
    const int version = fsdp.version;
    set_storage(context, storage::fsdp, low, from_path);
    const std::string why = fmt::format("Accelerate's policy for FSDP {} in {}", version, format_word(low));
    if (const char shard = shard_format(context, fsdp); shard != 'F') {
        for (const std::string_view field : {"store", "grad", "accum", "opt_state"})
            context.infer(field, letter(shard), "the shards of FSDP 2 are not widened to fp32");
    }
    context.infer("oplist", word_field("torch-cuda"), "Accelerate also wraps the forward pass of FSDP in autocast");
    context.infer("reduce", letter(low), why);
    // FSDP 2 has no dtype option for buffers, so buffers keep the format in which they were loaded.
    context.infer("buffers", letter(version == 1 ? low : 'F'), why);
    context.infer("predivide", fsdp_average(context.resolved(), version), why);
    if (low == 'H')
        context.infer("scaler", torch_scaler_field({.sharded = version == 1}), why);
    else
        context.infer("scaler", no_scaler_field(), why);
}

void report_accelerate_fsdp(ImportContext& context, const AccelerateFsdp& fsdp, std::string_view key) {
    context.report(FindingCode::warning, "fsdp-low-reduce", {key},
                   fmt::format("Accelerate gives FSDP one format for everything: gradients are also summed between "
                               "ranks in {}, although fp32 is usually recommended",
                               format_word(fsdp.low)),
                   fsdp.version == 1
                       ? "FullyShardedDataParallelPlugin(mixed_precision_policy=MixedPrecision(reduce_dtype="
                         "torch.float32, ...)) in the program"
                       : "FullyShardedDataParallelPlugin(mixed_precision_policy=MixedPrecisionPolicy(reduce_"
                         "dtype=torch.float32, ...)) in the program");
    if (const char shard = shard_format(context, fsdp); shard != 'F') {
        context.report(
            FindingCode::warning, "fsdp-no-master", {key},
            fmt::format("{}: they stay {}, gradients and the optimiser's state are {} too, and small updates are lost",
                        fsdp.widens
                            ? fmt::format("Accelerate {} warns that it widens the shards of FSDP 2 to fp32",
                                          to_string(context.version("accelerate")))
                            : "Accelerate would widen the shards of FSDP 2 to fp32, but its function is replaced",
                        format_word(shard), format_word(shard)),
            fsdp.widens ? "accelerate 1.14.0 or newer, or a model that is loaded in fp32"
                        : "FSDP 1 or DeepSpeed, which keep fp32 weights for the optimiser");
    } else {
        context.report(FindingCode::note, "fsdp-upcast", {key},
                       "shards of trainable parameters are widened to fp32 whatever the format of the checkpoint, so "
                       "that the optimiser has fp32 weights",
                       {});
    }
    context.report(FindingCode::note, "fsdp-autocast", {key},
                   "the forward pass also runs under autocast, which widens the operations on its fp32 list", {});
}

}  // namespace macheps::configs
