// SPDX-License-Identifier: Apache-2.0
// Steps of the dot-product units of CPUs (x86, Arm, POWER). They consist of IEEE operations. The units differ in the
// order of the operations, in the subnormals that they flush, and in the NaN that they return. Some units round to odd.
// Host and device. Operands have 16 bits or fewer, so their products are exact in fp64. Sources: Intel SDM vol. 2
// (VDPBF16PS, TDPBF16PS), Arm ARM (BFDOT), Power ISA 3.1, and results of AMD Zen 5.
#pragma once
#include "emulation/machine/step_parts.hpp"

namespace macheps::matrix_unit {

MACHEPS_HD constexpr bool is_nan_code(const Format& f, std::uint64_t code) {
    return (code & f.magnitude_mask()) > f.inf_code();
}

/// Returns the NaN result for a NaN operand: a quiet NaN of the format `f` with as much of the payload as fits.
MACHEPS_HD constexpr std::uint64_t quieted(const Format& f, const Factor& x) {
    const int up = f.fraction_bits() - x.fraction_bits;
    const std::uint64_t payload = up >= 0 ? x.significand << up : x.significand >> -up;
    return (x.negative ? f.sign_bit() : 0) | f.nan_code() | payload;
}

/// Returns x + y rounded to odd in fp64. Rounding the result again, to any format with at most 51 bits of precision,
/// gives the correctly rounded x + y.
MACHEPS_HD constexpr double odd_sum(double x, double y) {
    return bit_cast<double>(op(Operation::add, fp64, bit_cast<std::uint64_t>(x), bit_cast<std::uint64_t>(y), 0,
                               Round::to_odd, Overflow::nonsaturate)
                                .bits);
}

/// Returns x, or a zero of its sign if x is subnormal in fp32 and the rule flushes operands.
MACHEPS_HD constexpr double read_operand(const SumRule& rule, double x) {
    const bool subnormal = x > -0x1p-126 && x < 0x1p-126 && x != 0;
    return rule.flush_operands && subnormal ? (x < 0 ? -0.0 : 0.0) : x;
}

/// Rounds and flushes a result as the rule requires. `x` is exact, or rounded to odd in fp64.
MACHEPS_HD constexpr std::uint64_t round_result(const SumRule& rule, double x) {
    const Format f = delivered_format(rule.delivery);
    if (x != x) return nan_bits(rule);
    const double size = x < 0 ? -x : x, least = Format::power_of_two(f.emin());
    const std::uint64_t zero = x < 0 ? f.sign_bit() : 0;
    if (rule.flush_results == ResultFlush::before_rounding && size < least && size != 0) return zero;
    if (rule.flush_results == ResultFlush::after_rounding && size < least && size != 0) {
        // Multiplied by 2^64, the result is normal, so it is rounded as if the exponent were unbounded.
        const double up = x * 0x1p64, rounded = decode64(f, encode64(f, up, rule.rounding, Overflow::nonsaturate));
        if ((rounded < 0 ? -rounded : rounded) < least * 0x1p64) return zero;
    }
    // Rounding to odd overflows to infinity here, not to the largest finite number.
    const double most = decode64(f, f.max_finite_code());
    if (rule.rounding == Round::to_odd && size > most) return f.inf_code() | zero;
    const std::uint64_t code = encode64(f, x, rule.rounding, Overflow::nonsaturate);
    const bool subnormal = (code & f.magnitude_mask()) < f.min_normal_code();
    return rule.flush_results == ResultFlush::subnormal && subnormal ? code & f.sign_bit() : code;
}

/// Computes one addition as the unit does. The operands and the return value are bits in the format of the result.
MACHEPS_HD constexpr std::uint64_t cpu_add(const SumRule& rule, std::uint64_t x, std::uint64_t y) {
    const Format f = delivered_format(rule.delivery);
    if (rule.nan == NanRule::first_operand) {
        if (is_nan_code(f, x)) return x | f.nan_code();
        if (is_nan_code(f, y)) return y | f.nan_code();
    }
    return round_result(rule, odd_sum(read_operand(rule, decode64(f, x)), read_operand(rule, decode64(f, y))));
}

/// Computes one multiply-add as the unit does. `c` and the return value are bits in the format of the result.
MACHEPS_HD constexpr std::uint64_t cpu_fma(const SumRule& rule, const Factor& a, const Factor& b, std::uint64_t c) {
    const Format f = delivered_format(rule.delivery);
    if (rule.nan == NanRule::first_operand) {
        if (a.is_nan()) return quieted(f, a);
        if (b.is_nan()) return quieted(f, b);
        if (is_nan_code(f, c)) return c | f.nan_code();
    }
    const double x = read_operand(rule, a.value()), y = read_operand(rule, b.value());
    if (rule.rounds_products) return cpu_add(rule, c, round_result(rule, x * y));
    return round_result(rule, odd_sum(x * y, read_operand(rule, decode64(f, c))));
}

/// Computes a step of an fma_chain that is not plain (SumRule::is_plain_chain).
MACHEPS_HD constexpr std::uint64_t cpu_chain_step(const SumRule& rule, const Factor* a, const Factor* b, int n,
                                                  std::uint64_t c) {
    for (int i = 0; i < n; ++i) {
        const int at = rule.order == ProductOrder::odd_first ? i ^ 1 : i;
        c = cpu_fma(rule, a[at], b[at], c);
    }
    return c;
}

/// Computes BFDOT: p0 = round(a0 b0), p1 = round(a1 b1), s = round(p0 + p1), d = round(c + s).
MACHEPS_HD constexpr std::uint64_t odd_pairs_step(const SumRule& rule, const Factor* a, const Factor* b, int n,
                                                  std::uint64_t c) {
    for (int i = 0; i + 1 < n; i += 2) {
        std::uint64_t product[2] = {};
        for (int j = 0; j < 2; ++j) {
            const double x = read_operand(rule, a[i + j].value()), y = read_operand(rule, b[i + j].value());
            product[j] = round_result(rule, x * y);
        }
        c = cpu_add(rule, c, cpu_add(rule, product[0], product[1]));
    }
    return c;
}

/// Rounds the exact sum of the products, adds the addend, and rounds again.
MACHEPS_HD constexpr std::uint64_t pair_then_add_step(const SumRule& rule, const Factor* a, const Factor* b, int n,
                                                      std::uint64_t c) {
    const Format f = delivered_format(rule.delivery);
    Special special;
    ExactSum sum;
    bool zeros_are_negative = true;
    for (int i = 0; i < n; ++i) {
        special.observe_product(a[i], b[i]);
        const std::uint64_t significand = a[i].significand * b[i].significand;
        zeros_are_negative = zeros_are_negative && significand == 0 && a[i].negative != b[i].negative;
        sum.add(a[i].negative != b[i].negative, significand,
                a[i].exponent + b[i].exponent - a[i].fraction_bits - b[i].fraction_bits);
    }
    std::uint64_t pair = 0;
    if (special.nan || (special.positive && special.negative)) return nan_bits(rule);
    if (special.any()) {
        pair = infinity_bits(rule.delivery, special.negative);
    } else {
        Unpacked value = sum.value();
        if (value.significand == 0) value.negative = zeros_are_negative;
        pair = encode_unpacked(f, value, Round::nearest_even, Overflow::nonsaturate, {});
    }
    return cpu_add(rule, c, pair);
}

/// Adds the even products in one chain and the odd products in another chain. Each chain starts from +0. Then adds the
/// two chains, and adds their sum to C. For fp8, each element of a chain is the rounded sum of two products
/// (`joined_products`).
MACHEPS_HD constexpr std::uint64_t parted_chain_step(const SumRule& rule, const Factor* a, const Factor* b, int n,
                                                     std::uint64_t c) {
    const Format f = delivered_format(rule.delivery);
    std::uint64_t part[2] = {};
    for (int i = 0; i < n; i += rule.joined_products) {
        std::uint64_t& chain = part[i / rule.joined_products % 2];
        if (rule.joined_products == 1) {
            chain = cpu_fma(rule, a[i], b[i], chain);
            continue;
        }
        std::uint64_t products = f.sign_bit();  // -0: adding it does not change the first product
        for (int j = 0; j < rule.joined_products; ++j) products = cpu_fma(rule, a[i + j], b[i + j], products);
        chain = cpu_add(rule, chain, products);
    }
    return cpu_add(rule, c, cpu_add(rule, part[0], part[1]));
}

}  // namespace macheps::matrix_unit
