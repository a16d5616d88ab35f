// SPDX-License-Identifier: Apache-2.0
// The loops of scaled_cast over rows whose elements share scales in blocks, side by side from the first one on.
#pragma once
#include "emulation/cpu/simd/simd.hpp"

#include <cstdint>

namespace macheps {

/// Rows of n elements, `ld` apart.
struct ScaledRows {
    const float* x;
    std::int64_t rows, n, ld;
};

struct ScalingKernels {
    /// out[i] = the largest magnitude in block i of all rows, as bits: NaN is the largest of all, or none.
    void (*largest)(const ScaledRows& in, std::int64_t block, bool ignore_nan, std::int32_t* out);
    /// z = x times the scale of its block, rows side by side; those of a row lie `step` behind those of the row before. A
    /// NaN is the canonical one.
    void (*multiply)(const ScaledRows& in, const float* scales, std::int64_t step, std::int64_t block, float* z);
};

const ScalingKernels& scaling_kernels(Simd simd);

}  // namespace macheps
