// SPDX-License-Identifier: Apache-2.0
// Chains of fma in bf16 with the processor's conversion, VCVTNE2PS2BF16 of AVX512-BF16. The tiles have the same shape
// as those of the order kernels on AVX-512: 32 columns. They require Extension::avx512_bf16. order_brain-inl.hpp
// describes the operands for which they are correct.
//
// The conversion rounds two vectors of sums to 32 codes in one vector. Each word holds two codes; a shift gives one
// number and a mask the other. Neighbouring columns are then in different vectors,
//
//     0 1 2 ... 15 | 16 17 ... 31    becomes    0 2 4 ... 30 | 1 3 5 ... 31,
//
// and are not moved back. Each term rotates the five bits of a column's number by one, so after five terms all columns
// are in their places again. The panel of b is turned accordingly when it is packed: the columns of each term are moved
// to where the sums are at that term.
#pragma once
#include <cstdint>

namespace macheps {

/// Turns a packed panel of b [terms, 32] in place: moves the columns of each term to where the sums are at that term.
void turn_columns(float* b, std::int64_t terms);

/// Computes sums [rows, 32] of n terms. Rows of a are a_row numbers apart. Columns of b must be turned and scaled by
/// brain_scale().
template <int rows>
void brain_chain_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums);

}  // namespace macheps
