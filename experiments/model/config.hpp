// SPDX-License-Identifier: Apache-2.0
// The shape of a GPT-2 style model, and its sites.
#pragma once
#include "emulation/backend.hpp"
#include "experiments/policy/sites.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// Pre-LayerNorm, GELU, learned positions, causal attention with an explicit softmax (nanoGPT's form).
struct ModelConfig {
    std::int64_t layers = 2, width = 64, heads = 4, context = 32, vocabulary = 64;
    bool tied = true;       ///< lm_head shares embed.token.weight
    Gelu gelu = Gelu::erf;  ///< nn.GELU's default

    std::int64_t head_width() const { return width / heads; }
    bool operator==(const ModelConfig&) const = default;
};

/// A row of the size table: a model and its usual batch.
struct ModelSize {
    std::string_view name;
    ModelConfig model;
    std::int64_t batch;
};

/// tiny, small, base.
const std::vector<ModelSize>& model_sizes();
/// Throws Error with the nearest name when there is no such size.
const ModelSize& named_size(std::string_view name);

/// Throws Error (usage) for sizes of zero, a width that heads do not divide, and the like.
void check(const ModelConfig& config);

/// Every site and parameter, in the order of the forward pass.
SiteList model_sites(const ModelConfig& config);

/// Number of parameters.
std::int64_t parameter_count(const ModelConfig& config);

}  // namespace macheps
