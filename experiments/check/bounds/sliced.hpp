// SPDX-License-Identifier: Apache-2.0
// Bounds products that are summed as kernels usually do: in fp32 chains over slices of k, in ascending or descending
// order, whose results are then joined. `--machine sliced` declares this.
//
// A slice is either contiguous (of any length) or a lane. There are 2, 4, ... or 128 lanes. The lanes take turns of 1
// or 4 neighbouring terms, or of 8 terms if there are at most 64 lanes. Each lane takes at least four turns.
// Let P_t be the exact sum of a slice's first t terms. R = max P - min P bounds every partial sum of every part of the
// slice, so that k additions lose at most u k R. If contiguous slices are joined in order, or as a tree of neighbours,
// the joined sums are also sums of neighbouring terms. Lanes join in any order, each after 16 terms or more. In
// addition, each group of four neighbouring terms may be added in any order, and every product may be rounded: 5 u sum
// |a b|.
//
// Random data cancel, so that R is about sqrt(k) times smaller than the sum of |a b|. The bound holds only for the
// slicings above. An order that jumps through k needs `--machine any`.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/check/bounds/running.hpp"

#include <vector>

namespace macheps::check {

/// Returns the error bound of every output's sum. Large products skip some rows, whose bounds are infinite, as in
/// running_bound(). `slices` is the declared number of slices, which may join in any order; 0 if it is not declared.
std::vector<SumError> sliced_bound(const ProductOperands& operands, const std::vector<double>& magnitudes,
                                   double slices, ThreadPool& pool);

}  // namespace macheps::check
