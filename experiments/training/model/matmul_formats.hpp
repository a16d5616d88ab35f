// SPDX-License-Identifier: Apache-2.0
// The formats that a model's matmuls multiply under a policy.
#pragma once
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"

#include <string>

namespace macheps::training {

/// Returns the formats of both operands of every matmul of a training step, forward and backward, with the number of
/// multiply-adds for one sample, as in RunRow::matmul_formats: `bf16*bf16:98304;e4m3fn*e5m2:24576`, in the order of the
/// model. Products of attention count all positions, masked or not. `sites` are those that `policy` was resolved
/// against.
std::string matmul_formats(const ModelConfig& model, const policy::SiteList& sites,
                           const policy::ResolvedPolicy& policy);

}  // namespace macheps::training
