// SPDX-License-Identifier: Apache-2.0
// The number of outputs of a product that can be judged in a given time.
#pragma once
#include "experiments/check/bounds/products.hpp"

namespace macheps::check {

/// Returns the smallest power of two `every` for which exact products and bounds of one output of `every` take at most
/// `seconds`, or max_every. The time is estimated from a corner of the product that is computed here.
std::int64_t every_within(const ProductOperands& of, const std::optional<MatmulRule>& rule, const SumFreedom& freedom,
                          double seconds, ThreadPool& pool);

}  // namespace macheps::check
