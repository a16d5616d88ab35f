// SPDX-License-Identifier: Apache-2.0
// Chooses how many outputs of a matrix product are judged, for a given time (--budget).
#pragma once
#include "experiments/check/bounds/products.hpp"

namespace macheps::check {

/// Returns the smallest power of two N for which computing the exact values and bounds of one output in N takes at most
/// `seconds`. Returns max_every if no smaller N is enough. To estimate the time, the function computes a corner of the
/// product.
std::int64_t every_within(const ProductOperands& of, const std::optional<MatmulRule>& rule, const SumFreedom& freedom,
                          double seconds, ThreadPool& pool);

}  // namespace macheps::check
