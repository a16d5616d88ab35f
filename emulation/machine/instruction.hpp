// SPDX-License-Identifier: Apache-2.0
// Finds an instruction of a matrix unit by its name, and computes one element of its result. Host only.
#pragma once
#include "emulation/machine/machine.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

struct Instruction {
    std::string name{};  ///< `sm_90 wgmma m64n8k32.f32.e4m3.e4m3`
    const Machine* machine = nullptr;
    Format a = fp32, b = fp32;
    int k = 0;  ///< number of products

    /// Returns the number of scales of each operand. Scale i applies to k / scale_count() products, starting at product
    /// i * k / scale_count().
    int scale_count() const { return machine->has_scales() ? k / machine->scale_block : 0; }
};

/// Returns the instruction with these three names.
/// `arch`: `sm_70` ... `sm_120`, `CDNA1` ... `CDNA3`, `x86`, `arm`, `power10`, `riscv`.
/// `instr`: a word of Machine::instruction.
/// `qual`:
///   - mma: shape.d.a.b.c
///   - wgmma, tcgen05: shape.d.a.b (c has the type of d)
///   - block-scaled forms: shape.blockN.d.a.b[.c].scale
///   - mfma: the end of AMD's mnemonic (`f32_32x32x8f16`)
///   - CPUs: k<products>.d.a.b.c, optionally with the tile in front (`m2n2k4...`)
/// Errors: throws Error if the instruction does not exist. The message suggests the nearest name, and Error::where is
/// `where`.
Instruction find_instruction(std::string_view arch, std::string_view instr, std::string_view qual,
                             std::string_view where = {});

/// Codes of one row of a, one column of b (k each), an addend, and the block scales (scale_count() each).
struct InstructionOperands {
    std::vector<std::uint64_t> a{}, b{};
    std::uint64_t c = 0;
    std::vector<std::uint64_t> a_scale{}, b_scale{};
};

/// Returns the bits of d in the machine's result format, as emulation/machine/step.hpp computes them. The sign of a
/// scale is ignored. Errors: throws Error if the number of codes or of scales is not the number that the instruction
/// reads.
std::uint64_t evaluate_instruction(const Instruction& instruction, const InstructionOperands& operands);

}  // namespace macheps
