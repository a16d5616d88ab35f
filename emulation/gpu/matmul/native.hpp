// SPDX-License-Identifier: Apache-2.0
// Finds the matmuls that the GPU's own matrix unit computes bit for bit. The machine of such a matmul has the same
// parameters as a machine of the GPU's architecture.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/gpu/matmul/wgmma.hpp"
#include "emulation/machine/table.hpp"

#include <optional>

namespace macheps::gpu {

/// Returns whether two rules are equal. If SumRule gets a new field, this function fails to compile until the new field
/// is compared.
constexpr bool same_sums(const SumRule& x, const SumRule& y) {
    const auto& [model, terms, fraction_bits, delivery, addend, zero_exponent, zero_factor_counts, underflow_keeps_sign,
                 zeros_keep_sign, normalises_addend, flush_operands, flush_results, order, rounding, rounds_products,
                 joined_products, nan] = x;
    return model == y.model && terms == y.terms && fraction_bits == y.fraction_bits && delivery == y.delivery &&
           addend == y.addend && zero_exponent == y.zero_exponent && zero_factor_counts == y.zero_factor_counts &&
           underflow_keeps_sign == y.underflow_keeps_sign && zeros_keep_sign == y.zeros_keep_sign &&
           normalises_addend == y.normalises_addend && flush_operands == y.flush_operands &&
           flush_results == y.flush_results && order == y.order && rounding == y.rounding &&
           rounds_products == y.rounds_products && joined_products == y.joined_products && nan == y.nan;
}
/// Returns whether instructions of `x` and `y` on operands of these formats give the same bits.
constexpr bool same_instruction(const Machine& x, const Machine& y, const Format& a, const Format& b) {
    return same_sums(x.sum, y.sum) && x.k == y.k && x.addend == y.addend && x.result == y.result && !x.has_scales() &&
           !y.has_scales() && y.operands.contains(a) && y.operands.contains(b);
}

/// Returns whether `sm_<architecture>` is one of the machine's architectures, which are separated by spaces.
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

/// Returns a machine of this architecture that has this `instruction` and computes `args` bit for bit. Returns nullptr
/// if no machine does.
constexpr const Machine* native_machine(std::string_view instruction, int architecture, const Matmul& args) {
    if (args.rule.has_blocks()) return nullptr;
    for (const Machine* machine : all_machines) {
        if (machine->instruction == instruction && runs_on(*machine, architecture) &&
            same_instruction(*args.rule.machine, *machine, args.a.format, args.b.format)) {
            return machine;
        }
    }
    return nullptr;
}

/// Returns the type of mma.sync for `machine` and operands of `format`, or nullopt if the kernels do not support it.
constexpr std::optional<MmaType> mma_type_of(const Machine& machine, const Format& format) {
    if (machine.addend != machine.result) return std::nullopt;
    if (machine.result == fp16) return format == fp16 ? std::optional(MmaType::fp16_acc16) : std::nullopt;
    if (machine.result != fp32) return std::nullopt;
    if (format == fp16) return MmaType::fp16;
    if (format == bf16) return MmaType::bf16;
    if (format == tf32) return MmaType::tf32;
    return std::nullopt;
}

/// Returns the type of wgmma for `machine` and operands of these formats, or nullopt if the kernels do not support it.
constexpr std::optional<WgmmaType> wgmma_type_of(const Machine& machine, const Format& a, const Format& b) {
    struct Form {
        Format a, b, sum;
        WgmmaType type;
    };
    constexpr Form forms[] = {
        {fp16, fp16, fp32, WgmmaType::fp16},          {bf16, bf16, fp32, WgmmaType::bf16},
        {tf32, tf32, fp32, WgmmaType::tf32},          {fp16, fp16, fp16, WgmmaType::fp16_acc16},
        {e4m3fn, e4m3fn, fp32, WgmmaType::e4m3_e4m3}, {e4m3fn, e5m2, fp32, WgmmaType::e4m3_e5m2},
        {e5m2, e4m3fn, fp32, WgmmaType::e5m2_e4m3},   {e5m2, e5m2, fp32, WgmmaType::e5m2_e5m2},
    };
    if (machine.addend != machine.result) return std::nullopt;
    for (const Form& form : forms) {
        if (form.a == a && form.b == b && form.sum == machine.result) return form.type;
    }
    return std::nullopt;
}

}  // namespace macheps::gpu
