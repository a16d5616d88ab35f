// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/matmul/machine/instruction_grid.hpp"

#include "core/host/float_environment.hpp"
#include "emulation/cpu/matmul/machine/machine_kernel.hpp"
#include "emulation/machine/step.hpp"

#include <algorithm>

namespace macheps {

namespace {

/// Returns the value of a code. fp32 and tf32 words are returned unchanged, with the low bits that the matrix unit
/// ignores.
float value_of(const Format& format, std::uint64_t code) {
    if (format.container_bits() == 32) return bit_cast<float>(static_cast<std::uint32_t>(code));
    return decode(format, code);
}

void append(std::vector<float>& values, const Format& format, const std::vector<std::uint64_t>& codes) {
    for (const std::uint64_t code : codes) values.push_back(value_of(format, code));
}

OperandScales scales_of(const std::vector<float>& values, const Machine& machine, int count) {
    if (count == 0) return {};
    return {.data = values.data(), .k_block = machine.scale_block, .outer_stride = count, .k_stride = 1};
}

}  // namespace

bool has_instruction_grid(const Instruction& instruction) {
    return instruction.machine->addend != fp64 && instruction.machine->result != fp64;
}

std::vector<std::uint64_t> instruction_grid(Simd level, const Instruction& instruction,
                                            std::span<const InstructionOperands> rows,
                                            std::span<const InstructionOperands> columns) {
    const DefaultFloatModes modes;
    // The k of the instruction may be smaller than the k of the machine.
    Machine machine = *instruction.machine;
    machine.k = instruction.k;
    const bool halves = machine.sum.model == SumModel::through_fp16;  // always two steps, whatever k is
    machine.sum.terms = std::min(machine.sum.terms, halves ? machine.k / 2 : machine.k);

    std::vector<float> a, b, a_scale, b_scale, sums;
    for (const InstructionOperands& row : rows) {
        append(a, instruction.a, row.a);
        append(a_scale, machine.scale, row.a_scale);
        sums.insert(sums.end(), columns.size(), value_of(machine.addend, row.c));
    }
    for (const InstructionOperands& column : columns) {
        append(b, instruction.b, column.b);
        append(b_scale, machine.scale, column.b_scale);
    }
    Matmul args;
    args.m = static_cast<std::int64_t>(rows.size());
    args.n = static_cast<std::int64_t>(columns.size());
    args.k = instruction.k;
    args.rule.machine = &machine;
    args.a = {.data = a.data(), .ld = args.k, .format = instruction.a};
    args.b = {.data = b.data(), .ld = args.k, .transposed = true, .format = instruction.b};
    args.a.scales = scales_of(a_scale, machine, instruction.scale_count());
    args.b.scales = scales_of(b_scale, machine, instruction.scale_count());
    machine_chain(level, args, sums.data());

    // The vector engines do not keep the payload of a NaN. If the machine takes the payload of its result from an
    // operand, the scalar definition computes every result that is a NaN.
    const bool has_payload = machine.sum.nan == NanRule::first_operand;
    std::vector<std::uint64_t> bits;
    for (std::size_t at = 0; at < sums.size(); ++at) {
        const float sum = sums[at];
        if (sum == sum) {
            bits.push_back(encode64(machine.result, sum, Round::nearest_even, Overflow::nonsaturate));
        } else if (has_payload) {
            InstructionOperands one = rows[at / columns.size()];
            one.b = columns[at % columns.size()].b;
            bits.push_back(evaluate_instruction(instruction, one));
        } else {
            bits.push_back(matrix_unit::nan_bits(machine.sum));
        }
    }
    return bits;
}

}  // namespace macheps
