// SPDX-License-Identifier: Apache-2.0
// Softmax, log-softmax and cross-entropy loss, for one instruction set. The backend distributes ranges of rows to
// threads.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Kernels for operations of emulation/definitions.hpp on `rows` contiguous rows of n elements. An output may be one of
/// the inputs.
struct SoftmaxKernels {
    /// Row r of `scores` is row first_row + r of the whole tensor. The causal mask depends on the index in the whole
    /// tensor: it determines how many elements of the row are visible.
    void (*softmax_causal)(const float* scores, std::int64_t first_row, std::int64_t rows, std::int64_t n, float* out);
    void (*softmax_causal_backward)(const float* p, const float* dp, std::int64_t first_row, std::int64_t rows,
                                    std::int64_t n, float* dscores);
    void (*log_softmax)(const float* x, std::int64_t rows, std::int64_t n, float* out);
    /// losses[r] is the loss of row r.
    void (*cross_entropy)(const float* x, const std::int32_t* targets, std::int64_t rows, std::int64_t n,
                          double* losses);
    void (*nll_backward)(const float* logp, const std::int32_t* targets, std::int64_t rows, std::int64_t n,
                         float factor, float* dx);
};

const SoftmaxKernels& softmax_kernels(Simd level);

}  // namespace macheps
