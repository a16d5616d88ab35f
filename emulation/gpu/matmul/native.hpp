// SPDX-License-Identifier: Apache-2.0
// Which matmuls the GPU's own matrix unit computes to the bit: those whose machine has the same numbers as a machine of
// that architecture.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/gpu/matmul/wgmma.hpp"
#include "emulation/machine/table.hpp"

namespace macheps::gpu {

/// True when two machines sum the same way. A new field of SumRule does not compile here until it is compared.
constexpr bool same_sums(const SumRule& x, const SumRule& y) {
    const auto& [model, terms, fraction_bits, delivery, addend, zero_exponent, zero_factor_counts, underflow_keeps_sign,
                 zeros_keep_sign, normalises_addend] = x;
    return model == y.model && terms == y.terms && fraction_bits == y.fraction_bits && delivery == y.delivery &&
           addend == y.addend && zero_exponent == y.zero_exponent && zero_factor_counts == y.zero_factor_counts &&
           underflow_keeps_sign == y.underflow_keeps_sign && zeros_keep_sign == y.zeros_keep_sign &&
           normalises_addend == y.normalises_addend;
}
/// True when instructions of `x` and `y` on operands of these formats give the same bits.
constexpr bool same_instruction(const Machine& x, const Machine& y, const Format& a, const Format& b) {
    return same_sums(x.sum, y.sum) && x.k == y.k && x.addend == y.addend && x.result == y.result && !x.has_scales() &&
           !y.has_scales() && y.operands.contains(a) && y.operands.contains(b);
}

/// `sm_<architecture>` is among the machine's architectures, which spaces part.
constexpr bool runs_on(const Machine& machine, int architecture) {
    for (std::string_view rest = machine.arch; rest.substr(0, 3) == "sm_";) {
        int number = 0;
        std::size_t at = 3;
        for (; at < rest.size() && rest[at] != ' '; ++at) number = number * 10 + (rest[at] - '0');
        if (number == architecture) return true;
        rest = rest.substr(at < rest.size() ? at + 1 : at);
    }
    return false;
}

/// The machine whose `instruction` on a GPU of this architecture computes `args`, or nullptr.
constexpr const Machine* native_machine(std::string_view instruction, int architecture, const Matmul& args) {
    for (const Machine* machine : all_machines) {
        if (machine->instruction == instruction && runs_on(*machine, architecture) &&
            same_instruction(*args.rule.machine, *machine, args.a.format, args.b.format)) {
            return machine;
        }
    }
    return nullptr;
}

/// The forms of mma.sync that the kernels know. Both operands have one format.
constexpr bool mma_type_of(const Machine& machine, const Format& format, MmaType& type) {
    const bool half_sums = machine.result == fp16;
    if (format == fp16) {
        type = half_sums ? MmaType::fp16_acc16 : MmaType::fp16;
    } else if (format == bf16) {
        type = MmaType::bf16;
    } else if (format == tf32) {
        type = MmaType::tf32;
    } else {
        return false;
    }
    return machine.addend == machine.result && (machine.result == fp32 || format == fp16);
}

/// The forms of wgmma that the kernels know.
constexpr bool wgmma_type_of(const Machine& machine, const Format& a, const Format& b, WgmmaType& type) {
    if (machine.addend != machine.result) return false;
    if (machine.result == fp16) {
        type = WgmmaType::fp16_acc16;
        return a == fp16 && b == fp16;
    }
    struct Form {
        Format a, b;
        WgmmaType type;
    };
    constexpr Form forms[] = {
        {fp16, fp16, WgmmaType::fp16},        {bf16, bf16, WgmmaType::bf16},
        {tf32, tf32, WgmmaType::tf32},        {e4m3fn, e4m3fn, WgmmaType::e4m3_e4m3},
        {e4m3fn, e5m2, WgmmaType::e4m3_e5m2}, {e5m2, e4m3fn, WgmmaType::e5m2_e4m3},
        {e5m2, e5m2, WgmmaType::e5m2_e5m2},
    };
    for (const Form& form : forms) {
        if (form.a != a || form.b != b) continue;
        type = form.type;
        return machine.result == fp32;
    }
    return false;
}

}  // namespace macheps::gpu
