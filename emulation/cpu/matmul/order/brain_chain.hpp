// SPDX-License-Identifier: Apache-2.0
// Chains of fma in bf16 that use the processor's conversion VCVTNE2PS2BF16 (AVX512-BF16). The tiles have 32 columns,
// like the tiles of the order kernels on AVX-512. The functions require Extension::avx512_bf16. order_brain-inl.hpp
// describes the operands for which the results are correct.
//
// The conversion rounds two vectors of sums to 32 codes in one vector, with two codes in each 32-bit lane. A shift then
// converts the low codes back to fp32, and a mask converts the high codes. This moves neighbouring columns to different
// vectors:
//
//     0 1 2 ... 15 | 16 17 ... 31    becomes    0 2 4 ... 30 | 1 3 5 ... 31
//
// The columns are not moved back. Each term rotates the five bits of a column's position by one, so after five terms
// all columns are in their original positions. turn_columns() rearranges the packed panel of b to match: it moves the
// columns of each term to the positions that the sums have when this term is added.
#pragma once
#include <cstdint>

namespace macheps {

/// Rearranges a packed panel of b [terms, 32] in place: moves the columns of each term to the positions that the sums
/// have when this term is added.
void turn_columns(float* b, std::int64_t terms);

/// Computes sums [rows, 32] of n terms. Rows of a are a_row numbers apart. Columns of b must be rearranged by
/// turn_columns() and scaled by brain_scale().
template <int rows>
void brain_chain_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums);

}  // namespace macheps
