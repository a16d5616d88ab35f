// SPDX-License-Identifier: Apache-2.0
// Checks that find policies which are valid but cannot be trained.
#pragma once
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/run/options.hpp"

namespace macheps::training {

/// Throws Error if a master copy is narrower than its weight, or if the loss scaler does not accept the format of the
/// gradients. The message contains the id of the violated rule.
void check_trainable(const policy::ResolvedPolicy& policy);

/// Throws Error if a cast of the policy does not support the number of tokens in a batch, or the combination of ranks
/// and micro-batches. `options` are the options of the run under the policy.
void check_batches(const policy::ResolvedPolicy& policy, const ModelConfig& model, const TrainOptions& options);

}  // namespace macheps::training
