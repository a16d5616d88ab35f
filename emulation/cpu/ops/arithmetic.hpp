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
/// NaN. `b` and `c` may be null if the operation does not use them. `out` may be one of the operands. Element i uses
/// element first_element + i of the random stream of to.key. Throws Error (usage) if the format is wider than fp32 or
/// to.encode_scale is not 1.
void arithmetic_array(Simd simd, ThreadPool& pool, Operation operation, const Cast& to, const float* a, const float* b,
                      const float* c, float* out, std::int64_t n, std::int64_t first_element = 0);

/// Returns true if computing the operation in fp32 and then rounding to `format`, both to nearest even, gives the same
/// result as rounding the exact result once. For + - * / sqrt this holds if the precision of fp32 is at least 2 p + 2,
/// where p is the precision of `format`, and if the range of fp32 is wide enough (Figueroa 1995). It also holds for
/// products and quotients of bf16, although they may be subnormal in fp32, and for fma in a few narrow formats. These
/// two exceptions are verified by a comparison over all operands.
bool is_innocuous_through_fp32(Operation operation, const Format& format);

}  // namespace macheps
