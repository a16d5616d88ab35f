// SPDX-License-Identifier: Apache-2.0
// The loops of scaled_cast over rows whose elements share scales in blocks, side by side from the first one on.
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
    /// out[i] = the largest magnitude in block i of all rows, as bits: NaN is the largest of all, or none.
    void (*largest)(const ScaledRows& in, std::int64_t block, bool ignore_nan, std::int32_t* out);
    /// z = x times the scale of its block, rows side by side; those of a row lie `step` behind those of the row before. A
    /// NaN is the canonical one.
    void (*multiply)(const ScaledRows& in, const float* scales, std::int64_t step, std::int64_t block, float* z);

    using Cast = void (*)(const CastPlan& plan, const ScaledRows& in, const float* scales, std::int64_t step,
                          std::int64_t block, float* out);
    /// multiply() and the cast of what it gives, in one pass: for plans whose encode_scale is not 1 (what it is does not
    /// matter), since NaN is made canonical there. Null where the plan wants another kernel.
    Cast (*cast)(const CastPlan& plan);
};

const ScalingKernels& scaling_kernels(Simd simd);

}  // namespace macheps
