// SPDX-License-Identifier: Apache-2.0
// Exact rational arithmetic for oracles. It shares no code with the formats, the codecs or the exact sums of the
// library.
#pragma once
#include "core/format.hpp"

#include <boost/multiprecision/cpp_int.hpp>

#include <cmath>

namespace macheps::test {

using Rational = boost::multiprecision::cpp_rational;

inline Rational rational(double x) {
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);
    Rational r(static_cast<long long>(std::ldexp(fraction, 53)));
    for (int e = exponent - 53; e != 0; e += e < 0 ? 1 : -1) r = e < 0 ? Rational(r / 2) : Rational(r * 2);
    return r;
}

/// Returns 2^exponent.
inline Rational power_of_two(int exponent) {
    const boost::multiprecision::cpp_int one = 1;
    return exponent >= 0 ? Rational(one << exponent) : Rational(1, one << -exponent);
}

/// Returns floor(log2 |x|) for x != 0.
inline int floor_log2(const Rational& x) {
    const Rational size = abs(x);
    int e = static_cast<int>(msb(numerator(size))) - static_cast<int>(msb(denominator(size)));
    if (power_of_two(e) > size) --e;
    return e;
}

/// Returns the exponent of the last digit of `x` in a format of `precision` digits with the minimum normal exponent
/// `emin`.
inline int last_place(const Rational& x, int precision, int emin) {
    return std::max(x == 0 ? emin : floor_log2(x), emin) - precision + 1;
}

/// Rounds `x` to nearest, ties to even. The exponent range has no upper limit.
inline Rational nearest(const Rational& x, int precision, int emin) {
    if (x == 0) return 0;
    const Rational place = power_of_two(last_place(x, precision, emin)), scaled = abs(x) / place;
    boost::multiprecision::cpp_int whole = numerator(scaled) / denominator(scaled);
    const Rational rest = scaled - Rational(whole), half(1, 2);
    if (rest > half || (rest == half && (whole & 1) != 0)) ++whole;
    const Rational rounded = Rational(whole) * place;
    return x < 0 ? Rational(-rounded) : rounded;
}

inline double to_double(const Rational& x) { return static_cast<double>(nearest(x, 53, -1022)); }

/// Returns the unit in the last place of the format at `x`. `largest` is the largest number of the format. Above it,
/// returns the unit of the top binade.
inline Rational unit_in_last_place(const Format& f, const Rational& x, const Rational& largest) {
    if (f.encoding == Encoding::fixed_point) return power_of_two(1 - f.precision);
    const Rational size = abs(x);
    return power_of_two(last_place(size > largest ? largest : size, f.precision, 1 - f.exponent_bias));
}

}  // namespace macheps::test
