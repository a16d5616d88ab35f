// SPDX-License-Identifier: Apache-2.0
// Matmul kernels for orders of summation other than fp32.chain, and for the dot-product units of CPUs. A sum runs over
// all of k or in the blocks of k of a CPU library. Fused steps of other matrix units are in
// emulation/cpu/matmul/machine.
#pragma once
#include "emulation/cpu/matmul/kernel.hpp"

namespace macheps {

/// Returns whether order_block_kernel() has vector code for the matmul on `level`.
bool runs_as_order(Simd level, const Matmul& args);

/// Returns a kernel with the contract of matmul_block_kernel(), for matmuls for which runs_as_order() is true.
MatmulBlockKernel order_block_kernel(Simd level);

}  // namespace macheps
