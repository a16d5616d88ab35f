// SPDX-License-Identifier: Apache-2.0
// Casts values to arrays of codes, which can be stored or sent, and converts codes back to values.
#pragma once
#include "emulation/cpu/ops/casts/cast.hpp"

namespace macheps {

/// Computes codes[i] = encode(fl32(in[i] * encode_scale)), the codes of the results of cast_array(). There is one code
/// per integer, right-aligned except for the format's padding. Adds to *tally if `tally` is not null. Code is
/// std::uint8_t, uint16_t or uint32_t. Throws Error if the format's container is wider.
template <class Code>
void encode_array(Simd simd, ThreadPool& pool, const float* in, Code* codes, std::int64_t n, const Cast& cast,
                  Tally* tally = nullptr, std::int64_t first_element = 0);

/// Computes out[i] = decode(format, codes[i]), exactly. Bits outside the code are ignored.
template <class Code>
void decode_array(Simd simd, ThreadPool& pool, Format format, const Code* codes, float* out, std::int64_t n);

}  // namespace macheps
