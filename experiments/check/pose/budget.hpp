// SPDX-License-Identifier: Apache-2.0
// Chooses how many outputs of a matrix product are judged, so that the check fits in a given time (--budget).
#pragma once
#include "experiments/check/bounds/products.hpp"

namespace macheps::check {

/// Returns N such that judging every N-th output takes at most `seconds`. N is the smallest power of two for which the
/// exact values and bounds of these outputs can be computed in that time, but at most max_every. To estimate the time,
/// the function computes the exact values and bounds of a corner of the product.
std::int64_t every_within(const ProductOperands& of, const std::optional<MatmulRule>& rule, const SumFreedom& freedom,
                          double seconds, ThreadPool& pool);

}  // namespace macheps::check
