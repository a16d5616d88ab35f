// SPDX-License-Identifier: Apache-2.0
// Initial weights: a function of (seed, parameter name, element) alone.
#pragma once
#include "core/tensor.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace macheps::training {

/// GPT-2's initialisation, of either kind of model: weights N(0, 0.02), those of attn.proj and mlp.down over sqrt(2
/// layers) more; biases 0, norm weights 1. Normal numbers are Box and Muller's of a Philox block a pair, in fp64, rounded once.
std::vector<float> initial_values(std::string_view parameter, const Shape& shape, std::int64_t layers,
                                  std::uint64_t seed);

}  // namespace macheps::training
