// SPDX-License-Identifier: Apache-2.0
// Matmuls on matrix units: vector code for the steps of emulation/machine/step.hpp.
#pragma once
#include "emulation/cpu/matmul/kernel.hpp"

namespace macheps {

/// Returns true if matmul_block_kernel() can compute the matmul. The machine must be fp32.chain, without slices or
/// blocks of k. A promotion must apply the scales and have an interval of at most 384 terms. Without a promotion, the
/// scales must not change along k.
bool runs_as_fp32_chain(const Matmul& args);

/// Returns a kernel with the interface of matmul_block_kernel() that supports every rule and every scaling.
MatmulBlockKernel machine_block_kernel(Simd level);

/// Returns true if `level` has vector code for every step of the machine, for all formats and exponents of its
/// operands. Steps without vector code are computed by the scalar definition.
bool has_machine_kernel(Simd level, const Machine& machine);

/// Runs the chain of instructions over all of k for every output, in place: c[i, j] is the first addend and is replaced
/// by the result. c [m, n] is contiguous and holds numbers of the addend's format. The bits are those of
/// matrix_instruction(), except that every NaN is 0x7fc00000. `args` gives a, b, m, n, k, the machine and the scales.
void machine_chain(Simd level, const Matmul& args, float* c);

}  // namespace macheps
