// SPDX-License-Identifier: Apache-2.0
// The chain of fma in fp16 by the processor's own instruction, VFMADDPH of AVX512-FP16: tiles of the same shape as those of the
// order kernels on AVX-512, 32 columns wide. Only where the processor has Extension::avx512_fp16.
#pragma once
#include <cstdint>

namespace macheps {

/// Packed rows of a, in place: each number, which is one of fp16, becomes its code twice over.
void halve_rows(float* a, std::int64_t count);
/// A packed panel of b [terms, 32], in place: the codes of a term begin where its numbers began.
void halve_columns(float* b, std::int64_t terms);

/// n terms added to sums [rows, 32], numbers of fp16 in fp32; rows of a are a_row numbers apart.
template <int rows>
void half_chain_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums);

}  // namespace macheps
