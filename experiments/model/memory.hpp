// SPDX-License-Identifier: Apache-2.0
// What a framework that trains a model under a policy holds in memory.
#pragma once
#include "experiments/policy/policy.hpp"

#include <cstdint>

namespace macheps {

/// Bytes of the tensors that a framework would hold, by the formats of the policy; the emulation itself holds fp32.
struct MemoryEstimate {
    std::int64_t parameters = 0, gradients = 0, master = 0, optimizer = 0, activations = 0;
};

/// `sites` is the model that `policy` was resolved against. `batch` counts the samples of a micro-batch, `moments` the
/// moments that the optimiser keeps of every parameter: two for AdamW, one for SGD.
MemoryEstimate estimate_memory(const SiteList& sites, const ResolvedPolicy& policy, std::int64_t batch, int moments);

}  // namespace macheps
