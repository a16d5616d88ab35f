// SPDX-License-Identifier: Apache-2.0
// Decomposes the operands of a matmul for the integer kernels of emulated.hpp. Defines which machines these kernels
// support, and how significands, exponents and fp4 groups are stored in memory.
#pragma once
#include "emulation/gpu/matmul/mma_kernel.hpp"
#include "emulation/matmul/fused_plan.hpp"

namespace macheps::gpu {

/// Exponent of factors that are zero. It is below the exponents of all products of nonzero factors.
inline constexpr int zero_exponent_mark = -30000;

/// A FusedPlan whose steps are truncated sums or scaled groups of fp4 products.
struct EmulatedPlan : FusedPlan {
    int steps_per_join = 0;  ///< if partial sums are joined: steps per partial sum
    bool widened = false;    ///< the operands are widened to fp16, the format that the steps read
};

/// Returns the plan for `args`, or nullopt if the integer kernels do not support its steps.
inline std::optional<EmulatedPlan> emulated_plan(const Matmul& args) {
    const std::optional<FusedPlan> fused = fused_plan(args);
    if (!fused || fused->join == PartialJoin::add_fp16) return std::nullopt;
    EmulatedPlan plan{*fused};
    plan.steps_per_join = static_cast<int>(plan.interval / plan.terms);
    plan.widened = plan.order == TermOrder::halves_of_fours;
    const SumRule& rule = plan.rule;
    if (rule.model == SumModel::scaled_groups) {
        if (plan.a_format == e2m1fn && plan.b_format == e2m1fn && plan.scale_block != 0) return plan;
        return std::nullopt;
    }
    const int fractions = plan.a_format.fraction_bits() + plan.b_format.fraction_bits();
    // The kernels shift products of significands left by F - `fractions` bits, where F is rule.fraction_bits. The
    // results are below 2^(F + 2) <= 2^27.
    const bool fits = rule.model == SumModel::truncated && rule.fraction_bits >= fractions &&
                      rule.fraction_bits <= 25 && fractions <= 20 && (plan.terms == 4 || plan.terms % 8 == 0) &&
                      32 % plan.terms == 0;
    return fits ? std::optional<EmulatedPlan>(plan) : std::nullopt;
}

/// Group of 16 fp4 numbers with its scale. Each byte of `twice` is one number times 2, which is an integer.
struct alignas(16) Fp4Group {
    std::uint32_t twice[4];
    std::uint32_t present;            ///< bit i: term i is not zero; 0 when the scale is zero
    std::uint32_t scale_significand;  ///< has scale_fraction_bits fraction bits
    int scale_exponent;
    int scale_fraction_bits;
};

/// Decomposed operand. Its arrays have an index `place`, which is a position along the packed k (PackedDepth), and an
/// index `outer`, which is a row of a or a column of b. For truncated sums, the arrays are signed significands and
/// exponents, both [matrix][place][outer]. For fp4, the array is groups[matrix][place / 16][outer].
struct EmulatedOperand {
    std::int64_t outer = 0, padded = 0;
    int* significands = nullptr;
    int* exponents = nullptr;
    Fp4Group* groups = nullptr;
    std::uint32_t* special = nullptr;  ///< [matrix][outer]; 1 if a factor or scale of this row or column is NaN or Inf
};

/// Returns the scale of a term, or 1 if the machine does not use scales.
MACHEPS_KERNEL inline Factor scale_of(const EmulatedPlan& plan, const MatmulOperand& x, std::int64_t outer,
                                      std::int64_t term) {
    if (plan.scale_block == 0) return {.significand = 1};
    return definition::scale_factor(plan.scale, x.scales.at(outer, term));
}

struct TakeApart {
    MatmulJob job;
    PackedDepth packed;
    EmulatedPlan plan;
    EmulatedOperand to;
    bool is_a = false;

    /// Returns the index of the term at a position along the packed k, or -1 if the position is padding.
    MACHEPS_KERNEL std::int64_t term_at(std::int64_t place) const {
        return packed.source(plan.source(place), job.args.k);
    }
    MACHEPS_KERNEL OuterMajor from(std::int64_t matrix) const {
        return is_a ? rows_of_a(job, matrix) : columns_of_b(job, matrix);
    }
    /// Decomposes the term at position `place` along the packed k, in row or column `outer` of a matrix.
    MACHEPS_KERNEL void factor(std::int64_t matrix, std::int64_t place, std::int64_t outer) const {
        const MatmulOperand& x = is_a ? job.args.a : job.args.b;
        const std::int64_t term = term_at(place);
        Factor f, scale{.significand = 1};
        if (term >= 0 && outer < to.outer) {
            f = factor_of_value(x.format, from(matrix).at(outer, term));
            if (plan.widened) f = ::macheps::matrix_unit::as_fp16(f);
            scale = scale_of(plan, x, outer, term);
            if (f.kind != Unpacked::Kind::finite || scale.kind != Unpacked::Kind::finite) {
                atomic_max(&to.special[matrix * to.padded + outer], 1u);
                f = {};
            }
        }
        const int up =
            is_a ? plan.rule.fraction_bits - plan.a_format.fraction_bits() - plan.b_format.fraction_bits() : 0;
        const auto significand = static_cast<int>(f.significand << up);
        const std::int64_t width = packed.slices * packed.padded;
        const std::int64_t at = (matrix * width + place) * to.padded + outer;
        to.significands[at] = f.negative ? -significand : significand;
        to.exponents[at] = f.significand == 0 ? zero_exponent_mark : f.exponent + scale.exponent;
    }
    MACHEPS_KERNEL void group(std::int64_t matrix, std::int64_t first, std::int64_t outer) const {
        const MatmulOperand& x = is_a ? job.args.a : job.args.b;
        Fp4Group g{};
        bool special = false;
        for (int i = 0; i < 16; ++i) {
            const std::int64_t term = packed.source(first + i, job.args.k);
            if (term < 0 || outer >= to.outer) continue;
            if (i == 0) {
                const Factor scale = scale_of(plan, x, outer, term);
                special = scale.is_nan();
                g.scale_significand = static_cast<std::uint32_t>(scale.significand);
                g.scale_exponent = scale.exponent;
                g.scale_fraction_bits = scale.fraction_bits;
            }
            const Factor f = factor_of_value(x.format, from(matrix).at(outer, term));
            special = special || f.kind != Unpacked::Kind::finite;
            const int twice = static_cast<int>(f.significand) << f.exponent;  // fp4: 1 fraction bit, exponents 0 .. 2
            g.twice[i / 4] |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(f.negative ? -twice : twice))
                              << (i % 4 * 8);
            if (twice != 0) g.present |= 1u << i;
        }
        if (special) atomic_max(&to.special[matrix * to.padded + outer], 1u);
        if (g.scale_significand == 0) g.present = 0;
        const std::int64_t groups = packed.slices * packed.padded / 16;
        to.groups[(matrix * groups + first / 16) * to.padded + outer] = g;
    }
};

template <class Device>
void take_apart(Device& device, const TakeApart& work) {
    const bool fp4 = work.to.groups != nullptr;
    const std::int64_t places = work.packed.slices * work.packed.padded / (fp4 ? 16 : 1), padded = work.to.padded;
    device.each(work.job.matrices() * places * padded, [=] MACHEPS_KERNEL(std::int64_t at) {
        const std::int64_t outer = at % padded, place = at / padded % places, matrix = at / padded / places;
        if (fp4) {
            work.group(matrix, place * 16, outer);
        } else {
            work.factor(matrix, place, outer);
        }
    });
}

}  // namespace macheps::gpu
