// SPDX-License-Identifier: Apache-2.0
// Computes chains of fp16 fma with VFMADDPH, an instruction of AVX512-FP16. As in the order kernels on AVX-512, a tile
// has 32 columns. The functions require Extension::avx512_fp16.
#pragma once
#include <cstdint>

namespace macheps {

/// Converts packed rows of a in place. Each fp32 value is replaced by two copies of its fp16 code. fp16 must be able to
/// represent the values exactly.
void halve_rows(float* a, std::int64_t count);
/// Converts a packed panel of b [terms, 32] to fp16 codes in place. The 32 codes of a term are written to the first
/// half of the memory of its 32 fp32 values.
void halve_columns(float* b, std::int64_t terms);

/// Adds n products to each element of sums [rows, 32]. The sums are fp16 numbers stored as fp32. Rows of a begin a_row
/// elements apart.
template <int rows>
void half_chain_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums);

}  // namespace macheps
