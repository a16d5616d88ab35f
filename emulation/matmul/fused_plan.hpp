// SPDX-License-Identifier: Apache-2.0
// FusedPlan describes a matmul on a matrix unit as one chain of equal fused steps per output element: the order of the
// terms, and how partial sums are added. fused_plan() derives it from the machine and the rule. The fast kernels for
// CPU and GPU add only the details that they need. The results equal those of the definition in
// emulation/matmul/matmul.hpp.
#pragma once
#include "emulation/backend.hpp"

#include <optional>

namespace macheps {

/// Order in which the steps take the terms of k.
enum class TermOrder : std::uint8_t {
    ascending,
    halves_of_fours,  ///< per instruction: the terms with k mod 4 = 0 or 1, then the others (fp8 as two fp16 steps)
    even_first,       ///< per step: the even terms, then the odd ones (CDNA3 fp8)
};

/// How a partial sum is added to the main accumulator.
enum class PartialJoin : std::uint8_t {
    none,       ///< there is one sum, over all of k
    add,        ///< one fp32 addition
    add_fp16,   ///< one fp16 addition
    fma_joint,  ///< Promotion::fma_joint
    fma_left,   ///< Promotion::fma_left
};

struct FusedPlan {
    SumRule rule{};                          ///< rule of one step; the model is never through_fp16
    Format a_format{}, b_format{};           ///< formats in which a step reads the operands
    int terms = 1;                           ///< products per step
    int instruction_k = 1;                   ///< products per instruction; k is padded with +0 to a multiple of it
    TermOrder order = TermOrder::ascending;  ///< order in which the steps take the terms
    PartialJoin join = PartialJoin::none;
    std::int64_t interval = 0;  ///< unless `join` is none: terms per partial sum, a multiple of instruction_k
    Format scale{};             ///< format of the block scales that the steps apply, if there are any
    int scale_block = 0;        ///< terms that share a scale; 0: no scales

    MACHEPS_HD constexpr bool is_permuted() const { return order != TermOrder::ascending; }
    /// Returns the number of terms after which the order repeats.
    MACHEPS_HD constexpr int period() const {
        return order == TermOrder::even_first ? terms : order == TermOrder::halves_of_fours ? instruction_k : 1;
    }
    /// Returns the index of the term that a chain adds at position `place`. Index and position count from the first
    /// term of the chain.
    MACHEPS_HD constexpr std::int64_t source(std::int64_t place) const {
        if (!is_permuted()) return place;
        const std::int64_t half = period() / 2, within = place % period();
        const std::int64_t i = within % half, second = within / half;
        const std::int64_t term = order == TermOrder::even_first ? 2 * i + second : i / 2 * 4 + i % 2 + 2 * second;
        return place - within + term;
    }
};

/// Returns the plan for `args`, or nothing if only the definition in emulation/matmul/matmul.hpp can compute the sum.
/// The fast kernels do not support
/// - machines without fused steps of this kind (orders of summation, fma chains, most CPU units),
/// - machines whose C and D have different formats,
/// - machines with an unusual value of a SumRule property on which published sources disagree,
/// - rules with blocks, and
/// - promotion on through_fp16 machines, whose instructions already end with an addition.
constexpr std::optional<FusedPlan> fused_plan(const Matmul& args) {
    const Machine& machine = *args.rule.machine;
    FusedPlan plan{.rule = machine.sum,
                   .a_format = args.a.format,
                   .b_format = args.b.format,
                   .terms = min_of(machine.sum.terms, machine.k),
                   .instruction_k = machine.k,
                   .interval = args.rule.promotion_interval,
                   .scale = machine.scale,
                   .scale_block = machine.scale_block};
    const SumRule& rule = machine.sum;
    // For each model, the fast kernels support only one value of underflow_keeps_sign: the value in the rows of the
    // model's machines.
    const bool cuts = rule.model == SumModel::truncated || rule.model == SumModel::scaled_groups ||
                      rule.model == SumModel::through_fp16;
    const bool disputed =
        rule.zero_factor_counts || rule.underflow_keeps_sign == cuts || rule.zeros_keep_sign || rule.normalises_addend;
    if (disputed || machine.addend != machine.result || args.rule.has_blocks()) return std::nullopt;

    switch (args.rule.promotion) {
        case Promotion::none:
            break;
        case Promotion::add:
            plan.join = PartialJoin::add;
            break;
        case Promotion::fma_joint:
            plan.join = PartialJoin::fma_joint;
            break;
        case Promotion::fma_left:
            plan.join = PartialJoin::fma_left;
            break;
    }
    switch (rule.model) {
        case SumModel::exact_step:
            if (rule.delivery != Delivery::fp32_nearest_even) return std::nullopt;
            return plan;
        case SumModel::truncated:
        case SumModel::scaled_groups:
        case SumModel::flushed_pairs:
        case SumModel::floored:
            return plan;
        case SumModel::floored_even_odd:
            plan.order = TermOrder::even_first;
            return plan;
        case SumModel::through_fp16:
            // Each instruction is two truncated steps on operands widened to fp16. The sum of an instruction is added to
            // the main accumulator.
            if (plan.join != PartialJoin::none) return std::nullopt;
            plan.rule.model = SumModel::truncated;
            plan.a_format = plan.b_format = fp16;
            plan.terms = machine.k / 2;
            plan.order = TermOrder::halves_of_fours;
            plan.join = machine.result == fp16 ? PartialJoin::add_fp16 : PartialJoin::add;
            plan.interval = machine.k;
            return plan;
        case SumModel::fma_chain:
        case SumModel::pairwise:
        case SumModel::kahan:
        case SumModel::exact:
        case SumModel::pair_then_add:
        case SumModel::odd_pairs:
        case SumModel::parted_chain:
            break;
    }
    return std::nullopt;
}

}  // namespace macheps
