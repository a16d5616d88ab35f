// SPDX-License-Identifier: Apache-2.0
// The elementwise operations of a gated feed-forward layer, for one instruction set.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Each over n elements, as emulation/definitions.hpp has it; outputs may be inputs.
struct GatedKernels {
    void (*multiply)(const float* a, const float* b, std::int64_t n, float* out);
    void (*silu)(const float* x, std::int64_t n, float* out);
    void (*silu_backward)(const float* x, const float* dout, std::int64_t n, float* dx);
};

const GatedKernels& gated_kernels(Simd level);

}  // namespace macheps
