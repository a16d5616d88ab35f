// SPDX-License-Identifier: Apache-2.0
// Arrays of codes: what is stored and sent, where a cast leaves the values.
#pragma once
#include "emulation/cpu/ops/casts/cast.hpp"

namespace macheps {

/// codes[i] = encode(fl32(in[i] * encode_scale)), one code per integer, right-aligned but for the format's padding: the
/// code of what cast_array makes. Adds to *tally when it is not null. Code is std::uint8_t, uint16_t or uint32_t;
/// throws Error when the format's container is wider.
template <class Code>
void encode_array(Simd simd, ThreadPool& pool, const float* in, Code* codes, std::int64_t n, const Cast& cast,
                  Tally* tally = nullptr, std::int64_t first_element = 0);

/// out[i] = decode(format, codes[i]), exactly. Bits outside the code are ignored.
template <class Code>
void decode_array(Simd simd, ThreadPool& pool, Format format, const Code* codes, float* out, std::int64_t n);

}  // namespace macheps
