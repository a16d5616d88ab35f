// SPDX-License-Identifier: Apache-2.0
// Lists the operand formats of a model's matmuls under a policy.
#pragma once
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"

#include <string>

namespace macheps::training {

/// Returns the pairs of operand formats in the matmuls of a training step (forward and backward), each with its number
/// of multiply-adds for one sample. The text has the syntax of RunRow::matmul_formats, for example
/// `bf16*bf16:98304;e4m3fn/mx32*e5m2/mx32:24576`. The pairs are in the order in which the model first uses them.
/// Attention products count all positions, masked or not. `sites` must be the list for which `policy` was resolved.
std::string matmul_formats(const ModelConfig& model, const policy::SiteList& sites,
                           const policy::ResolvedPolicy& policy);

}  // namespace macheps::training
