// SPDX-License-Identifier: Apache-2.0
// Matmuls on matrix units: vector code for the steps of emulation/machine/step.hpp.
#pragma once
#include "emulation/cpu/matmul/kernel.hpp"

namespace macheps {

/// Returns true if matmul_block_kernel() computes the matmul: fp32.chain over all of k, or cut where scales change.
bool runs_as_fp32_chain(const Matmul& args);

/// Returns a kernel with the contract of matmul_block_kernel(), for every rule and scaling.
MatmulBlockKernel machine_block_kernel(Simd level);

/// Returns true if `level` has vector code for every step of the machine, for all formats and exponents of its
/// operands. The scalar definition computes a step without vector code.
bool has_machine_kernel(Simd level, const Machine& machine);

/// Computes c[i, j] = the chain of instructions over all of k from addend c[i, j], in place. c [m, n] is contiguous and
/// holds numbers of the addend's format. The bits are those of matrix_instruction, except that a NaN is 0x7fc00000.
/// `args` gives a, b, m, n, k, the machine and the scales.
void machine_chain(Simd level, const Matmul& args, float* c);

}  // namespace macheps
