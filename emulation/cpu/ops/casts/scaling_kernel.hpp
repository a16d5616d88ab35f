// SPDX-License-Identifier: Apache-2.0
// Kernels of scaled_cast(). They process rows that consist of blocks. The elements of a block share a scale. The first
// block of a row begins with the first element.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/scaling/cast_plan.hpp"

#include <cstdint>

namespace macheps {

/// Rows of n elements each. A row begins `ld` elements after the previous one.
struct ScaledRows {
    const float* x;
    std::int64_t rows, n, ld;
};

struct ScalingKernels {
    /// Sets out[i] to the bit pattern of the largest magnitude in block i, over all rows. A NaN counts as larger than
    /// all numbers. With `ignore_nan`, NaNs are ignored.
    void (*largest)(const ScaledRows& in, std::int64_t block, bool ignore_nan, std::int32_t* out);
    /// Computes z = x * scale, where `scale` is the scale of the block that contains x. The rows of z are contiguous.
    /// The scales of a row begin `step` elements after the scales of the previous row. A NaN becomes the canonical NaN.
    void (*multiply)(const ScaledRows& in, const float* scales, std::int64_t step, std::int64_t block, float* z);

    using Cast = void (*)(const CastPlan& plan, const ScaledRows& in, const float* scales, std::int64_t step,
                          std::int64_t block, float* out);
    /// Returns a kernel that multiplies and casts the products in one pass, or null if it does not support the plan.
    /// The plan's encode_scale is not used as a scale. But it must not be 1, because the kernel makes NaNs canonical
    /// only for plans whose encode_scale differs from 1.
    Cast (*cast)(const CastPlan& plan);
};

const ScalingKernels& scaling_kernels(Simd simd);

}  // namespace macheps
