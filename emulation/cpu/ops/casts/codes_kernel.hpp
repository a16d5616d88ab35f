// SPDX-License-Identifier: Apache-2.0
// Vector kernels for arrays of codes.
#pragma once
#include "emulation/cpu/ops/casts/cast.hpp"

namespace macheps {

struct CodeKernels {
    /// Casts and encodes in one pass. The cast must round to nearest even without a tally, plan.path must be `narrow`,
    /// and the format must be binary with at most 8 bits.
    void (*encode_bytes)(const CastPlan& plan, const float* in, std::uint8_t* codes, std::int64_t n);
    /// Encodes numbers that are on the grid of fp16 or, if `is_fp16` is false, of bf16.
    void (*encode_words)(bool is_fp16, const float* in, std::uint16_t* codes, std::int64_t n);
    /// Decodes with `table`, which holds the high 16 bits of the fp32 value of each of the 256 codes. `bits` is the
    /// width of the format. The other bits of a code are ignored.
    void (*decode_bytes)(const std::uint16_t* table, int bits, const std::uint8_t* codes, float* out, std::int64_t n);
    /// Decodes fp16 or, if `is_fp16` is false, bf16. A NaN becomes the canonical NaN and keeps its sign.
    void (*decode_words)(bool is_fp16, const std::uint16_t* codes, float* out, std::int64_t n);
};

/// Returns the kernels for `simd`, or null if `simd` does not have them.
const CodeKernels* code_kernels(Simd simd);

}  // namespace macheps
