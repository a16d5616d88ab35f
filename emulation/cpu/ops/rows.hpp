// SPDX-License-Identifier: Apache-2.0
// Normalisations and sums of rows and columns, for one instruction set. The backend distributes ranges of rows or
// columns to threads.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Kernels for operations of emulation/definitions.hpp. A row kernel takes pointers to the first of `rows` contiguous
/// rows of n elements, and an output may be one of its inputs. A kernel over the columns [first, last) takes whole
/// tensors.
struct RowKernels {
    void (*layernorm)(const float* x, const float* gamma, const float* beta, std::int64_t rows, std::int64_t n,
                      float eps, float* out, float* mean, float* rstd);
    void (*layernorm_backward)(const float* x, const float* gamma, const float* mean, const float* rstd,
                               const float* dout, std::int64_t rows, std::int64_t n, float* dx);
    void (*layernorm_backward_columns)(const float* x, const float* mean, const float* rstd, const float* dout,
                                       std::int64_t rows, std::int64_t n, std::int64_t first, std::int64_t last,
                                       float* dgamma, float* dbeta);
    void (*rms_normalise)(const float* x, std::int64_t rows, std::int64_t n, float eps, float* out, float* rstd);
    void (*rms_normalise_backward)(const float* x, const float* rstd, const float* dout, std::int64_t rows,
                                   std::int64_t n, float* dx);
    void (*multiply_columns)(const float* x, const float* factors, std::int64_t rows, std::int64_t n, float* out);
    void (*column_sum)(const float* x, std::int64_t rows, std::int64_t n, std::int64_t first, std::int64_t last,
                       float* out);
};

const RowKernels& row_kernels(Simd level);

}  // namespace macheps
