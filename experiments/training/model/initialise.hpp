// SPDX-License-Identifier: Apache-2.0
// Initial weights. They depend only on the seed, the parameter name and the element.
#pragma once
#include "core/tensor.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace macheps::training {

/// Returns the initial values of a parameter by GPT-2's scheme, for both kinds of model: weights N(0, 0.02), those of
/// attn.proj and mlp.down divided by sqrt(2 layers), biases 0, norm weights 1. Each pair of normal numbers is computed
/// from one Philox block by the Box-Muller method, in fp64, and rounded once.
std::vector<float> initial_values(std::string_view parameter, const Shape& shape, std::int64_t layers,
                                  std::uint64_t seed);

}  // namespace macheps::training
