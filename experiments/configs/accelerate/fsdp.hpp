// SPDX-License-Identifier: Apache-2.0
// FSDP as Accelerate sets it up, for its own files and for Transformers', which hands FSDP to it.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string_view>

namespace macheps::configs {

/// Sets every field of a model under FSDP of `version` (1 or 2) whose mixed precision is `low` (H or B), as `from_path`
/// chose it: fp32 shards, a low copy for forward and backward, sums between ranks in the low format, and autocast over all.
void set_accelerate_fsdp(ImportContext& context, char low, int version, std::string_view from_path);

/// What there is to say about it; `key` is the switch of the mixed precision.
void report_accelerate_fsdp(ImportContext& context, char low, int version, std::string_view key);

}  // namespace macheps::configs
