// SPDX-License-Identifier: Apache-2.0
// Initial weights. They depend only on the seed, the parameter's name, the number of layers and the index of the
// element.
#pragma once
#include "core/tensor.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace macheps::training {

/// Returns the initial values of a parameter by GPT-2's scheme, for both kinds of model. Weights are normally
/// distributed with standard deviation 0.02; for attn.proj and mlp.down, it is divided by sqrt(2 layers). Biases are 0,
/// and norm weights are 1. Each pair of standard normal numbers is computed in fp64 from one Philox block by the
/// Box-Muller method. Each number is rounded to fp32 and then multiplied by the deviation in fp32.
std::vector<float> initial_values(std::string_view parameter, const Shape& shape, std::int64_t layers,
                                  std::uint64_t seed);

}  // namespace macheps::training
