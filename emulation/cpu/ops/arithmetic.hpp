// SPDX-License-Identifier: Apache-2.0
// Emulated arithmetic on arrays: op() of core/arithmetic.hpp for each element, with the same bits on every instruction
// set and for every number of threads.
#pragma once
#include "core/arithmetic.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Computes out[i] = a[i] + b[i], a[i] - b[i], a[i] b[i], a[i] / b[i], sqrt(a[i]) or a[i] b[i] + c[i], rounded once as
/// specified by `to`: decode(op(operation, encode(a[i]), ...)). The arrays are fp32 containers of numbers on the grid
/// of to.format, such as the results of a cast. The results for other numbers are unspecified, except that NaN gives
/// NaN. `b` and `c` are read if the operation has them; otherwise they may be null. `out` may be one of the operands.
/// In the random stream of to.key, element i has number first_element + i. Throws Error (usage) if the format is wider
/// than fp32 or to.encode_scale is not 1.
void arithmetic_array(Simd simd, ThreadPool& pool, Operation operation, const Cast& to, const float* a, const float* b,
                      const float* c, float* out, std::int64_t n, std::int64_t first_element = 0);

/// Returns true if rounding the result of the fp32 operation (each to nearest even) gives the same as rounding the
/// exact result once. For + - * / sqrt this holds if fp32's precision is at least 2 p + 2 and its range is wide enough
/// (Figueroa 1995). It also holds for bf16's products and quotients, although they may be subnormal, and for fma of a
/// few narrow formats. These two cases were verified by comparing all operands.
bool is_innocuous_through_fp32(Operation operation, const Format& format);

}  // namespace macheps
