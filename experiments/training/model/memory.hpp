// SPDX-License-Identifier: Apache-2.0
// Estimates the memory for training a model: in a framework that stores tensors in the policy's formats, and in this
// process.
#pragma once
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"

#include <cstdint>

namespace macheps::training {

/// Bytes of the tensors that a framework would store in the formats of the policy. (The emulation itself stores fp32.)
struct MemoryEstimate {
    std::int64_t parameters = 0, gradients = 0, master = 0, optimizer = 0, activations = 0;
};

/// Estimates the memory that a framework needs. `sites` must be the list for which `policy` was resolved. `batch` is
/// the number of samples in a micro-batch. `moments` is the number of moments that the optimiser keeps for every
/// parameter: two for AdamW, one for SGD. If `recomputes` is set, or if the policy asks for recomputation, only the
/// input of each block is kept for the backward pass.
MemoryEstimate estimate_memory(const policy::SiteList& sites, const policy::ResolvedPolicy& policy, std::int64_t batch,
                               int moments, bool recomputes = false);

/// Returns a lower bound of the bytes that training takes in this process. It includes weights, gradients, moments, the
/// copy of the weights that is evaluated in fp32, the values of the forward and backward passes and of an evaluation,
/// and a constant for each layer. It does not include casts and checkpoints, which may take as much again. The function
/// does not list all sites: for the models that have to be rejected, the list itself would be too long. `config` and
/// `batch` must be within max_size. With `compares_gradients`, the fp32 copy also has a backward pass.
double min_memory(const ModelConfig& config, std::int64_t batch, int moments, bool compares_gradients = false);

}  // namespace macheps::training
