// SPDX-License-Identifier: Apache-2.0
// Double-double arithmetic and functions. The code is written once for double and for vectors of doubles, so that both
// give the same bits. This file has no include guard. wide.hpp includes it for double, and wide_steps.cpp includes it
// once for each SIMD target, each time in a different namespace. The including file defines three macros.
// MACHEPS_MATH_FN is the specifier of each function. MACHEPS_MATH_REAL is the type double or a vector of doubles.
// MACHEPS_MATH_WIDE is a struct with two members of this type, `high` and `low`, where `high` equals high + low,
// rounded. The including file also provides the operators + - * / < <= > == ! and the functions fma, exp, select,
// is_finite, size_of (the magnitude), floor_of, max_of (the largest lane of a vector) and any_of. Sources: Dekker 1971;
// Knuth, TAOCP 2, 4.2.2; Joldes, Muller and Popescu, ACM TOMS 44(2), 2017.

MACHEPS_MATH_FN MACHEPS_MATH_WIDE settled(MACHEPS_MATH_REAL high, MACHEPS_MATH_REAL low) {
    const MACHEPS_MATH_REAL top = high + low;
    return {top, select(is_finite(top), low - (top - high), MACHEPS_MATH_REAL(0.0))};
}

MACHEPS_MATH_FN MACHEPS_MATH_WIDE operator+(MACHEPS_MATH_WIDE x, MACHEPS_MATH_WIDE y) {
    const MACHEPS_MATH_REAL high = x.high + y.high, back = high - x.high;
    const MACHEPS_MATH_REAL low = (x.high - (high - back)) + (y.high - back);
    const MACHEPS_MATH_REAL low_high = x.low + y.low, low_back = low_high - x.low;
    const MACHEPS_MATH_REAL low_low = (x.low - (low_high - low_back)) + (y.low - low_back);
    const MACHEPS_MATH_WIDE first = settled(high, low + low_high), sum = settled(first.high, first.low + low_low);
    const auto is_sum = is_finite(high);
    return {select(is_sum, sum.high, high), select(is_sum, sum.low, MACHEPS_MATH_REAL(0.0))};
}
MACHEPS_MATH_FN MACHEPS_MATH_WIDE operator-(MACHEPS_MATH_WIDE x) { return {-x.high, -x.low}; }
MACHEPS_MATH_FN MACHEPS_MATH_WIDE operator-(MACHEPS_MATH_WIDE x, MACHEPS_MATH_WIDE y) { return x + -y; }

MACHEPS_MATH_FN MACHEPS_MATH_WIDE operator*(MACHEPS_MATH_WIDE x, MACHEPS_MATH_WIDE y) {
    const MACHEPS_MATH_REAL high = x.high * y.high;
    const MACHEPS_MATH_WIDE product = settled(high, fma(x.high, y.high, -high) + (x.high * y.low + x.low * y.high));
    const auto is_product = is_finite(high);
    return {select(is_product, product.high, high), select(is_product, product.low, MACHEPS_MATH_REAL(0.0))};
}

MACHEPS_MATH_FN MACHEPS_MATH_WIDE operator/(MACHEPS_MATH_WIDE x, MACHEPS_MATH_WIDE y) {
    const MACHEPS_MATH_REAL none(0.0), first = x.high / y.high;
    const MACHEPS_MATH_WIDE rest = x - y * MACHEPS_MATH_WIDE{first, none};
    const MACHEPS_MATH_REAL second = rest.high / y.high;
    const MACHEPS_MATH_WIDE last = rest - y * MACHEPS_MATH_WIDE{second, none};
    const MACHEPS_MATH_WIDE quotient = settled(first, second + last.high / y.high);
    const auto is_quotient = is_finite(first + y.high * none);
    return {select(is_quotient, quotient.high, first), select(is_quotient, quotient.low, none)};
}

/// Returns e^x with a relative error below 2^-51. Uses core's exp, which has an error below one ulp and also exists for
/// vectors.
MACHEPS_MATH_FN MACHEPS_MATH_WIDE exponential(MACHEPS_MATH_WIDE x) {
    const MACHEPS_MATH_REAL high = exp(x.high), none(0.0);
    const MACHEPS_MATH_WIDE y = settled(high, high * x.low);
    const auto is_number = is_finite(high);
    return {select(is_number, y.high, high), select(is_number, y.low, none)};
}

/// Returns 1 / (1 + e^-x) with a relative error below 2^-49.
MACHEPS_MATH_FN MACHEPS_MATH_WIDE logistic(MACHEPS_MATH_WIDE x) {
    const MACHEPS_MATH_REAL one(1.0), none(0.0);
    const MACHEPS_MATH_WIDE e = exponential(-x), unit{one, none}, y = unit / (unit + e);
    // If e^-x overflows, the quotient is 0. A NaN is returned unchanged.
    const auto is_number = is_finite(e.high);
    const auto is_nan = !(x.high == x.high);
    return {select(is_nan, x.high, select(is_number, y.high, none)),
            select(is_nan, x.low, select(is_number, y.low, none))};
}

/// Returns erf x with a relative error below 2^-47.
MACHEPS_MATH_FN MACHEPS_MATH_REAL error_function(MACHEPS_MATH_REAL x) {
    const MACHEPS_MATH_REAL size = size_of(x), square = x * x, twice = square + square, one(1.0), none(0.0);
    const auto is_small = size < MACHEPS_MATH_REAL(6.0);  // 1 - erf 6 is 2e-17
    // erf x = 2 / sqrt(pi) x e^(-x^2) (1 + 2 x^2 / 3 (1 + 2 x^2 / 5 (1 + ...))): no term is negative.
    const MACHEPS_MATH_REAL terms = select(
        is_small, MACHEPS_MATH_REAL(14.0) + floor_of(size * (MACHEPS_MATH_REAL(10.0) + MACHEPS_MATH_REAL(2.5) * size)),
        none);
    MACHEPS_MATH_REAL series = one;
    for (int k = static_cast<int>(max_of(terms)); k >= 1; --k) {
        const MACHEPS_MATH_REAL longer =
            one + series * (twice * MACHEPS_MATH_REAL(odd_reciprocals[static_cast<std::size_t>(k)]));
        series = select(MACHEPS_MATH_REAL(static_cast<double>(k)) <= terms, longer, one);
    }
    // `lost` is the rounding error of x^2. It is at most 36 * 2^-53, because x^2 is at most 36 and its relative error
    // at most 2^-53. Multiplying e^(-x^2) by 1 - lost therefore corrects for it.
    const MACHEPS_MATH_REAL lost = fma(x, x, -square);
    const MACHEPS_MATH_REAL y = MACHEPS_MATH_REAL(0x1.20dd750429b6dp+0) * x * series * (exp(-square) * (one - lost));
    return select(is_small, y, select(x < none, -one, select(x == x, one, x)));
}

/// Returns tanh x with a relative error below 2^-49.
MACHEPS_MATH_FN MACHEPS_MATH_REAL hyperbolic_tangent(MACHEPS_MATH_REAL x) {
    const MACHEPS_MATH_REAL size = size_of(x), one(1.0);
    const MACHEPS_MATH_REAL e = exp(-(size + size));
    MACHEPS_MATH_REAL y = (one - e) / (one + e);
    const auto is_small = size < MACHEPS_MATH_REAL(0.35);
    if (any_of(is_small)) {
        const MACHEPS_MATH_REAL t = size + size;
        MACHEPS_MATH_REAL growth = one;  // (e^t - 1) / t for t up to 0.7, by its power series
        for (int k = 17; k >= 2; --k) growth = one + growth * t / MACHEPS_MATH_REAL(static_cast<double>(k));
        const MACHEPS_MATH_REAL grown = t * growth;
        y = select(is_small, grown / (grown + MACHEPS_MATH_REAL(2.0)), y);
    }
    y = select(size > MACHEPS_MATH_REAL(22.0), one, y);
    return select(x == x, select(x < MACHEPS_MATH_REAL(0.0), -y, y), x);
}

MACHEPS_MATH_FN MACHEPS_MATH_WIDE error_function(MACHEPS_MATH_WIDE x) {
    const MACHEPS_MATH_REAL y = error_function(x.high), none(0.0), slope(0x1.20dd750429b6dp+0);  // 2 / sqrt(pi)
    const MACHEPS_MATH_WIDE moved = settled(y, slope * exp(-(x.high * x.high)) * x.low);
    const auto is_moved = is_finite(y + x.high * none);
    return {select(is_moved, moved.high, y), select(is_moved, moved.low, none)};
}
MACHEPS_MATH_FN MACHEPS_MATH_WIDE hyperbolic_tangent(MACHEPS_MATH_WIDE x) {
    const MACHEPS_MATH_REAL y = hyperbolic_tangent(x.high), none(0.0);
    const MACHEPS_MATH_WIDE moved = settled(y, (MACHEPS_MATH_REAL(1.0) - y * y) * x.low);
    const auto is_moved = is_finite(y);
    return {select(is_moved, moved.high, y), select(is_moved, moved.low, none)};
}
