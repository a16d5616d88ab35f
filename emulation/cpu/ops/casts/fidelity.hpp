// SPDX-License-Identifier: Apache-2.0
// Statistics of a cast of a host array, in addition to Tally and Backend::compare(). Implemented in stats.cpp.
#pragma once
#include "emulation/cpu/simd/simd.hpp"

#include <cstdint>

namespace macheps {

/// Properties of a cast that add_fidelity() needs.
struct FidelityCast {
    double min_normal = 0;    ///< smallest normal number of the format
    double min_beyond = 0;    ///< smallest magnitude that rounds beyond the format's largest number
    bool has_groups = false;  ///< each group has its own encode scale; encode_scale is not used
    float encode_scale = 1;   ///< scale of all elements if has_groups is false
};

/// Statistics of a cast of an array x with result y. The sums cover the pairs in which both numbers are finite.
struct FidelityFigures {
    std::uint64_t subnormal_inexact = 0;  ///< subnormal codes whose value differs from x
    std::uint64_t overflow_rounded = 0;   ///< finite values whose scaled magnitude rounds beyond the largest number
    std::uint64_t nonzero = 0;            ///< pairs with a nonzero x, over which the sums below are taken
    double relative_sum = 0, relative_max = 0;  ///< sum and maximum of |y - x| / |x|
    double signed_error = 0;                    ///< sum of sign(x) (y - x)
    double abs_x = 0;                           ///< sum of |x|
    double z_max = 0;                           ///< the largest scaled magnitude
};

/// Adds the statistics of n elements to `figures`. `codes` has the results of the cast as numbers of the format, and
/// `y` has the same results with the scale removed, so that they compare with x. On every instruction set, sums are
/// taken in fp64 and in the order of the elements.
void add_fidelity(Simd simd, const FidelityCast& cast, const float* x, const float* y, const float* codes,
                  std::int64_t n, FidelityFigures& figures);

}  // namespace macheps
