// SPDX-License-Identifier: Apache-2.0
// Computes the OutputSize of each output of a product, that is, the magnitudes to which its errors are relative.
#pragma once
#include "experiments/study/product/error_bound.hpp"
#include "experiments/study/product/exact_product.hpp"
#include "experiments/study/product/gemm_operands.hpp"

#include <span>
#include <vector>

namespace macheps::study {

/// Returns the OutputSize of each of the [m,n] outputs of a b. Both operands come from rounded_operand. `exact` holds
/// the exact outputs, after all decode scales.
std::vector<OutputSize> output_sizes(const GemmData& data, const RoundedOperand& a, const RoundedOperand& b,
                                     std::span<const ExactOutput> exact, ThreadPool& pool);

}  // namespace macheps::study
