// SPDX-License-Identifier: Apache-2.0
// The bound of products that are summed as kernels usually do: in fp32 chains over slices of k, in ascending or descending
// order, whose results are then joined. It is what `--machine sliced` declares.
//
// A slice is contiguous, of any length, or it is a lane: of 2, 4, ... 128 lanes, each takes 1, 4 or 8 neighbouring terms in turn.
// With P_t the exact sums of a slice's first t terms, R = max P - min P bounds every partial sum of every part of the slice, so
// that k additions lose at most u k R. Joins of contiguous slices in order, or as a tree of neighbours, are sums of neighbours
// too. Lanes join in any order, each after 16 terms or more. Beside all that, each group of four neighbouring terms may be
// added in any order, and every product may be rounded: 5 u sum |a b|.
//
// Random data cancel, and R is smaller than the sum of |a b| about sqrt(k) times. The bound holds for every slicing above, and for
// no other order: one that jumps through k needs `--machine any`.
#pragma once
#include "core/thread_pool.hpp"
#include "experiments/check/running.hpp"

#include <vector>

namespace macheps::check {

/// Bounds the error of every output's sum; infinite for rows of large products that were left out, as running_bound does.
/// `slices` is the declared number of slices, which may join in any order; 0: not declared.
std::vector<SumError> sliced_bound(const ProductOperands& operands, const std::vector<double>& magnitudes, double slices,
                                   ThreadPool& pool);

}  // namespace macheps::check
