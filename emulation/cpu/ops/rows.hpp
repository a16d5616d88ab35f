// SPDX-License-Identifier: Apache-2.0
// Operations on rows and columns, for one instruction set. The backend deals ranges of them out to threads.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// As emulation/definitions.hpp has them. Pointers are to the first of `rows` contiguous rows of n elements, except
/// that the kernels over columns [first, last) want whole tensors. Outputs of the row kernels may be inputs.
struct RowKernels {
    void (*layernorm)(const float* x, const float* gamma, const float* beta, std::int64_t rows, std::int64_t n,
                      float eps, float* out, float* mean, float* rstd);
    void (*layernorm_backward)(const float* x, const float* gamma, const float* mean, const float* rstd,
                               const float* dout, std::int64_t rows, std::int64_t n, float* dx);
    /// Row r is row first_row + r of the tensor, which decides how much of it is visible.
    void (*softmax_causal)(const float* scores, std::int64_t first_row, std::int64_t rows, std::int64_t n, float* out);
    void (*softmax_causal_backward)(const float* p, const float* dp, std::int64_t first_row, std::int64_t rows,
                                    std::int64_t n, float* dscores);
    void (*log_softmax)(const float* x, std::int64_t rows, std::int64_t n, float* out);
    void (*nll_backward)(const float* logp, const std::int32_t* targets, std::int64_t rows, std::int64_t n,
                         float factor, float* dx);

    void (*layernorm_backward_columns)(const float* x, const float* mean, const float* rstd, const float* dout,
                                       std::int64_t rows, std::int64_t n, std::int64_t first, std::int64_t last,
                                       float* dgamma, float* dbeta);
    void (*column_sum)(const float* x, std::int64_t rows, std::int64_t n, std::int64_t first, std::int64_t last,
                       float* out);
};

const RowKernels& row_kernels(Simd level);

}  // namespace macheps
