// SPDX-License-Identifier: Apache-2.0
// What a cast did to numbers on the host, beyond what Tally counts and Backend::compare sums. Defined in stats.cpp.
#pragma once
#include "emulation/cpu/simd/simd.hpp"

#include <cstdint>

namespace macheps {

/// How an array was cast, as far as add_fidelity asks.
struct FidelityCast {
    double least_normal = 0;  ///< of the format
    double least_beyond = 0;  ///< the least magnitude that rounds beyond the format's largest number
    bool has_groups = false;  ///< elements have encode scales of their own, that are not at hand
    float encode_scale = 1;   ///< of all, where they have not
};

/// What a cast did to the numbers of an array: sums over pairs that are finite on both sides.
struct FidelityFigures {
    std::uint64_t subnormal_inexact = 0;  ///< codes below the least normal number that are not what went in
    std::uint64_t overflow_rounded = 0;   ///< finite values whose scaled magnitude rounds beyond the largest number
    std::uint64_t nonzero = 0;            ///< pairs of which x is not 0, over which the sums below go
    double relative_sum = 0, relative_max = 0;  ///< of |y - x| / |x|
    double signed_error = 0;                    ///< sum of sign(x) (y - x)
    double abs_x = 0;                           ///< sum of |x|
    double z_max = 0;                           ///< the largest scaled magnitude
};

/// Adds n values x, what a cast made of them, y, in the units of x, and `codes`, the same in the format's own. Sums are
/// fp64, one element after the other, for every instruction set.
void add_fidelity(Simd simd, const FidelityCast& cast, const float* x, const float* y, const float* codes,
                  std::int64_t n, FidelityFigures& figures);

}  // namespace macheps
