// SPDX-License-Identifier: Apache-2.0
// Chains of fma in fp16 with the processor's instruction, VFMADDPH of AVX512-FP16. The tiles have the same shape as
// those of the order kernels on AVX-512: 32 columns. They require Extension::avx512_fp16.
#pragma once
#include <cstdint>

namespace macheps {

/// Converts packed rows of a in place: replaces each number, which must be one of fp16, by two copies of its code.
void halve_rows(float* a, std::int64_t count);
/// Converts a packed panel of b [terms, 32] in place. The codes of a term begin where its numbers began.
void halve_columns(float* b, std::int64_t terms);

/// Adds n terms to sums [rows, 32], which are numbers of fp16 held in fp32. Rows of a are a_row numbers apart.
template <int rows>
void half_chain_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums);

}  // namespace macheps
