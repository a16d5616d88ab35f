// SPDX-License-Identifier: Apache-2.0
// FSDP as Accelerate sets it up. Used for the files of Accelerate and of Transformers, which passes FSDP on to
// Accelerate.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string_view>

namespace macheps::configs {

/// Sets every field of a model under FSDP of `version` (1 or 2) with the mixed precision `low` (H or B), which the key
/// `from_path` chose: fp32 shards, a low copy for forward and backward, sums between ranks in the low format, and
/// autocast over everything.
void set_accelerate_fsdp(ImportContext& context, char low, int version, std::string_view from_path);

/// Reports the findings about this FSDP. `key` is the key of the mixed precision.
void report_accelerate_fsdp(ImportContext& context, char low, int version, std::string_view key);

}  // namespace macheps::configs
