// SPDX-License-Identifier: Apache-2.0
// How many outputs of a product can be judged in a given time.
#pragma once
#include "experiments/check/bounds/products.hpp"

namespace macheps::check {

/// The least power of two `every` for which the exact products and bounds of one output of `every` take no more than
/// `seconds`, as a corner of the product takes here and now; at the most most_every.
std::int64_t every_within(const ProductOperands& of, const std::optional<MatmulRule>& rule, const SumFreedom& freedom,
                          double seconds, ThreadPool& pool);

}  // namespace macheps::check
