// SPDX-License-Identifier: Apache-2.0
// Building blocks for the steps of all sum models: decomposed operands, results with NaN or infinities, and the
// rounding of an exact sum. Host and device.
#pragma once
#include "core/arithmetic.hpp"
#include "emulation/machine/exact_sum.hpp"
#include "emulation/machine/machine.hpp"

namespace macheps {

/// Decomposed operand or scale: (-1)^negative * significand * 2^(exponent - fraction_bits). A subnormal keeps the
/// smallest exponent of its format; it is not normalised.
struct Factor {
    Unpacked::Kind kind = Unpacked::Kind::finite;
    bool negative = false;
    std::uint64_t significand = 0;
    int exponent = 0;
    int fraction_bits = 0;

    MACHEPS_HD constexpr bool is_zero() const { return kind == Unpacked::Kind::finite && significand == 0; }
    MACHEPS_HD constexpr bool is_nan() const { return kind == Unpacked::Kind::nan; }
    MACHEPS_HD constexpr bool is_infinite() const { return kind == Unpacked::Kind::infinite; }

    MACHEPS_HD constexpr double value() const {
        if (is_nan()) return bit_cast<double>(std::uint64_t{0x7ff8000000000000});
        const double size = is_infinite()
                                ? bit_cast<double>(std::uint64_t{0x7ff0000000000000})
                                : static_cast<double>(significand) * Format::power_of_two(exponent - fraction_bits);
        return negative ? -size : size;
    }
};

/// Decomposes `x` as a number of `format`, which may be any format except fp64 and e8m0fnu. Bits of x that do not fit
/// into the format are truncated.
MACHEPS_HD constexpr Factor factor_of_value(const Format& format, float x) {
    const std::uint32_t bits = bit_cast<std::uint32_t>(x), field = bits >> 23 & 0xff;
    const std::uint32_t fraction = (bits & 0x7fffffu) >> format.padding << format.padding;
    Factor f{.negative = bits >> 31 != 0, .fraction_bits = format.fraction_bits()};
    if (field == 0xff) {
        f.kind = fraction != 0 ? Unpacked::Kind::nan : Unpacked::Kind::infinite;
        return f;
    }
    const int exponent = static_cast<int>(max_of(field, 1u)) - 127;
    f.exponent = max_of(exponent, format.emin());
    const int drop = 24 - format.precision + f.exponent - exponent;
    f.significand = drop < 32 ? (fraction | (field != 0 ? 0x800000u : 0u)) >> drop : 0;
    return f;
}

/// Decomposes the number that `code` encodes in `format`, which may be a scale format. The significand of a NaN is its
/// payload.
MACHEPS_HD constexpr Factor factor_of_code(const Format& format, std::uint64_t code) {
    if (format.encoding == Encoding::power_of_two) {
        Factor f{.significand = 1, .exponent = static_cast<int>(code) - format.exponent_bias};
        if (code > format.max_finite_code()) f.kind = Unpacked::Kind::nan;
        return f;
    }
    if (format.bits == 64) {
        const Unpacked u = unpack(bit_cast<double>(code));
        return {u.kind, u.negative, u.significand, u.exponent + 52, 52};
    }
    if (format.has_inf() && format.padding == 0 && (code & format.magnitude_mask()) > format.inf_code()) {
        return {.kind = Unpacked::Kind::nan,
                .negative = (code & format.sign_bit()) != 0,
                .significand = code & (format.min_normal_code() - 1),
                .fraction_bits = format.fraction_bits()};
    }
    // decode() is exact for every number. It would lose only NaN payloads, which are handled above.
    return factor_of_value(format, decode(format, code));
}

/// Block scales of one instruction. Scale i of a and scale i of b apply to the products [i * k / count,
/// (i + 1) * k / count).
struct StepScales {
    const Factor *a = nullptr, *b = nullptr;
    int count = 0;
};

/// Building blocks of the steps.
namespace matrix_unit {

using macheps::detail::bit_length;
using macheps::detail::encode_unpacked;

MACHEPS_HD constexpr std::uint64_t nan_bits(Delivery delivery) {
    switch (delivery) {
        case Delivery::fp16_nearest_even:
            return 0x7fff;
        case Delivery::bf16_nearest_even:
            return 0x7fff;
        case Delivery::fp64_nearest_even:
            return 0x7fffffffffffffff;
        default:
            return 0x7fffffff;
    }
}

/// Returns the bits of a NaN result that is not copied from a NaN operand.
MACHEPS_HD constexpr std::uint64_t nan_bits(const SumRule& rule) {
    if (rule.nan == NanRule::default_7fc00000 && rule.delivery == Delivery::fp32_nearest_even) return 0x7fc00000;
    if (rule.nan == NanRule::first_operand) {
        return rule.delivery == Delivery::fp16_nearest_even ? 0xfe00 : 0xffc00000;
    }
    return nan_bits(rule.delivery);
}

MACHEPS_HD constexpr Format delivered_format(Delivery delivery) {
    // Device code may not refer to constants of namespace scope, so the function has its own copies.
    constexpr Format half = fp16, brain = bf16, single = fp32, wide = fp64;
    switch (delivery) {
        case Delivery::fp16_nearest_even:
            return half;
        case Delivery::bf16_nearest_even:
            return brain;
        case Delivery::fp64_nearest_even:
            return wide;
        case Delivery::e8m13_toward_zero:
            return {.bits = 22, .precision = 14, .exponent_bias = 127, .padding = 10};
        default:
            return single;
    }
}

MACHEPS_HD constexpr bool rounds_to_nearest(Delivery delivery) {
    return delivery != Delivery::fp32_toward_zero && delivery != Delivery::e8m13_toward_zero;
}

MACHEPS_HD constexpr std::uint64_t infinity_bits(Delivery delivery, bool negative) {
    const Format f = delivered_format(delivery);
    return (f.inf_code() | (negative ? f.sign_bit() : 0)) << f.padding;
}

/// NaN and infinities among the inputs of a step. If there are any, they alone determine the result.
struct Special {
    bool nan = false, positive = false, negative = false;

    MACHEPS_HD constexpr void add_infinity(bool is_negative) { (is_negative ? negative : positive) = true; }
    MACHEPS_HD constexpr void observe_product(const Factor& a, const Factor& b) {
        if (a.is_nan() || b.is_nan()) nan = true;
        if (a.is_infinite() || b.is_infinite()) {
            if (a.is_zero() || b.is_zero()) nan = true;
            add_infinity(a.negative != b.negative);
        }
    }
    MACHEPS_HD constexpr void observe_addend(const Factor& c) {
        if (c.is_nan()) nan = true;
        if (c.is_infinite()) add_infinity(c.negative);
    }
    MACHEPS_HD constexpr bool any() const { return nan || positive || negative; }
    MACHEPS_HD constexpr std::uint64_t result(Delivery delivery) const {
        return nan || (positive && negative) ? nan_bits(delivery) : infinity_bits(delivery, negative);
    }
};

/// Rounds the exact number sum * 2^unit once and returns the bits of the result.
MACHEPS_HD constexpr std::uint64_t deliver(const SumRule& rule, std::int64_t sum, int unit,
                                           bool zero_is_negative = false) {
    const Format f = delivered_format(rule.delivery);
    if (sum == 0) return zero_is_negative ? f.sign_bit() << f.padding : 0;
    const bool negative = sum < 0;
    const std::uint64_t magnitude = negative ? ~static_cast<std::uint64_t>(sum) + 1 : static_cast<std::uint64_t>(sum);
    const int top = max_of(bit_length(magnitude) - 1 + unit, f.emin());
    const Round round = rounds_to_nearest(rule.delivery) ? Round::nearest_even : Round::toward_zero;
    const std::uint64_t ulps = round_shift(magnitude, top - f.fraction_bits() - unit, round, negative);
    std::uint64_t code = ulps + (static_cast<std::uint64_t>(top - f.emin()) << f.fraction_bits());
    if (code == 0 && !rule.underflow_keeps_sign) return 0;
    code = min_of(code, f.inf_code());
    return (code | (negative ? f.sign_bit() : 0)) << f.padding;
}

/// Returns (-1)^negative * significand * 2^(exponent - fraction_bits) in units of 2^unit, rounded toward zero.
MACHEPS_HD constexpr std::int64_t cut(bool negative, std::uint64_t significand, int exponent, int fraction_bits,
                                      int unit) {
    if (significand == 0) return 0;  // a product with a zero factor may have any exponent
    const int shift = exponent - fraction_bits - unit;
    const std::uint64_t magnitude = shift >= 0 ? significand << shift : shift > -64 ? significand >> -shift : 0;
    return negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
}

/// Returns x * 2^shift, rounded down.
MACHEPS_HD constexpr std::int64_t floor_shift(std::int64_t x, int shift) {
    if (x == 0) return 0;  // a zero may have any exponent
    if (shift >= 0) return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) << shift);
    return x >> min_of(-shift, 63);
}

}  // namespace matrix_unit

}  // namespace macheps
