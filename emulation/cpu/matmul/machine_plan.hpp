// SPDX-License-Identifier: Apache-2.0
// What the vector kernels need to know of one matmul on a matrix unit.
#pragma once
#include "emulation/matmul/matmul.hpp"

#include <array>

namespace macheps {

struct ExponentRange {
    int least = 1000, most = -1000;
};

/// Non-finite values of a row or column, as bits.
inline constexpr std::uint8_t has_nan = 1, has_infinity = 2;

inline std::uint8_t special_of(const Format& format, float x) {
    const Factor f = factor_of_value(format, x);
    return f.is_nan() ? has_nan : f.is_infinite() ? has_infinity : 0;
}

/// How often and how partial sums join the main accumulator.
enum class PartialJoin : std::uint8_t { none, add, add_fp16, fma_joint, fma_left };

struct MachinePlan {
    SumRule rule{};                 ///< of one step
    Format a_format{}, b_format{};  ///< in which the operands are decoded
    int terms = 0;                  ///< products per step
    int instruction_k = 0;
    /// fp8 through fp16: products k mod 4 = 0, 1 in the first half of an instruction. CDNA3 fp8: even products in the
    /// first half of a step.
    bool permuted = false;
    std::int64_t period = 1;               ///< terms after which the order repeats, a power of two
    std::array<std::uint8_t, 64> order{};  ///< of a period: which term stands at each place
    bool flushes = false;                  ///< subnormal operands read as zeros
    int a_base = 0, b_base = 0;
    PartialJoin join = PartialJoin::none;
    std::int64_t interval = 0;  ///< terms per partial sum
    Format scale{};
    int scale_count = 0;  ///< scales per instruction

    /// The term that stands at place t of the packed operands.
    std::int64_t source(std::int64_t t) const {
        if (!permuted) return t;
        const std::int64_t place = t & (period - 1);
        return t - place + order[static_cast<std::size_t>(place)];
    }

    /// Fills `order` for the model.
    void permute() {
        permuted = true;
        const bool even_odd = rule.model == SumModel::floored_even_odd;
        period = even_odd ? terms : instruction_k;
        const std::int64_t half = period / 2;
        for (std::int64_t place = 0; place < period; ++place) {
            const std::int64_t i = place % half, second = place / half;
            order[static_cast<std::size_t>(place)] =
                static_cast<std::uint8_t>(even_odd ? i * 2 + second : i / 2 * 4 + i % 2 + second * 2);
        }
    }
};

/// A block scale as the unit reads it: the number of its format, without its sign. NaN stays.
struct BlockScale {
    float value;
    int exponent;  ///< far out for a zero (a sum with it is below -5000) and a NaN (above 5000)
};
inline BlockScale block_scale(const Format& format, float scale) {
    const Factor f = definition::scale_factor(format, scale);
    return {static_cast<float>(f.value()), f.is_nan() ? 100000 : f.is_zero() ? -20000 : f.exponent};
}

/// The plan for `args`, with the bases of formats whose exponents fit 8 bits.
inline MachinePlan machine_plan(const Matmul& args) {
    const Machine& machine = *args.rule.machine;
    MachinePlan plan;
    plan.rule = machine.sum;
    plan.a_format = args.a.format;
    plan.b_format = args.b.format;
    plan.terms = machine.sum.terms;
    plan.instruction_k = machine.k;
    plan.interval = args.rule.promotion_interval;
    plan.scale = machine.scale;
    plan.scale_count = machine.has_scales() ? machine.k / machine.scale_block : 0;
    switch (args.rule.promotion) {
        case Promotion::add:
            plan.join = PartialJoin::add;
            break;
        case Promotion::fma_joint:
            plan.join = PartialJoin::fma_joint;
            break;
        case Promotion::fma_left:
            plan.join = PartialJoin::fma_left;
            break;
        default:
            break;
    }
    if (machine.sum.model == SumModel::through_fp16) {
        plan.rule.model = SumModel::truncated;
        plan.a_format = plan.b_format = fp16;
        plan.permute();
        plan.interval = machine.k;
        plan.join = machine.result == fp16 ? PartialJoin::add_fp16 : PartialJoin::add;
    }
    if (machine.sum.model == SumModel::scaled_groups) plan.terms = machine.k;
    if (machine.sum.model == SumModel::floored_even_odd) plan.permute();
    plan.flushes = machine.sum.model == SumModel::flushed_pairs;
    plan.a_base = plan.a_format.emin();
    plan.b_base = plan.b_format.emin();
    return plan;
}

/// True when the exponents of these formats fit 8 bits whatever the values are.
inline bool has_narrow_exponents(const Format& format) { return format.exponent_bits() <= 5; }

}  // namespace macheps
