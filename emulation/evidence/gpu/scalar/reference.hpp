// SPDX-License-Identifier: Apache-2.0
// Reference values for the approximated functions. They are computed in fp64 with only + - * / sqrt and fma, so host
// and device get the same bits.
//
// The relative error of a reference is below 2^-42 (derived at each function). In fp32, the most precise format here,
// an ulp is at least 2^-24 of the value. So an error in ulp is accurate to 2^-18 ulp, and the nearest float is wrong
// only if the exact value is within 2^-18 ulp of a tie.
//
// The exceptions are sin and cos of arguments beyond 2^20. Their reduced arguments keep 62 fraction bits, and some
// floats are within 2^-30 of a multiple of pi/2. There, the relative error is 2^-32, or 2^-8 ulp.
#pragma once
#include "core/math.hpp"

namespace macheps::evidence {

enum class Function : std::uint8_t { rcp, sqrt, rsqrt, ex2, exp, exp10, lg2, log, log10, sin, cos, tanh };

namespace detail {

inline constexpr double ln_2 = 0x1.62e42fefa39efp-1, ln_10 = 0x1.26bb1bbb55516p+1, log2_e = 0x1.71547652b82fep+0,
                        log10_e = 0x1.bcb7b1526e50ep-2;

/// Returns 2^x. The split x = n + r with |r| <= 1/2 is exact. The error of r ln 2 is 2^-54, and the error of exp is one
/// ulp. The total error is 2^-51.
MACHEPS_HD inline double ex2(double x) {
    if (!(x >= -2000 && x <= 2000)) return x != x ? x : x > 0 ? math::detail::infinity64() : 0.0;
    const double magic = 0x1.8p52, n = (x + magic) - magic;
    const double y = math::exp((x - n) * ln_2);
    const auto whole = static_cast<std::int64_t>(n), half = whole / 2;
    if (whole < -1900) return 0;
    return (y * math::detail::two_to(half)) * math::detail::two_to(whole - half);
}

/// Returns tanh x. If |x| < 1/8, it evaluates the power series, whose omitted tenth term is below (2 x / pi)^18 = 2^-65
/// of the first term. Otherwise, it evaluates 1 - 2 / (e^2x + 1) as the quotient (e^2x - 1) / (e^2x + 1). There, the
/// numerator is at least 0.28, so its subtraction loses two bits. The total error is 2^-50.
MACHEPS_HD inline double tanh(double x) {
    if (x != x || x == 0) return x;  // the series would give +0 for -0
    const double size = x < 0 ? -x : x;
    if (size < 0.125) {
        const double z = x * x;
        double p = 6404582.0 / 10854718875.0;
        p = fma(p, z, -929569.0 / 638512875.0);
        p = fma(p, z, 21844.0 / 6081075.0);
        p = fma(p, z, -1382.0 / 155925.0);
        p = fma(p, z, 62.0 / 2835.0);
        p = fma(p, z, -17.0 / 315.0);
        p = fma(p, z, 2.0 / 15.0);
        p = fma(p, z, -1.0 / 3.0);
        return fma(x * z, p, x);
    }
    if (size > 40) return x < 0 ? -1 : 1;  // the exact magnitude is above 1 - 2^-114
    const double e = math::exp(2 * size), y = (e - 1) / (e + 1);
    return x < 0 ? -y : y;
}

}  // namespace detail

/// Returns the unrounded value of a function of a float. Zeros, infinities and NaN follow IEEE 754-2019 9.2.1.
MACHEPS_HD inline double reference(Function function, float operand) {
    const double x = operand;
    switch (function) {
        case Function::rcp:
            return 1 / x;
        case Function::sqrt:
            return macheps::sqrt(x);
        case Function::rsqrt:
            return 1 / macheps::sqrt(x);  // -0 gives -Inf
        case Function::ex2:
            return detail::ex2(x);
        case Function::exp:
            return math::exp(x);
        case Function::exp10:
            // If the result is finite and nonzero, |x ln 10| is at most 746. The error of this product is one ulp
            // (2^-43), which becomes the relative error of the result.
            return math::exp(x * detail::ln_10);
        case Function::lg2:
            return math::log(x) * detail::log2_e;
        case Function::log:
            return math::log(x);
        case Function::log10:
            return math::log(x) * detail::log10_e;
        case Function::sin:
        case Function::cos: {
            if (x - x != 0) return math::detail::nan64();
            if (function == Function::sin && x == 0) return x;
            math::detail::Reduced reduced = math::detail::reduce(operand);
            reduced.quadrant += function == Function::cos ? 1 : 0;
            return math::detail::sin_quadrant(reduced);
        }
        case Function::tanh:
            return detail::tanh(x);
    }
    return x;
}

}  // namespace macheps::evidence
