// SPDX-License-Identifier: Apache-2.0
// Memory for training a model: in a framework that stores the formats of the policy, and in this process.
#pragma once
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"

#include <cstdint>

namespace macheps::training {

/// Bytes of the tensors that a framework would hold, in the formats of the policy. The emulation itself holds fp32.
struct MemoryEstimate {
    std::int64_t parameters = 0, gradients = 0, master = 0, optimizer = 0, activations = 0;
};

/// Estimates the memory of a framework. `sites` are those that `policy` was resolved against. `batch` is the number of
/// samples in a micro-batch. `moments` is the number of moments that the optimiser keeps for every parameter: two for
/// AdamW, one for SGD. With `recomputes`, or if the policy asks for it, only the input of each block is kept for the
/// backward pass.
MemoryEstimate estimate_memory(const policy::SiteList& sites, const policy::ResolvedPolicy& policy, std::int64_t batch,
                               int moments, bool recomputes = false);

/// Returns a lower bound of the bytes that training takes in this process: weights, gradients, moments, the copy that
/// is evaluated in fp32, the values of both passes and of an evaluation, and a constant for each layer. Casts and
/// checkpoints are not counted; they take up to as much again. Does not list all sites, because the list itself would
/// be too long for the models that have to be refused. `config` and `batch` are within max_size. `compares_gradients`:
/// the fp32 copy also has a backward pass.
double min_memory(const ModelConfig& config, std::int64_t batch, int moments, bool compares_gradients = false);

}  // namespace macheps::training
