// SPDX-License-Identifier: Apache-2.0
// Results of one instruction for many operands, computed by the vector engines.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/machine/instruction.hpp"

namespace macheps {

/// Returns true if the engines can compute the instruction. They hold numbers in fp32, so C and D must not be fp64.
bool has_instruction_grid(const Instruction& instruction);

/// Returns the bits of d for every pair of a row and a column, [rows, columns] row-major. a, c and the scales of a are
/// those of rows[i]; b and its scales are those of columns[j]. A NaN has the bits that evaluate_instruction gives.
std::vector<std::uint64_t> instruction_grid(Simd level, const Instruction& instruction,
                                            std::span<const InstructionOperands> rows,
                                            std::span<const InstructionOperands> columns);

}  // namespace macheps
