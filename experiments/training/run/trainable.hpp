// SPDX-License-Identifier: Apache-2.0
// Checks that find policies which are valid but cannot be trained.
#pragma once
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/run/options.hpp"

namespace macheps::training {

/// Throws Error, with the rule's id, for a master copy that is narrower than its weight, and for a scaler that refuses
/// the gradients it would get.
void check_trainable(const policy::ResolvedPolicy& policy);

/// Throws Error if the policy's casts cannot be made on batches of that many tokens, or in the order in which that many
/// ranks and micro-batches are run. `options` are those of the run under the policy.
void check_batches(const policy::ResolvedPolicy& policy, const ModelConfig& model, const TrainOptions& options);

}  // namespace macheps::training
