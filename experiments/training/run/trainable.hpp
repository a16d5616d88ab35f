// SPDX-License-Identifier: Apache-2.0
// What a policy may not ask of a trainer, though each of its words is one.
#pragma once
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/run/options.hpp"

namespace macheps::training {

/// Throws Error, with the rule's id, for a master copy that is narrower than the weight it keeps, and for a scaler that refuses
/// the gradients it would meet.
void check_trainable(const policy::ResolvedPolicy& policy);

/// Throws Error where the policy's casts cannot be made of batches of that many tokens, or in the order in which that many
/// ranks and micro-batches are run. `options` are those of the run, under the policy.
void check_batches(const policy::ResolvedPolicy& policy, const ModelConfig& model, const TrainOptions& options);

}  // namespace macheps::training
