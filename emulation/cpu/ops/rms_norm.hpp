// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalisation and the weights behind it, for one instruction set.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// As emulation/definitions.hpp has them, over `rows` contiguous rows of n elements; outputs may be inputs.
struct RmsNormKernels {
    void (*normalise)(const float* x, std::int64_t rows, std::int64_t n, float eps, float* out, float* rstd);
    void (*normalise_backward)(const float* x, const float* rstd, const float* dout, std::int64_t rows, std::int64_t n,
                               float* dx);
    void (*multiply_columns)(const float* x, const float* factors, std::int64_t rows, std::int64_t n, float* out);
};

const RmsNormKernels& rms_norm_kernels(Simd level);

}  // namespace macheps
