// SPDX-License-Identifier: Apache-2.0
// Results of one instruction for many operands, computed by the vector engines.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/machine/instruction.hpp"

namespace macheps {

/// Returns true if the vector engines can compute the instruction. They hold numbers in fp32, so C and D must not be
/// fp64.
bool has_instruction_grid(const Instruction& instruction);

/// Returns the bits of D for every pair of a row and a column, row-major [rows, columns]. For pair (i, j), a, its
/// scales and C come from rows[i], and b and its scales come from columns[j]. NaNs have the same bits as in
/// evaluate_instruction().
std::vector<std::uint64_t> instruction_grid(Simd level, const Instruction& instruction,
                                            std::span<const InstructionOperands> rows,
                                            std::span<const InstructionOperands> columns);

}  // namespace macheps
