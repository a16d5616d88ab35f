// SPDX-License-Identifier: Apache-2.0
// The loops of scaled_cast() over rows that consist of blocks. The elements of a block share a scale, and the first
// block begins with the first element.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/scaling/cast_plan.hpp"

#include <cstdint>

namespace macheps {

/// Rows of n elements, `ld` apart.
struct ScaledRows {
    const float* x;
    std::int64_t rows, n, ld;
};

struct ScalingKernels {
    /// Sets out[i] to the largest magnitude in block i of all rows, as bits. A NaN is larger than all numbers or, with
    /// `ignore_nan`, not counted.
    void (*largest)(const ScaledRows& in, std::int64_t block, bool ignore_nan, std::int32_t* out);
    /// Computes z = x times the scale of its block. The rows of z are contiguous. The scales of a row begin `step`
    /// after those of the row before. A NaN becomes the canonical one.
    void (*multiply)(const ScaledRows& in, const float* scales, std::int64_t step, std::int64_t block, float* z);

    using Cast = void (*)(const CastPlan& plan, const ScaledRows& in, const float* scales, std::int64_t step,
                          std::int64_t block, float* out);
    /// Returns a kernel that does multiply() and the cast of the products in one pass, or null if the plan needs
    /// another kernel. The plan's encode_scale must not be 1, because a NaN is made canonical only if there is a scale.
    /// The value of encode_scale is not used.
    Cast (*cast)(const CastPlan& plan);
};

const ScalingKernels& scaling_kernels(Simd simd);

}  // namespace macheps
