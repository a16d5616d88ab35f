// SPDX-License-Identifier: Apache-2.0
// Arrays of emulated arithmetic: op of core/arithmetic.hpp element by element, on every instruction set and any number
// of threads with the same bits.
#pragma once
#include "core/arithmetic.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// out[i] = a[i] + b[i], a[i] - b[i], a[i] b[i], a[i] / b[i], sqrt(a[i]) or a[i] b[i] + c[i], rounded once as `to`
/// says: decode(op(operation, encode(a[i]), ...)). The arrays are fp32 containers of numbers on the grid of to.format
/// (what a cast leaves behind); what becomes of others is not defined, except that NaN gives NaN. `b` and `c` are read
/// where the operation has them, else they may be null; `out` may be one of the operands. Element i draws from to.key
/// as number first_element + i. Throws Error (usage) for a format wider than fp32, and when to.encode_scale is not 1.
void arithmetic_array(Simd simd, ThreadPool& pool, Operation operation, const Cast& to, const float* a, const float* b,
                      const float* c, float* out, std::int64_t n, std::int64_t first_element = 0);

/// True when rounding the fp32 operation (each to nearest even) gives the same as rounding the exact result once: for
/// + - * / sqrt where fp32's precision is at least 2 p + 2 and its range wide enough (Figueroa 1995), for bf16's
/// products and quotients though they may be subnormal, and for fma of a few narrow formats; the latter two by
/// comparing them all.
bool is_innocuous_through_fp32(Operation operation, const Format& format);

}  // namespace macheps
