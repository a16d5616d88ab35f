// SPDX-License-Identifier: Apache-2.0
// Distances between numbers of a format: units in the last place, steps between codes, neighbours, decimal digits.
#pragma once
#include "core/codec.hpp"

#include <cassert>

namespace macheps {

/// Returns floor(log2 |x|) of a finite x != 0.
MACHEPS_HD constexpr int exponent_of(double x) {
    const Unpacked parts = unpack(x);
    return detail::bit_length(parts.significand) - 1 + parts.exponent;
}

/// Returns Goldberg's ulp, extended to the reals with gradual underflow: 2^(max(floor(log2 |x|), emin) - fraction
/// bits). Pass the exact reference value, not the computed value. For infinity and magnitudes beyond the largest finite
/// value, returns the ulp of the top binade. For zero, returns the ulp of the binade of emin. For NaN, returns NaN.
MACHEPS_HD constexpr double ulp(Format f, double x) {
    const Unpacked parts = unpack(x);
    if (parts.kind == Unpacked::Kind::nan) return x;
    const int top = exponent_of(decode64(f, f.max_finite_code() << f.padding));
    int exponent = f.emin();
    if (parts.kind == Unpacked::Kind::infinite) exponent = top;
    if (parts.kind == Unpacked::Kind::finite && parts.significand != 0) {
        exponent = min_of(max_of(exponent_of(x), f.emin()), top);
    }
    return Format::power_of_two(exponent - f.fraction_bits());
}

/// Returns |computed - exact| / ulp(exact), which is at most 0.5 if `computed` is `exact` rounded to nearest. The
/// subtraction is done in fp64. It is therefore exact if `computed` is within a factor of two of `exact`.
MACHEPS_HD constexpr double ulp_error(Format f, double computed, double exact) {
    const double difference = computed - exact;
    return (difference < 0 ? -difference : difference) / ulp(f, exact);
}

/// Maps a code to an integer, so that neighbouring numbers differ by one and larger numbers have larger integers. Both
/// zeros map to 0. The code must not be a NaN, because a NaN has no place in this order.
MACHEPS_HD constexpr std::int64_t ordinal(Format f, std::uint64_t container) {
    const std::uint64_t code = (container >> f.padding) & (f.sign_bit() | f.magnitude_mask());
    const bool negative = (code & f.sign_bit()) != 0;
    if (f.encoding == Encoding::fixed_point) {
        return static_cast<std::int64_t>(code) - (negative ? std::int64_t{1} << f.bits : 0);
    }
    const auto magnitude = static_cast<std::int64_t>(code & f.magnitude_mask());
    return negative ? -magnitude : magnitude;
}

/// Returns the container with this ordinal: the inverse of ordinal(). 0 gives +0.
MACHEPS_HD constexpr std::uint64_t from_ordinal(Format f, std::int64_t n) {
    const auto magnitude = static_cast<std::uint64_t>(n < 0 ? -n : n);
    if (f.encoding == Encoding::fixed_point) {
        return static_cast<std::uint64_t>(n) & (f.sign_bit() | f.magnitude_mask());
    }
    return (n < 0 ? f.sign_bit() | magnitude : magnitude) << f.padding;
}

/// Return the largest and the smallest ordinal of a format. The largest is the ordinal of +Inf, or of the largest
/// finite value if the format has no Inf. The smallest is minus the largest, with two exceptions: it is 0 in e8m0fnu,
/// and -largest - 1 in mxint8.
MACHEPS_HD constexpr std::int64_t greatest_ordinal(Format f) {
    return static_cast<std::int64_t>(f.max_finite_code()) + (f.has_inf() ? 1 : 0);
}
MACHEPS_HD constexpr std::int64_t min_ordinal(Format f) {
    if (!f.has_sign()) return 0;
    return -greatest_ordinal(f) - (f.encoding == Encoding::fixed_point ? 1 : 0);
}

MACHEPS_HD constexpr bool is_nan(Format f, std::uint64_t container) {
    return unpack(decode64(f, container)).kind == Unpacked::Kind::nan;
}

/// Returns the number of steps between two codes: 0 for equal values (including zeros of opposite signs), 1 for
/// neighbours. Neither code may be a NaN.
MACHEPS_HD constexpr std::uint64_t code_distance(Format f, std::uint64_t a, std::uint64_t b) {
    assert(!is_nan(f, a) && !is_nan(f, b));
    const auto x = static_cast<std::uint64_t>(ordinal(f, a)), y = static_cast<std::uint64_t>(ordinal(f, b));
    return ordinal(f, a) < ordinal(f, b) ? y - x : x - y;
}

/// Returns the neighbour of `from` in the direction of `to`. Arguments and result are containers. If an operand is a
/// NaN, returns the canonical NaN. If the values are equal, returns `to`. A step from a negative number to zero gives
/// -0 if the format has -0. Source: IEEE 754-2019 5.3.1 (nextUp), C17 7.12.11.3.
MACHEPS_HD constexpr std::uint64_t nextafter(Format f, std::uint64_t from, std::uint64_t to) {
    if (is_nan(f, from) || is_nan(f, to)) return f.nan_code() << f.padding;
    const std::int64_t x = ordinal(f, from), y = ordinal(f, to);
    if (x == y) return to;
    const std::int64_t next = x < y ? x + 1 : x - 1;
    if (next == 0 && x < 0 && f.has_negative_zero()) return f.sign_bit() << f.padding;
    return from_ordinal(f, next);
}

/// Returns the number of decimal digits that survive decimal -> format -> decimal: floor((p - 1) log10 2).
MACHEPS_HD constexpr int digits10(Format f) { return (f.precision - 1) * 30103 / 100000; }
/// Returns the number of decimal digits that distinguish any two values: ceil(1 + p log10 2).
MACHEPS_HD constexpr int max_digits10(Format f) { return 1 + (f.precision * 30103 + 99999) / 100000; }

static_assert(ulp(e4m3fn, 1.0) == 0x1p-3 && ulp(e4m3fn, 0.0) == 0x1p-9 && ulp(e4m3fn, 1e6) == 32);
static_assert(max_digits10(fp64) == 17 && digits10(fp64) == 15 && max_digits10(bf16) == 4 && digits10(e5m2) == 0);

}  // namespace macheps
