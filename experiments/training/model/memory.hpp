// SPDX-License-Identifier: Apache-2.0
// What training a model takes: of a framework that keeps the policy's formats, and of this process.
#pragma once
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"

#include <cstdint>

namespace macheps::training {

/// Bytes of the tensors that a framework would hold, by the formats of the policy; the emulation itself holds fp32.
struct MemoryEstimate {
    std::int64_t parameters = 0, gradients = 0, master = 0, optimizer = 0, activations = 0;
};

/// `sites` is the model that `policy` was resolved against. `batch` counts the samples of a micro-batch, `moments` the
/// moments that the optimiser keeps of every parameter: two for AdamW, one for SGD. With `recomputes`, or where the policy
/// says so, of a block its input alone is kept.
MemoryEstimate estimate_memory(const policy::SiteList& sites, const policy::ResolvedPolicy& policy, std::int64_t batch,
                               int moments, bool recomputes = false);

/// Bytes that training takes of this process at the least: weights, gradients, moments, the copy that is evaluated in fp32,
/// the values of both passes and of an evaluation, and what stands beside every layer. Casts and checkpoints come on top:
/// up to as much again. Made without a list of the sites, which would itself be too long where the answer is no.
/// `config` and `batch` are within most_size. `compares_gradients`: the copy in fp32 goes backward too.
double least_memory(const ModelConfig& config, std::int64_t batch, int moments, bool compares_gradients = false);

}  // namespace macheps::training
