// SPDX-License-Identifier: Apache-2.0
// FSDP as Accelerate configures it. The importers of Transformers and Axolotl also use these functions, because both
// frameworks leave FSDP to Accelerate.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string_view>

namespace macheps::configs {

/// A training with FSDP in mixed precision.
struct AccelerateFsdp {
    char low = 'B';     ///< the low-precision format: fp16 (H) or bf16 (B)
    int version = 1;    ///< FSDP 1 or 2
    char loaded = 'F';  ///< format of the model before Accelerate prepares it; 0: the format of its checkpoint
    /// Whether Accelerate's own function prepares the model for FSDP 2. Axolotl replaces it by a function that widens
    /// no parameters.
    bool widens = true;
};

/// Sets every field. `from_path` is the key of the config that selects the low-precision format. Shards are fp32,
/// except in releases that do not widen a low-precision model. The forward and backward passes use a low-precision copy
/// under autocast, and ranks sum gradients in the low format.
void set_accelerate_fsdp(ImportContext& context, const AccelerateFsdp& fsdp, std::string_view from_path);

/// Reports the findings about this FSDP configuration. `key` is the key of the mixed precision.
void report_accelerate_fsdp(ImportContext& context, const AccelerateFsdp& fsdp, std::string_view key);

}  // namespace macheps::configs
