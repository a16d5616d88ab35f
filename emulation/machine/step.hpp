// SPDX-License-Identifier: Apache-2.0
// Definition of the steps of matrix units: one function per SumModel. The functions use integer arithmetic, except for
// units that consist of IEEE operations. Host and device. The vector engines (SIMD kernels) return the same bits. The
// models are those of Xie et al. (MMA-Sim, arXiv 2511.10909) and of Khattak and Mikaitis (arXiv 2512.07004). CPU units
// are in step_cpu.hpp.
#pragma once
#include "emulation/machine/step_cpu.hpp"

namespace macheps {

namespace matrix_unit {

MACHEPS_HD constexpr int addend_exponent(const SumRule& rule, const Factor& c) {
    if (c.is_zero()) return rule.zero_exponent;
    const int lead = bit_length(c.significand) - 1 - c.fraction_bits;  // negative if c is subnormal
    return rule.normalises_addend && rule.addend.bits == 16 ? c.exponent + lead : c.exponent;
}

constexpr int no_exponent = -100000;

/// Computes one step of model `truncated`. Without scales (`scale_exponent` is 0), this is T-FDPA of the MMA-Sim paper.
/// With scales, `scale_exponent` is the sum of the exponents of both scales, and the step is ST-FDPA.
MACHEPS_HD constexpr std::uint64_t truncated_step(const SumRule& rule, const Factor* a, const Factor* b, int n,
                                                  int step, const Factor& c, int scale_exponent) {
    Special special;
    special.observe_addend(c);
    int largest = addend_exponent(rule, c);
    bool all_negative = c.negative;
    for (int i = 0; i < n; ++i) {
        const Factor &x = a[i * step], &y = b[i * step];
        special.observe_product(x, y);
        const bool zero = x.is_zero() || y.is_zero();
        all_negative = all_negative && x.negative != y.negative;
        if (!zero || rule.zero_factor_counts) largest = max_of(largest, x.exponent + y.exponent + scale_exponent);
    }
    if (special.any()) return special.result(rule.delivery);
    const int unit = largest - rule.fraction_bits;
    std::int64_t sum = cut(c.negative, c.significand, c.exponent, c.fraction_bits, unit);
    bool all_zero = c.is_zero();
    for (int i = 0; i < n; ++i) {
        const Factor &x = a[i * step], &y = b[i * step];
        all_zero = all_zero && (x.is_zero() || y.is_zero());
        sum += cut(x.negative != y.negative, x.significand * y.significand, x.exponent + y.exponent + scale_exponent,
                   x.fraction_bits + y.fraction_bits, unit);
    }
    return deliver(rule, sum, unit, rule.zeros_keep_sign && all_zero && all_negative);
}

/// Computes one step of model `scaled_groups` (GST-FDPA of the MMA-Sim paper): n products of fp4 in groups of 16.
MACHEPS_HD constexpr std::uint64_t scaled_groups_step(const SumRule& rule, const Factor* a, const Factor* b, int n,
                                                      const Factor& c, const StepScales& scales) {
    Special special;
    special.observe_addend(c);
    for (int i = 0; i < scales.count; ++i) special.nan = special.nan || scales.a[i].is_nan() || scales.b[i].is_nan();
    if (special.any()) return special.result(rule.delivery);

    constexpr int group = 16, most = 4;
    std::int64_t dot[most] = {};  // in units of 2^-2
    bool present[most] = {};
    int largest = addend_exponent(rule, c);
    const int groups = n / group;
    for (int g = 0; g < groups; ++g) {
        const Factor &alpha = scales.a[g * scales.count / groups], &beta = scales.b[g * scales.count / groups];
        for (int i = g * group; i < (g + 1) * group; ++i) {
            if (a[i].is_zero() || b[i].is_zero()) continue;
            present[g] = !alpha.is_zero() && !beta.is_zero();
            dot[g] += cut(a[i].negative != b[i].negative, a[i].significand * b[i].significand,
                          a[i].exponent + b[i].exponent, a[i].fraction_bits + b[i].fraction_bits, -2);
        }
        largest = max_of(largest, present[g] ? alpha.exponent + beta.exponent : rule.zero_exponent);
    }
    const int unit = largest - rule.fraction_bits;
    std::int64_t sum = cut(c.negative, c.significand, c.exponent, c.fraction_bits, unit);
    for (int g = 0; g < groups; ++g) {
        if (!present[g]) continue;
        const Factor &alpha = scales.a[g * scales.count / groups], &beta = scales.b[g * scales.count / groups];
        const auto size = static_cast<std::uint64_t>(dot[g] < 0 ? -dot[g] : dot[g]);
        sum += cut(dot[g] < 0, size * alpha.significand * beta.significand, alpha.exponent + beta.exponent,
                   2 + alpha.fraction_bits + beta.fraction_bits, unit);
    }
    return deliver(rule, sum, unit);
}

/// Rounds the exact sum of the products and C once (CDNA1, Arm FP8DOT).
MACHEPS_HD constexpr std::uint64_t exact_step(const SumRule& rule, const Factor* a, const Factor* b, int n,
                                              const Factor& c) {
    Special special;
    special.observe_addend(c);
    ExactSum sum;
    for (int i = 0; i < n; ++i) {
        special.observe_product(a[i], b[i]);
        sum.add(a[i].negative != b[i].negative, a[i].significand * b[i].significand,
                a[i].exponent + b[i].exponent - a[i].fraction_bits - b[i].fraction_bits);
    }
    if (special.any()) return special.result(rule.delivery);
    sum.add(c.negative, c.significand, c.exponent - c.fraction_bits);
    const Unpacked value = sum.value();
    return encode_unpacked(delivered_format(rule.delivery), value, Round::nearest_even, Overflow::nonsaturate, {});
}

/// Returns x, or a zero of its sign if x is a subnormal fp32 number.
MACHEPS_HD constexpr float flushed(float x) {
    const auto bits = bit_cast<std::uint32_t>(x);
    return (bits & 0x7f800000u) == 0 ? bit_cast<float>(bits & 0x80000000u) : x;
}

/// Computes a step of CDNA2. Products and sums are rounded to fp32, and a subnormal result becomes a zero of its sign.
/// Subnormal operands and addends are read as +0. A zero keeps its sign.
MACHEPS_HD inline std::uint64_t flushed_pairs_step(const SumRule& rule, const Factor* a, const Factor* b, int n,
                                                   const Factor& c) {
    const auto read = [](const Factor& f) {
        const bool subnormal =
            f.kind == Unpacked::Kind::finite && f.significand != 0 && f.significand >> f.fraction_bits == 0;
        return subnormal ? 0.0f : static_cast<float>(f.value());
    };
    float pair[2] = {};
    for (int i = 0; i + 1 < n; i += 2) {
        const float p = flushed(read(a[i]) * read(b[i])), q = flushed(read(a[i + 1]) * read(b[i + 1]));
        pair[i / 2] = flushed(p + q);
    }
    const float products = n == 4 ? flushed(pair[0] + pair[1]) : pair[0];
    const float d = flushed(read(c) + products);
    return d == d ? bit_cast<std::uint32_t>(d) : nan_bits(rule.delivery);
}

/// Sum of products, each truncated to a multiple of 2^(exponent - F). `exponent` is the largest exponent of the
/// products, F is rule.fraction_bits, and `sum` counts these multiples.
struct CutProducts {
    std::int64_t sum = 0;
    int exponent = no_exponent;
};

MACHEPS_HD constexpr CutProducts cut_products(const SumRule& rule, const Factor* a, const Factor* b, int n, int step) {
    CutProducts cuts;
    for (int i = 0; i < n; i += step) {
        if (!a[i].is_zero() && !b[i].is_zero()) cuts.exponent = max_of(cuts.exponent, a[i].exponent + b[i].exponent);
    }
    for (int i = 0; i < n && cuts.exponent != no_exponent; i += step) {
        cuts.sum +=
            cut(a[i].negative != b[i].negative, a[i].significand * b[i].significand, a[i].exponent + b[i].exponent,
                a[i].fraction_bits + b[i].fraction_bits, cuts.exponent - rule.fraction_bits);
    }
    return cuts;
}

/// Computes a step of CDNA3: TR-FDPA, or GTR-FDPA if `even_odd` is true.
MACHEPS_HD constexpr std::uint64_t floored_step(const SumRule& rule, const Factor* a, const Factor* b, int n,
                                                const Factor& c, bool even_odd) {
    Special special;
    special.observe_addend(c);
    for (int i = 0; i < n; ++i) {
        special.observe_product(a[i], b[i]);
        const std::uint64_t m = a[i].significand * b[i].significand;
        if (m == 0 || a[i].kind != Unpacked::Kind::finite || b[i].kind != Unpacked::Kind::finite) continue;
        // A product beyond the range of fp32 counts as an infinity.
        const int top = bit_length(m) - 1 + a[i].exponent + b[i].exponent - a[i].fraction_bits - b[i].fraction_bits;
        if (top >= 128) special.add_infinity(a[i].negative != b[i].negative);
    }
    if (special.any()) return special.result(rule.delivery);

    const int f = rule.fraction_bits;
    CutProducts products = cut_products(rule, a, b, n, even_odd ? 2 : 1);
    if (even_odd) {
        const CutProducts odd = cut_products(rule, a + 1, b + 1, n - 1, 2);
        const int exponent = max_of(products.exponent, odd.exponent);
        products.sum =
            floor_shift(products.sum, products.exponent - exponent) + floor_shift(odd.sum, odd.exponent - exponent);
        products.exponent = exponent;
    }
    const int c_exponent = c.is_zero() ? -126 : c.exponent;
    const int largest = max_of(products.exponent, c_exponent), unit = largest - f - 8;
    std::int64_t sum = products.exponent == no_exponent ? 0 : floor_shift(products.sum, products.exponent - f - unit);
    if (!even_odd || c_exponent >= largest - f - 1) {
        const auto significand = static_cast<std::int64_t>(c.significand);
        sum += floor_shift(c.negative ? -significand : significand, c.exponent - c.fraction_bits - (largest - f)) * 256;
    }
    if (sum == 0) return 0;
    const auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
    // The sum keeps 31 fraction bits, rounded down.
    const int kept = max_of(bit_length(magnitude) - 1 + unit, -126) - 31;
    if (kept > unit) return deliver(rule, floor_shift(sum, unit - kept), kept);
    return deliver(rule, sum, unit);
}

/// Widens an fp8 factor to fp16. A subnormal may become normal.
MACHEPS_HD constexpr Factor as_fp16(const Factor& f) {
    constexpr Format half = fp16;
    Factor wide = f.kind == Unpacked::Kind::finite ? factor_of_value(half, static_cast<float>(f.value())) : f;
    wide.negative = f.negative;
    return wide;
}

/// Returns x y + c, rounded once to the binary format `f`. `c` holds bits of `f`. x and y are fp32 numbers, so their
/// product is exact in fp64. The sum is rounded to odd in fp64, so rounding it again to `f` gives the same result as
/// one rounding of the exact sum (Boldo and Melquiond).
MACHEPS_HD constexpr std::uint64_t round_fma(const Format& f, double x, double y, std::uint64_t c) {
    const auto sum = op(Operation::add, fp64, bit_cast<std::uint64_t>(x * y), bit_cast<std::uint64_t>(decode64(f, c)),
                        0, Round::to_odd, Overflow::nonsaturate);
    return encode64(f, bit_cast<double>(sum.bits), Round::nearest_even, Overflow::nonsaturate);
}

/// Adds two results of steps with one IEEE addition in their format.
MACHEPS_HD inline std::uint64_t add_results(Delivery delivery, std::uint64_t x, std::uint64_t y) {
    const Format f = delivered_format(delivery);
    const auto sum = op(Operation::add, f, x, y, 0, Round::nearest_even, Overflow::nonsaturate).bits;
    const bool is_nan = (sum & f.magnitude_mask()) > f.inf_code();
    return is_nan ? nan_bits(delivery) : sum;
}

}  // namespace matrix_unit

/// Computes one fused step of n products and returns the bits of D. `c` holds the bits of C in the format rule.addend.
MACHEPS_HD inline std::uint64_t matrix_step(const SumRule& rule, const Factor* a, const Factor* b, int n,
                                            std::uint64_t c, const StepScales& scales = {}) {
    const Factor addend = factor_of_code(rule.addend, c);
    switch (rule.model) {
        case SumModel::truncated: {
            int exponent = 0;
            if (scales.count > 0) {
                if (scales.a[0].is_nan() || scales.b[0].is_nan()) return matrix_unit::nan_bits(rule.delivery);
                exponent = scales.a[0].exponent + scales.b[0].exponent;
            }
            return matrix_unit::truncated_step(rule, a, b, n, 1, addend, exponent);
        }
        case SumModel::scaled_groups:
            return matrix_unit::scaled_groups_step(rule, a, b, n, addend, scales);
        case SumModel::exact_step:
            return matrix_unit::exact_step(rule, a, b, n, addend);
        case SumModel::flushed_pairs:
            return matrix_unit::flushed_pairs_step(rule, a, b, n, addend);
        case SumModel::floored:
            return matrix_unit::floored_step(rule, a, b, n, addend, false);
        case SumModel::floored_even_odd:
            return matrix_unit::floored_step(rule, a, b, n, addend, true);
        case SumModel::pair_then_add:
            return matrix_unit::pair_then_add_step(rule, a, b, n, c);
        case SumModel::odd_pairs:
            return matrix_unit::odd_pairs_step(rule, a, b, n, c);
        case SumModel::parted_chain:
            return matrix_unit::parted_chain_step(rule, a, b, n, c);
        case SumModel::fma_chain: {
            if (!rule.is_plain_chain() || rule.nan == NanRule::first_operand) {
                return matrix_unit::cpu_chain_step(rule, a, b, n, c);
            }
            const Format f = matrix_unit::delivered_format(rule.delivery);
            for (int i = 0; i < n; ++i) {
                const double x = a[i].value(), y = b[i].value();
                if (rule.delivery == Delivery::fp64_nearest_even) {
                    const double d = fma(x, y, bit_cast<double>(c));
                    c = d == d ? bit_cast<std::uint64_t>(d) : matrix_unit::nan_bits(rule.delivery);
                } else {
                    c = matrix_unit::round_fma(f, x, y, c);
                }
            }
            return (c & f.magnitude_mask()) > f.inf_code() ? matrix_unit::nan_bits(rule) : c;
        }
        default:
            return c;  // models without steps (pairwise, kahan, exact); matrix_instruction() computes through_fp16
    }
}

/// Computes one instruction of k products (machine.k or machine.small_k) as a chain of fused steps, and returns the
/// bits of D. `c` holds the bits of C in the format machine.addend.
MACHEPS_HD inline std::uint64_t matrix_instruction(const SumRule& rule, int k, const Factor* a, const Factor* b,
                                                   std::uint64_t c, const StepScales& scales = {}) {
    constexpr int most = 64;
    if (rule.model == SumModel::through_fp16) {
        // The first step adds the products with k mod 4 = 0 or 1, the second those with k mod 4 = 2 or 3. C is added
        // last.
        SumRule half = rule;
        half.model = SumModel::truncated;
        Factor x[most], y[most];
        std::uint64_t sum = 0;
        for (int part = 0; part < 2; ++part) {
            int n = 0;
            for (int i = 2 * part; i < k; i += i % 2 == 0 ? 1 : 3) {
                x[n] = matrix_unit::as_fp16(a[i]);
                y[n++] = matrix_unit::as_fp16(b[i]);
            }
            sum = matrix_step(half, x, y, n, sum);
        }
        return matrix_unit::add_results(rule.delivery, c, sum);
    }
    const int terms = rule.model == SumModel::fma_chain ? k : min_of(rule.terms, k);
    for (int i = 0; i < k; i += terms) c = matrix_step(rule, a + i, b + i, terms, c, scales);
    return c;
}

}  // namespace macheps
