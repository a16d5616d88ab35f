// SPDX-License-Identifier: Apache-2.0
// FSDP as Accelerate configures it. The importers of Transformers and Axolotl also use these functions, because both
// frameworks leave FSDP to Accelerate.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string_view>

namespace macheps::configs {

/// Sets every field for a training with FSDP 1 or 2 (`version`) in mixed precision. `low` is the low-precision format,
/// fp16 (H) or bf16 (B), and `from_path` is the key of the config that selects it. Shards are fp32. The forward and
/// backward passes use a low-precision copy under autocast, and ranks sum gradients in the low format.
void set_accelerate_fsdp(ImportContext& context, char low, int version, std::string_view from_path);

/// Reports the findings about this FSDP configuration. `key` is the key of the mixed precision.
void report_accelerate_fsdp(ImportContext& context, char low, int version, std::string_view key);

}  // namespace macheps::configs
