// SPDX-License-Identifier: Apache-2.0
// Matmul kernels for orders of summation other than fp32.chain, and for the dot-product units of CPUs. A sum runs over
// all of k, or over blocks of k as in a CPU library. Fused steps of other matrix units are in
// emulation/cpu/matmul/machine.
#pragma once
#include "emulation/cpu/matmul/kernel.hpp"

namespace macheps {

/// Returns whether order_block_kernel() has vector code for the matmul on `level`.
bool runs_as_order(Simd level, const Matmul& args);

/// Returns a kernel with the interface of matmul_block_kernel(). Call the kernel only if runs_as_order() is true for
/// the matmul.
MatmulBlockKernel order_block_kernel(Simd level);

}  // namespace macheps
