// SPDX-License-Identifier: Apache-2.0
// The loops of scaled_cast over a row whose elements share scales in blocks, side by side from the first one on.
#pragma once
#include "emulation/cpu/simd/simd.hpp"

#include <cstdint>

namespace macheps {

struct ScalingKernels {
    /// out[i] = the larger of out[i] and the magnitudes of block i of the n elements, as bits: NaN is the largest of all, or
    /// none.
    void (*largest)(const float* x, std::int64_t n, std::int64_t block, bool ignore_nan, std::int32_t* out);
    /// z = x times the scale of its block; a NaN is the canonical one.
    void (*multiply)(const float* x, const float* scales, std::int64_t n, std::int64_t block, float* z);
};

const ScalingKernels& scaling_kernels(Simd simd);

}  // namespace macheps
