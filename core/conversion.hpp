// SPDX-License-Identifier: Apache-2.0
// Converts codes to other formats, to and from integers, and to integral values. Also computes the IEEE remainder. All
// functions return flags, round once and use only integer operations (IEEE 754-2019 5.3.1, 5.4.1, 5.8, 5.9).
#pragma once
#include "core/arithmetic.hpp"

namespace macheps {

/// Rounds a code of the format `from` to the format `to`. Unlike encode, returns flags, and gives the canonical NaN for
/// every NaN. A signaling NaN raises `invalid`. If `to` has no NaN, every NaN raises `invalid`.
MACHEPS_HD constexpr Rounded convert(Format from, Format to, std::uint64_t a, Round mode,
                                     Overflow overflow = Overflow::nonsaturate, RandomBits random = {},
                                     Tininess tininess = Tininess::after_rounding) {
    require_random_bits(mode, random);
    const Unpacked x = unpack(decode64(from, a));
    if (x.kind == Unpacked::Kind::nan) {
        return detail::invalid_result(to, !to.has_nan() || detail::is_signaling_nan(from, a));
    }
    if (x.kind == Unpacked::Kind::infinite) return detail::infinite_result(to, x.negative, overflow);
    if (x.significand == 0) return detail::zero_result(to, x.negative);
    return detail::round_exact(to, detail::exact(x), mode, overflow, random, tininess);
}

/// Rounds (-1)^negative * magnitude to `to`.
MACHEPS_HD constexpr Rounded from_integer(Format to, std::uint64_t magnitude, bool negative, Round mode,
                                          Overflow overflow = Overflow::nonsaturate, RandomBits random = {}) {
    require_random_bits(mode, random);
    if (magnitude == 0) return detail::zero_result(to, false);
    return detail::round_exact(to, {negative, magnitude, 0}, mode, overflow, random, Tininess::after_rounding);
}

/// Rounds a code to an integer with `mode`, and returns the integer as a two's complement number of `width` bits (8 to
/// 64). A value out of range gives the nearer end of the range, and NaN gives 0. Both cases raise only `invalid`.
/// `inexact` is raised only if `exact` is true (convertToIntegerExact...).
MACHEPS_HD constexpr Rounded to_integer(Format f, std::uint64_t a, int width, bool is_signed, Round mode, bool exact,
                                        RandomBits random = {}) {
    require_random_bits(mode, random);
    const Unpacked x = unpack(decode64(f, a));
    const std::uint64_t ones = width < 64 ? (std::uint64_t{1} << width) - 1 : ~std::uint64_t{0};
    if (x.kind == Unpacked::Kind::nan) return {0, {.invalid = true}};
    const std::uint64_t most = is_signed ? (x.negative ? ones / 2 + 1 : ones / 2) : (x.negative ? 0 : ones);
    bool fits = x.kind == Unpacked::Kind::finite &&
                (x.significand == 0 || detail::bit_length(x.significand) + x.exponent <= 64);
    const std::uint64_t magnitude = fits ? round_shift(x.significand, -x.exponent, mode, x.negative, random) : 0;
    fits = fits && magnitude <= most;
    const std::uint64_t result = fits ? magnitude : most;
    const bool whole = x.exponent >= 0 || x.significand == 0 ||
                       (x.exponent > -64 && (x.significand & ((std::uint64_t{1} << -x.exponent) - 1)) == 0);
    return {(x.negative ? ~result + 1 : result) & ones, {.invalid = !fits, .inexact = fits && exact && !whole}};
}

/// Rounds a code to an integral value of the same format. A zero result keeps the sign. `inexact` is raised as in
/// to_integer. If the largest finite value has a fraction (e3m4, e2m3fn, mxint8), rounding up can overflow as in any
/// other operation.
MACHEPS_HD constexpr Rounded round_to_integral(Format f, std::uint64_t a, Round mode, bool exact,
                                               Overflow overflow = Overflow::nonsaturate, RandomBits random = {}) {
    require_random_bits(mode, random);
    const Unpacked x = unpack(decode64(f, a));
    if (x.kind == Unpacked::Kind::nan) return detail::invalid_result(f, detail::is_signaling_nan(f, a));
    if (x.kind == Unpacked::Kind::infinite) return detail::infinite_result(f, x.negative, overflow);
    if (x.exponent >= 0 && x.significand != 0) {
        return detail::round_exact(f, detail::exact(x), mode, overflow, random, Tininess::after_rounding);
    }
    const std::uint64_t magnitude = round_shift(x.significand, -x.exponent, mode, x.negative, random);
    const bool whole =
        x.significand == 0 || (x.exponent > -64 && (x.significand & ((std::uint64_t{1} << -x.exponent) - 1)) == 0);
    if (magnitude == 0) {
        Rounded zero = detail::zero_result(f, x.negative);
        zero.flags = {.inexact = exact && !whole};
        return zero;
    }
    Rounded result =
        detail::round_exact(f, {x.negative, magnitude, 0}, mode, overflow, random, Tininess::after_rounding);
    result.flags.inexact |= exact && !whole;
    return result;
}

/// Returns a - n b exactly, where n is the integer nearest to a / b, ties to even. A zero result has the sign of a. The
/// operation is invalid if a is infinite or b is zero. The run time is proportional to the difference of the exponents
/// of a and b.
MACHEPS_HD constexpr Rounded remainder(Format f, std::uint64_t a, std::uint64_t b) {
    using Kind = Unpacked::Kind;
    const Unpacked x = unpack(decode64(f, a)), y = unpack(decode64(f, b));
    if (x.kind == Kind::nan || y.kind == Kind::nan) {
        return detail::invalid_result(f, detail::is_signaling_nan(f, a) || detail::is_signaling_nan(f, b));
    }
    if (x.kind == Kind::infinite || (y.kind == Kind::finite && y.significand == 0)) return detail::invalid_result(f);
    if (x.significand == 0) return detail::zero_result(f, x.negative);
    const auto round = [f](detail::Exact value) {
        return detail::round_exact(f, value, Round::nearest_even, Overflow::nonsaturate, {}, Tininess::after_rounding);
    };
    const detail::Exact p = detail::exact(x), q = detail::exact(y);
    // The leading ones of p and q are at the same bit. Therefore, if the exponent of p is smaller by two or more, |a|
    // is below |b| / 2 and n is 0.
    if (y.kind == Kind::infinite || p.exponent < q.exponent - 1) return round(p);
    const int below = p.exponent < q.exponent ? 1 : 0, exponent = q.exponent - below;
    const detail::uint128 divisor = q.significand << below;
    detail::uint128 rest = p.significand;
    bool odd = false;
    for (int steps = p.exponent - exponent; steps >= 0; --steps) {
        odd = rest >= divisor;
        if (odd) rest -= divisor;
        if (steps > 0) rest <<= 1;
    }
    bool negative = x.negative;
    if (rest + rest > divisor || (rest + rest == divisor && odd)) {
        rest = divisor - rest;
        negative = !negative;
    }
    return rest == 0 ? detail::zero_result(f, x.negative) : round({negative, rest, exponent});
}

}  // namespace macheps
