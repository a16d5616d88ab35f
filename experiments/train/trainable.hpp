// SPDX-License-Identifier: Apache-2.0
// What a policy may not ask of a trainer, though each of its words is one.
#pragma once
#include "experiments/policy/policy.hpp"

namespace macheps {

/// Throws Error, with the rule's id, for a master copy that is narrower than the weight it keeps, and for a scaler that refuses
/// the gradients it would meet.
void check_trainable(const ResolvedPolicy& policy);

}  // namespace macheps
