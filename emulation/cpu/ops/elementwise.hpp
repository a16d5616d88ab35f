// SPDX-License-Identifier: Apache-2.0
// Elementwise operations over a range, for one instruction set.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Each over n elements, as emulation/definitions.hpp has it; outputs may be inputs.
struct ElementwiseKernels {
    void (*add)(const float* a, const float* b, std::int64_t n, float* out);
    void (*multiply)(const float* a, const float* b, std::int64_t n, float* out);
    void (*scale)(const float* x, float factor, std::int64_t n, float* out);
    void (*gelu)(Gelu kind, const float* x, std::int64_t n, float* out);
    void (*gelu_backward)(Gelu kind, const float* x, const float* dout, std::int64_t n, float* dx);
    void (*silu)(const float* x, std::int64_t n, float* out);
    void (*silu_backward)(const float* x, const float* dout, std::int64_t n, float* dx);
};

const ElementwiseKernels& elementwise_kernels(Simd level);

}  // namespace macheps
