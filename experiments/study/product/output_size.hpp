// SPDX-License-Identifier: Apache-2.0
// Computes the magnitudes to which the errors of each output are relative, from the operands.
#pragma once
#include "experiments/study/product/error_bound.hpp"
#include "experiments/study/product/exact_product.hpp"
#include "experiments/study/product/gemm_operands.hpp"

#include <span>
#include <vector>

namespace macheps::study {

/// Returns the sizes of the [m,n] outputs of `a` times `b`, which rounded_operand made. `exact` has the exact sums, in
/// the output's units.
std::vector<OutputSize> output_sizes(const GemmData& data, const RoundedOperand& a, const RoundedOperand& b,
                                     std::span<const ExactOutput> exact, ThreadPool& pool);

}  // namespace macheps::study
