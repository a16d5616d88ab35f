// SPDX-License-Identifier: Apache-2.0
// The chain of fma in bf16 by the processor's own conversion, VCVTNE2PS2BF16 of AVX512-BF16: tiles of the same shape as those of
// the order kernels on AVX-512, 32 columns wide. Only where the processor has Extension::avx512_bf16; which operands they serve is
// said in order_brain-inl.hpp.
//
// The conversion rounds two vectors of sums and leaves 32 codes in one. Two codes are a word, of which a shift makes one number
// and a mask the other: columns that stood side by side then stand in two vectors,
//
//     0 1 2 ... 15 | 16 17 ... 31    becomes    0 2 4 ... 30 | 1 3 5 ... 31,
//
// and nothing puts them back. A column's number has five bits, which each term turns by one; after five terms all are where they
// were. So the panel of b is turned when it is packed, each term as often as its sums will have been.
#pragma once
#include <cstdint>

namespace macheps {

/// A packed panel of b [terms, 32], in place: columns stand where the sums of each term stand.
void turn_columns(float* b, std::int64_t terms);

/// sums [rows, 32] of n terms; rows of a are a_row numbers apart. Columns of b are turned, and scaled by brain_scale.
template <int rows>
void brain_chain_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums);

}  // namespace macheps
