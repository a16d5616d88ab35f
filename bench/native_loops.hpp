// SPDX-License-Identifier: Apache-2.0
// Loops over native fp32 instructions. The speed of emulated arithmetic is compared with them.
#pragma once
#include "core/arithmetic.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps::bench {

/// Computes out[i] = a[i] + b[i], a[i] b[i], or fma(a[i], b[i], c[i]). n is a multiple of 16. Other operations are not
/// supported.
void native_loop(Simd simd, Operation operation, const float* a, const float* b, const float* c, float* out,
                 std::int64_t n);

}  // namespace macheps::bench
