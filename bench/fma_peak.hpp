// SPDX-License-Identifier: Apache-2.0
// The ceiling of every matmul: fused multiply-adds that never leave the registers.
#pragma once
#include "emulation/cpu/simd/simd.hpp"

namespace macheps::bench {

/// Runs `rounds` rounds of independent fp32 fma; returns how many floating-point operations that was (two per fma).
double fma_rounds(Simd simd, std::int64_t rounds);

}  // namespace macheps::bench
