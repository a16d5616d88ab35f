// SPDX-License-Identifier: Apache-2.0
// Initial weights: a function of (seed, parameter name, element) alone.
#pragma once
#include "core/tensor.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace macheps {

/// Standard normal number of element `index` of a named stream: Box-Muller on two Philox words, in fp64, rounded once.
float normal_number(std::uint64_t seed, std::uint32_t stream, std::uint64_t index);

/// GPT-2's initialisation, of either kind of model: weights N(0, 0.02), those of attn.proj and mlp.down over sqrt(2
/// layers) more; biases 0, norm weights 1.
std::vector<float> initial_values(std::string_view parameter, const Shape& shape, std::int64_t layers,
                                  std::uint64_t seed);

}  // namespace macheps
