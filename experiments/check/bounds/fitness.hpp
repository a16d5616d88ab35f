// SPDX-License-Identifier: Apache-2.0
// What the declared machine can promise on this data, whatever the kernel does: fp8 sums of Hopper that stall lose much
// legally, and their bounds know it.
#pragma once
#include "experiments/check/bounds/limits.hpp"

namespace macheps::check {

/// Statistics of the bounds, over outputs that are not zero. An output that may underflow in fp32 or in its format does not count
/// as lost, because no kernel could give more digits there.
struct Fitness {
    double bits = 0;        ///< -log2 of the median of bound / |y|, before the output's rounding
    double lost_share = 0;  ///< share of the outputs whose bound is larger than the output
    double counted = 0;     ///< number of outputs that lost_share is a share of
    double least_bits = 0;  ///< -log2 of the largest bound / sum of |a b| of a product's sums
    std::int64_t worst = -1;
};

Fitness fitness_of(const Problem& problem, const Limits& limits);

}  // namespace macheps::check
