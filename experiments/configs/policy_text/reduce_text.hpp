// SPDX-License-Identifier: Apache-2.0
// How ranks add up gradients: the field `predivide` of FSDP, and the table [reduce] of a policy that is imported from a
// config.
#pragma once
#include "experiments/configs/resolved.hpp"

#include <string>

namespace macheps::configs {

/// Returns the value of the field `predivide` for a version of FSDP. The field `reduce` must already be set. FSDP 2
/// lets NCCL compute the mean, except in fp16. In fp16 it divides before and after the sum, as FSDP 1 does in every
/// format.
FieldValue fsdp_average(const ResolvedConfig& config, int version);

/// Returns the table [reduce] and a comment before it. The values come from the config fields `reduce` and `predivide`.
/// The table sets `bucket` even if neither field is set.
std::string reduce_text(const ResolvedConfig& config);

}  // namespace macheps::configs
