// SPDX-License-Identifier: Apache-2.0
// Matmuls on matrix units: the vector engines of emulation/machine/step.hpp.
#pragma once
#include "emulation/cpu/matmul/kernel.hpp"

namespace macheps {

/// True when matmul_block_kernel computes it: fp32.chain over all of k, or cut where scales change.
bool runs_as_fp32_chain(const Matmul& args);

/// The same contract as matmul_block_kernel, for every rule and scaling.
MatmulBlockKernel machine_block_kernel(Simd level);

/// True when `level` has vector code for every step of the machine, whatever its operands' format and exponents are. A
/// step that it has no code for is computed by the scalar definition.
bool has_machine_kernel(Simd level, const Machine& machine);

/// c[i, j] = the chain of instructions over all of k from addend c[i, j], in place: c [m, n] contiguous, numbers of the
/// addend's format. Bits as matrix_instruction gives them, but that a NaN is 0x7fc00000. `args` gives a, b, m, n, k,
/// the machine and the scales.
void machine_chain(Simd level, const Matmul& args, float* c);

}  // namespace macheps
