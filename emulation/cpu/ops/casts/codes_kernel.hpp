// SPDX-License-Identifier: Apache-2.0
// The vector kernels of arrays of codes.
#pragma once
#include "emulation/cpu/ops/casts/cast.hpp"

namespace macheps {

struct CodeKernels {
    /// Casts and encodes in one go: nearest even, without a tally, plan.path narrow, a binary format of at most 8 bits.
    void (*encode_bytes)(const CastPlan& plan, const float* in, std::uint8_t* codes, std::int64_t n);
    /// Codes of numbers that are on the grid of fp16 or else of bf16.
    void (*encode_words)(bool is_fp16, const float* in, std::uint16_t* codes, std::int64_t n);
    /// The high halves of the values of 256 codes are in `table`; `bits` is the width of the format, whose other bits
    /// are ignored.
    void (*decode_bytes)(const std::uint16_t* table, int bits, const std::uint8_t* codes, float* out, std::int64_t n);
    /// fp16 or else bf16; a NaN becomes the canonical one, with its sign.
    void (*decode_words)(bool is_fp16, const std::uint16_t* codes, float* out, std::int64_t n);
};

/// Null where `simd` has none.
const CodeKernels* code_kernels(Simd simd);

}  // namespace macheps
