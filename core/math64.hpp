// SPDX-License-Identifier: Apache-2.0
// Scalar fp64 functions for schedules, initialisation and statistics. Like core/math.hpp, they use only + - * / sqrt
// fma and integer operations. The error of each function except pow_int is below 1 ulp (docs/math.md). The coefficients
// are our own minimax fits.
#pragma once
#include "core/hd.hpp"

namespace macheps::math {

namespace detail {

MACHEPS_HD inline std::int64_t bits(double x) { return bit_cast<std::int64_t>(x); }
MACHEPS_HD inline double from_bits(std::int64_t x) { return bit_cast<double>(x); }
MACHEPS_HD inline double nan64() { return from_bits(0x7ff8000000000000); }
MACHEPS_HD inline double infinity64() { return from_bits(0x7ff0000000000000); }
/// Constant for rounding: if it is added to a number of magnitude below 2^51, the low bits of the sum hold the nearest
/// integer.
constexpr double exp_magic = 0x1.8p52;
/// Returns 2^n for n in [-1022, 1023].
MACHEPS_HD inline double two_to(std::int64_t n) { return from_bits((n + 1023) << 52); }

/// Return sin(r + low) or cos(r + low) for |r| below 0.786 and |low| below an ulp of r.
MACHEPS_HD inline double sin_near_zero(double r, double low) {
    const double z = r * r;
    double p = -0x1.9f7016fe61b66p-41;
    p = fma(p, z, 0x1.6108b343e7d66p-33);
    p = fma(p, z, -0x1.ae642ad688406p-26);
    p = fma(p, z, 0x1.71de3a32aa036p-19);
    p = fma(p, z, -0x1.a01a019ffdba7p-13);
    p = fma(p, z, 0x1.1111111111067p-7);
    p = fma(p, z, -0x1.5555555555555p-3);
    return r + fma(r * z, p, low);
}
MACHEPS_HD inline double cos_near_zero(double r, double low) {
    const double z = r * r, half = 0.5 * z, lead = 1 - half;
    double p = 0x1.9c3541526f826p-45;
    p = fma(p, z, -0x1.93713fd13685cp-37);
    p = fma(p, z, 0x1.1eed6d06fcc99p-29);
    p = fma(p, z, -0x1.27e4fb5838ffbp-22);
    p = fma(p, z, 0x1.a01a019ffb557p-16);
    p = fma(p, z, -0x1.6c16c16c16b2ap-10);
    p = fma(p, z, 0x1.5555555555555p-5);
    const double lead_low = (1 - lead) - half - fma(0.5 * r, r, -half);
    return lead + (lead_low + fma(z * z, p, -(r * low)));
}

/// The reduction x = quadrant * pi/2 + r + low, with the quadrant modulo 4.
struct Reduced {
    double r, low;
    int quadrant;
};

/// Reduces |x| up to 2^20.
MACHEPS_HD inline Reduced reduce_moderate(double x) {
    const double magic = 0x1.8p52, shifted = fma(x, 0x1.45f306dc9c883p-1, magic), n = shifted - magic;
    // pi/2 is split into three parts of 53 bits. The difference `first` is exact. The rounding errors of the later
    // steps are kept.
    const double first = fma(n, -0x1.921fb54442d18p+0, x);
    const double second = n * 0x1.1a62633145c07p-54, second_low = fma(n, 0x1.1a62633145c07p-54, -second);
    const double r = first - second, back = r - first;
    const double lost = (first - (r - back)) - (second + back);
    return {r, fma(n, 0x1.f1976b7ed8fbcp-110, lost - second_low), static_cast<int>(bits(shifted) & 3)};
}

MACHEPS_HD inline double sin_quadrant(Reduced x) {
    const double y = (x.quadrant & 1) != 0 ? cos_near_zero(x.r, x.low) : sin_near_zero(x.r, x.low);
    return (x.quadrant & 2) != 0 ? -y : y;
}

}  // namespace detail

}  // namespace macheps::math

// Includes core/exp64.inl for double.
namespace macheps {
#define MACHEPS_MATH_FN MACHEPS_HD inline
#define MACHEPS_MATH_REAL double
#include "core/exp64.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL
}  // namespace macheps

namespace macheps::math {

/// Returns e^x. Underflow is gradual. NaN gives the canonical NaN.
MACHEPS_HD inline double exp(double x) {
    if (x != x) return detail::nan64();
    if (x > 710) return detail::infinity64();
    if (x < -746) return 0;
    double shifted = 0;
    const double y = detail::exp_mantissa(x, shifted);
    const std::int64_t power = detail::bits(shifted) - detail::bits(detail::exp_magic), half = power >> 1;
    return (y * detail::two_to(half)) * detail::two_to(power - half);
}

/// Returns the natural logarithm. log(+-0) = -Inf. Negative numbers and NaN give the canonical NaN.
MACHEPS_HD inline double log(double x) {
    if (x == 0) return -detail::infinity64();
    if (!(x > 0)) return detail::nan64();
    if (x == detail::infinity64()) return x;
    const bool subnormal = x < 0x1p-1022;
    const std::int64_t root_half = 0x3fe6a09e667f3bcd, offset = detail::bits(subnormal ? x * 0x1p54 : x) - root_half;
    const double f = detail::from_bits((offset & 0xfffffffffffff) + root_half) - 1;
    const double k = static_cast<double>((offset >> 52) - (subnormal ? 54 : 0));
    // With s = f / (2 + f): log(1 + f) = f - f^2/2 + s (f^2/2 + 2/3 s^2 + 2/5 s^4 + ...).
    const double s = f / (2 + f), z = s * s;
    double p = 0x1.105a1cf9e0f2bp-3;
    p = fma(p, z, 0x1.0f45e52812b70p-3);
    p = fma(p, z, 0x1.3b21709337ed9p-3);
    p = fma(p, z, 0x1.745cdb9359a0fp-3);
    p = fma(p, z, 0x1.c71c72599834ep-3);
    p = fma(p, z, 0x1.2492492433579p-2);
    p = fma(p, z, 0x1.9999999999d12p-2);
    p = fma(p, z, 0x1.5555555555555p-1);
    const double half_f = 0.5 * f, square = half_f * f, square_low = fma(half_f, f, -square);
    const double lead = f - square, lead_low = ((f - lead) - square) - square_low;
    const double whole = k * 0x1.62e42fefa3000p-1, big = whole + lead, big_low = lead - (big - whole);
    return big + (big_low + (fma(s, fma(z, p, square), lead_low) + k * 0x1.3de6af278ece6p-42));
}

/// Return the sine or the cosine for |x| up to 2^20, and the canonical NaN for larger |x| and for NaN.
MACHEPS_HD inline double sin(double x) {
    if (!(x >= -0x1p20 && x <= 0x1p20)) return detail::nan64();
    if (x == 0) return x;  // keeps -0
    return detail::sin_quadrant(detail::reduce_moderate(x));
}
MACHEPS_HD inline double cos(double x) {
    if (!(x >= -0x1p20 && x <= 0x1p20)) return detail::nan64();
    detail::Reduced reduced = detail::reduce_moderate(x);
    reduced.quadrant += 1;
    return detail::sin_quadrant(reduced);
}

/// Returns x^n by repeated squaring. Each multiplication rounds. If n is negative, one division at the end inverts the
/// product. pow_int(x, 0) = 1.
MACHEPS_HD inline double pow_int(double x, int n) {
    double power = x, product = 1;
    for (std::uint32_t left = n < 0 ? 0u - static_cast<std::uint32_t>(n) : static_cast<std::uint32_t>(n); left != 0;
         left >>= 1) {
        if ((left & 1) != 0) product = product * power;
        if (left > 1) power = power * power;
    }
    return n < 0 ? 1 / product : product;
}

}  // namespace macheps::math
