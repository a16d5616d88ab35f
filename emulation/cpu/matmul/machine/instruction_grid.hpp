// SPDX-License-Identifier: Apache-2.0
// Elements of one instruction on the vector engines.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/machine/instruction.hpp"

namespace macheps {

/// True when the engines can take the instruction in: they hold numbers in fp32.
bool has_instruction_grid(const Instruction& instruction);

/// The bits of d for every row against every column, [rows, columns] row-major: a, c and the scales of a are those of
/// rows[i]; b and its scales those of columns[j]. A NaN is the one that evaluate_instruction gives.
std::vector<std::uint64_t> instruction_grid(Simd level, const Instruction& instruction,
                                            std::span<const InstructionOperands> rows,
                                            std::span<const InstructionOperands> columns);

}  // namespace macheps
