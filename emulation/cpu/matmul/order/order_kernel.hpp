// SPDX-License-Identifier: Apache-2.0
// Matmuls on orders of summation and on units of CPUs: chains that are neither fp32.chain nor fused steps, over all of
// k or in the blocks of a CPU library.
#pragma once
#include "emulation/cpu/matmul/kernel.hpp"

namespace macheps {

/// Returns whether order_block_kernel has vector code of `level` for the matmul.
bool runs_as_order(Simd level, const Matmul& args);

/// Returns a kernel with the contract of matmul_block_kernel(), for matmuls for which runs_as_order() is true.
MatmulBlockKernel order_block_kernel(Simd level);

}  // namespace macheps
