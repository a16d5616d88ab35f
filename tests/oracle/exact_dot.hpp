// SPDX-License-Identifier: Apache-2.0
// Sums of products without rounding, in integers of Boost.Multiprecision. A test may round the exact sum once. This is
// the oracle for every machine that sums exactly or by a chain of fused multiply-adds. It includes nothing of macheps.
#pragma once
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace macheps::oracle {

/// The number significand * 2^exponent. Zero has no sign here.
struct Exact {
    boost::multiprecision::cpp_int significand = 0;
    int exponent = 0;
};

/// Returns the value of a finite float.
inline Exact exact(float x) {
    int exponent = 0;
    const double fraction = std::frexp(static_cast<double>(x), &exponent);
    return {static_cast<long long>(std::ldexp(fraction, 24)), exponent - 24};  // at most 24 bits: exact
}

inline Exact operator*(const Exact& a, const Exact& b) {
    return {a.significand * b.significand, a.exponent + b.exponent};
}

inline Exact operator+(const Exact& a, const Exact& b) {
    if (a.exponent < b.exponent) return b + a;
    if (a.significand == 0) return b;  // the exponent of a zero is meaningless, and would only widen the sum
    return {(a.significand << (a.exponent - b.exponent)) + b.significand, b.exponent};
}

/// Returns x, rounded once to fp32, to nearest even. Subnormals are kept, and a result of 2^128 or more is infinite
/// (IEEE 754-2019 4.3.1, 7.4). A nonzero number that rounds to zero keeps its sign; zero itself is +0.
inline float round_exact_to_fp32(const Exact& x) {
    using boost::multiprecision::cpp_int;
    if (x.significand == 0) return 0.0f;
    const bool is_negative = x.significand < 0;
    const cpp_int magnitude = is_negative ? cpp_int(-x.significand) : x.significand;
    const int leading = static_cast<int>(msb(magnitude)) + x.exponent;
    const int ulp = leading - 23 > -149 ? leading - 23 : -149;  // exponent of the last bit that fp32 has here
    cpp_int kept;
    if (ulp <= x.exponent) {
        kept = magnitude << (x.exponent - ulp);
    } else {
        const int dropped = ulp - x.exponent;
        kept = magnitude >> dropped;
        const cpp_int rest = magnitude - (kept << dropped), half = cpp_int(1) << (dropped - 1);
        if (rest > half || (rest == half && bit_test(kept, 0))) ++kept;
    }
    // The magnitude has at most 2^24 ulps, so a double holds it exactly unless it is out of range.
    const double value = leading > 128 ? std::numeric_limits<double>::infinity()
                                       : std::ldexp(static_cast<double>(static_cast<long long>(kept)), ulp);
    const float rounded = value >= 0x1p128 ? std::numeric_limits<float>::infinity() : static_cast<float>(value);
    return is_negative ? -rounded : rounded;
}

/// Returns a b + c, rounded once, for all floats. Infinities, NaN (the result is the default quiet NaN, 0x7fc00000) and
/// signed zeros follow IEEE 754-2019 6.1 to 6.3.
inline float fma_exact(float a, float b, float c) {
    const bool product_invalid = (std::isinf(a) && b == 0) || (a == 0 && std::isinf(b));
    if (std::isnan(a) || std::isnan(b) || std::isnan(c) || product_invalid)
        return std::numeric_limits<float>::quiet_NaN();
    const bool product_negative = std::signbit(a) != std::signbit(b);
    if (std::isinf(a) || std::isinf(b)) {
        if (std::isinf(c) && std::signbit(c) != product_negative) return std::numeric_limits<float>::quiet_NaN();
        return product_negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
    }
    if (std::isinf(c)) return c;
    const Exact sum = exact(a) * exact(b) + exact(c);
    // The sum of two zeros of the same sign keeps that sign. With rounding to nearest even, every other sum that is
    // zero is +0, also after exact cancellation.
    if (sum.significand == 0) return (a == 0 || b == 0) && product_negative && std::signbit(c) ? -0.0f : 0.0f;
    return round_exact_to_fp32(sum);
}

/// Returns the sum of `fp32.chain`: acc = +0, then acc = a[k] b[k] + acc, rounded once, for ascending k. Shapes: a and
/// b [K].
inline float chain_fma_exact(std::span<const float> a, std::span<const float> b) {
    float acc = 0.0f;
    for (std::size_t k = 0; k < a.size(); ++k) acc = fma_exact(a[k], b[k], acc);
    return acc;
}

/// Returns the sum of a[k] b[k] without rounding. Operands must be finite. Shapes: a and b [K].
inline Exact dot_exact(std::span<const float> a, std::span<const float> b) {
    Exact sum;
    for (std::size_t k = 0; k < a.size(); ++k) sum = sum + exact(a[k]) * exact(b[k]);
    return sum;
}

}  // namespace macheps::oracle
