// SPDX-License-Identifier: Apache-2.0
// Upper bound on the speed of a matmul: fused multiply-adds on registers only.
#pragma once
#include "emulation/cpu/simd/simd.hpp"

namespace macheps::bench {

/// Runs `rounds` rounds of independent fp32 fma. Returns the number of floating-point operations (two per fma).
double fma_rounds(Simd simd, std::int64_t rounds);

}  // namespace macheps::bench
