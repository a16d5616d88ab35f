// SPDX-License-Identifier: Apache-2.0
// FSDP as Accelerate configures it. Sources: accelerate/utils/dataclasses.py (set_mixed_precision of
// FullyShardedDataParallelPlugin), accelerator.py (prepare_model).
#include "experiments/configs/accelerate/fsdp.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs {

void set_accelerate_fsdp(ImportContext& context, char low, int version, std::string_view from_path) {
    set_storage(context, storage::fsdp, low, from_path);
    const std::string why = fmt::format("Accelerate's policy for FSDP {} in {}", version, format_word(low));
    context.infer("oplist", word_field("torch-cuda"), "Accelerate also wraps the forward pass of FSDP in autocast");
    context.infer("reduce", letter(low), why);
    // FSDP 2 has no dtype option for buffers, so buffers keep the format in which they were loaded.
    context.infer("buffers", letter(version == 1 ? low : 'F'), why);
    context.infer("predivide", {.value = std::string(version == 2 && low == 'B' ? "average" : "split"), .parts = {}},
                  why);
    if (low == 'H')
        context.infer("scaler", torch_scaler_field({.sharded = version == 1}), why);
    else
        context.infer("scaler", no_scaler_field(), why);
}

void report_accelerate_fsdp(ImportContext& context, char low, int version, std::string_view key) {
    context.report(FindingCode::warning, "fsdp-low-reduce", {key},
                   fmt::format("Accelerate gives FSDP one format for everything: gradients are also summed between "
                               "ranks in {}, although fp32 is usually recommended",
                               format_word(low)),
                   version == 1 ? "FullyShardedDataParallelPlugin(mixed_precision_policy=MixedPrecision(reduce_dtype="
                                  "torch.float32, ...)) in the program"
                                : "FullyShardedDataParallelPlugin(mixed_precision_policy=MixedPrecisionPolicy(reduce_"
                                  "dtype=torch.float32, ...)) in the program");
    context.report(FindingCode::note, "fsdp-upcast", {key},
                   "shards of trainable parameters are widened to fp32 whatever the format of the checkpoint, so that "
                   "the optimiser has fp32 weights",
                   {});
    context.report(FindingCode::note, "fsdp-autocast", {key},
                   "the forward pass also runs under autocast, which widens the operations on its fp32 list", {});
}

}  // namespace macheps::configs
