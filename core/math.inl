// SPDX-License-Identifier: Apache-2.0
// The implementation of the fp32 functions for scalars and vectors. The only branch is in erf, which skips a
// computation that no lane needs.
//
// This file has no include guard. core/math.hpp includes this file for float, and emulation/cpu/simd/vec-inl.hpp
// includes it once per SIMD target for vectors. Scalar and vector code therefore give the same bits by construction.
// The file is included inside a namespace, and the including file defines MACHEPS_MATH_FN, MACHEPS_MATH_REAL and
// MACHEPS_MATH_INT. The including file also declares these operations: + - * / and comparisons, fma, sqrt, abs,
// select(mask, a, b), any(mask), bits, from_bits, to_float, and for integers + - & | << >> (arithmetic).
//
// The coefficients are our own minimax fits. The errors were measured on all 2^32 inputs (docs/math.md).
namespace math {

/// The number e^x = (head + tail) * 2^n. `head` is in (0.7, 1.42) and is head + tail rounded to nearest.
struct ExpParts {
    MACHEPS_MATH_REAL head, tail;
    MACHEPS_MATH_INT n;
};

/// A number as the sum big + small, where `big` is the rounded leading part.
struct SplitSum {
    MACHEPS_MATH_REAL big, small;
};

/// Returns 2^n for n in [-126, 127].
MACHEPS_MATH_FN MACHEPS_MATH_REAL two_to(MACHEPS_MATH_INT n) {
    using Int = MACHEPS_MATH_INT;
    return from_bits((n + Int(127)) << 23);
}

MACHEPS_MATH_FN MACHEPS_MATH_REAL canonical_nan() { return from_bits(MACHEPS_MATH_INT(0x7fc00000)); }

/// Returns `magnitude`, whose sign bit is clear, with the sign of x.
MACHEPS_MATH_FN MACHEPS_MATH_REAL with_sign_of(MACHEPS_MATH_REAL magnitude, MACHEPS_MATH_REAL x) {
    using Int = MACHEPS_MATH_INT;
    return from_bits(bits(magnitude) | (bits(x) & Int(-0x7fffffff - 1)));
}

/// Clamps x to [low, high]. NaN gives `low`, so that integers made from the result stay in range.
MACHEPS_MATH_FN MACHEPS_MATH_REAL clamp(MACHEPS_MATH_REAL x, float low, float high) {
    using Real = MACHEPS_MATH_REAL;
    const Real above = select(x > Real(low), x, Real(low));
    return select(above < Real(high), above, Real(high));
}

/// Returns e^(x + low) for x in [-104, 89] and |low| below 2^-20.
MACHEPS_MATH_FN ExpParts exp_parts(MACHEPS_MATH_REAL x, MACHEPS_MATH_REAL low) {
    using Real = MACHEPS_MATH_REAL;
    using Int = MACHEPS_MATH_INT;
    // Adding 1.5 2^23 rounds x / ln 2 to the nearest integer n and leaves it in the low bits.
    const Real magic(0x1.8p23f), shifted = fma(x, Real(0x1.715476p0f), magic), n = shifted - magic;
    // ln 2 is split into two parts. The product of n and the first part is exact, and so is x minus that product.
    const Real coarse = fma(n, Real(-0x1.62e4p-1f), x), fine = n * Real(-0x1.7f7d1cp-20f);
    const Real r = coarse + fine, lost = (fine - (r - coarse)) + low;
    Real q(0x1.6be702p-13f);
    q = fma(q, r, Real(0x1.6d4178p-10f));
    q = fma(q, r, Real(0x1.113708p-7f));
    q = fma(q, r, Real(0x1.5554f2p-5f));
    q = fma(q, r, Real(0x1.55553cp-3f));
    q = fma(q, r, Real(0.5f));
    // Computes 1 + r + (lost e^r + r^2 q) as head + tail. `rest` includes the rounding error of 1 + r, and the tail is
    // the rounding error of first + rest.
    const Real first = Real(1.0f) + r, rest = (r - (first - Real(1.0f))) + fma(lost, first, q * (r * r));
    const Real head = first + rest;
    return {head, rest - (head - first), bits(shifted) - Int(0x4b400000)};
}

/// Returns e^x. NaN gives the canonical NaN. Underflow is gradual. The error is at most 0.626 ulp, or 0.765 ulp if the
/// result is subnormal.
MACHEPS_MATH_FN MACHEPS_MATH_REAL exp(MACHEPS_MATH_REAL x) {
    using Real = MACHEPS_MATH_REAL;
    const ExpParts e = exp_parts(clamp(x, -104.0f, 89.0f), Real(0.0f));
    // 2^n is split into two factors, because 2^128 and 2^-150 are not floats. The first product is exact; the second
    // rounds only a subnormal result.
    const MACHEPS_MATH_INT half = e.n >> 1;
    const Real y = (e.head * two_to(half)) * two_to(e.n - half);
    return select(x == x, y, canonical_nan());
}

/// Returns e^x - 1. The error is at most 0.951 ulp.
MACHEPS_MATH_FN MACHEPS_MATH_REAL expm1(MACHEPS_MATH_REAL x) {
    using Real = MACHEPS_MATH_REAL;
    using Int = MACHEPS_MATH_INT;
    const Real one(1.0f);
    const ExpParts e = exp_parts(clamp(x, -30.0f, 89.0f), Real(0.0f));
    // 2^128 is not a float. For n = 128, halve the power and double the result.
    const auto top = e.n > Int(127);
    const Real s = two_to(select(top, e.n - Int(1), e.n));
    // head - 1 is exact. The next two sums are exact because each adds a rounded result and its rounding error:
    //   a + a_low = s - 1
    //   big + (b - (big - a)) = a + s (head - 1)
    const Real a = s - one, back = a - s, a_low = (s - (a - back)) + (Real(-1.0f) - back);
    const Real b = s * (e.head - one), big = a + b, small = (b - (big - a)) + a_low;
    const Real y = (big + fma(s, e.tail, small)) * select(top, Real(2.0f), one);
    return select(x == x, select(x == Real(0.0f), x, y), canonical_nan());
}

/// Returns log(2^k (1 + f)) + t in two parts, for f in [sqrt(1/2) - 1, sqrt(2) - 1] and k in [-150, 128].
MACHEPS_MATH_FN SplitSum log_sum(MACHEPS_MATH_REAL k, MACHEPS_MATH_REAL f, MACHEPS_MATH_REAL t) {
    using Real = MACHEPS_MATH_REAL;
    Real p(-0x1.c3fc3ap-5f);
    p = fma(p, f, Real(0x1.a9c7c0p-4f));
    p = fma(p, f, Real(-0x1.befdc2p-4f));
    p = fma(p, f, Real(0x1.c63724p-4f));
    p = fma(p, f, Real(-0x1.fca0b8p-4f));
    p = fma(p, f, Real(0x1.2479d6p-3f));
    p = fma(p, f, Real(-0x1.5564d0p-3f));
    p = fma(p, f, Real(0x1.999ab4p-3f));
    p = fma(p, f, Real(-0x1.ffffd0p-3f));
    p = fma(p, f, Real(0x1.555554p-2f));
    // log(1 + f) = f - f^2/2 + f^3 p. The rounding errors of the first two terms are kept.
    const Real half_f = Real(0.5f) * f, square = half_f * f, square_low = fma(half_f, f, -square);
    const Real lead = f - square, lead_low = ((f - lead) - square) - square_low;
    const Real whole = k * Real(0x1.62e4p-1f), big = whole + lead, big_low = lead - (big - whole);
    const Real rest = fma(f * f, f * p, lead_low) + fma(k, Real(0x1.7f7d1cp-20f), t);
    return {big, big_low + rest};
}

/// Returns the natural logarithm. log(+-0) = -Inf. A negative x gives the canonical NaN. The error is at most 0.612
/// ulp.
MACHEPS_MATH_FN MACHEPS_MATH_REAL log(MACHEPS_MATH_REAL x) {
    using Real = MACHEPS_MATH_REAL;
    using Int = MACHEPS_MATH_INT;
    const Real zero(0.0f);
    const auto subnormal = x < Real(0x1p-126f);
    Real y = select(subnormal, x * Real(0x1p25f), x);
    y = select(y > zero, y, Real(1.0f));
    // Let y = 2^k m with m in [sqrt(1/2), sqrt(2)). If the bits of sqrt(1/2) are subtracted from the bits of y, the
    // exponent field becomes k. Adding them to the bits below that field then gives the bits of m.
    const Int offset = bits(y) - Int(0x3f3504f3);
    const Real m = from_bits((offset & Int(0x7fffff)) + Int(0x3f3504f3));
    const Real k = to_float(offset >> 23) - select(subnormal, Real(25.0f), zero);
    const SplitSum sum = log_sum(k, m - Real(1.0f), zero);
    const Real infinity = from_bits(Int(0x7f800000));
    const Real positive = select(x < infinity, sum.big + sum.small, infinity);
    return select(x > zero, positive, select(x == zero, -infinity, canonical_nan()));
}

/// Returns log(1 + x). log1p(-1) = -Inf. An x below -1 gives the canonical NaN. The error is at most 0.619 ulp.
MACHEPS_MATH_FN MACHEPS_MATH_REAL log1p(MACHEPS_MATH_REAL x) {
    using Real = MACHEPS_MATH_REAL;
    using Int = MACHEPS_MATH_INT;
    const Real one(1.0f), zero(0.0f), infinity = from_bits(Int(0x7f800000));
    const Real y = select(x > Real(-1.0f), select(x < infinity, x, one), zero);
    // u + u_low = 1 + y exactly.
    const Real u = one + y, back = u - one, u_low = (one - (u - back)) + (y - back);
    const Int offset = bits(u) - Int(0x3f3504f3), field = offset >> 23;
    const Real m = from_bits((offset & Int(0x7fffff)) + Int(0x3f3504f3));
    const auto near = field == Int(0);  // 1 + y is near 1: the series gets y itself, which is more accurate than m - 1
    const SplitSum sum = log_sum(to_float(field), select(near, y, m - one), select(near, zero, u_low / u));
    const Real value = select(y == zero, y, sum.big + sum.small);
    const Real above = select(x < infinity, value, infinity);
    return select(x > Real(-1.0f), above, select(x == Real(-1.0f), -infinity, canonical_nan()));
}

/// Returns the hyperbolic tangent. The error is at most 0.712 ulp.
MACHEPS_MATH_FN MACHEPS_MATH_REAL tanh(MACHEPS_MATH_REAL x) {
    using Real = MACHEPS_MATH_REAL;
    const Real one(1.0f), size = clamp(abs(x), 0.0f, 10.0f);
    // For small |x|: x + x^3 p(x^2).
    const Real z = size * size;
    Real p(0x1.19a980p-9f);
    p = fma(p, z, Real(-0x1.0c9462p-7f));
    p = fma(p, z, Real(0x1.63b9d4p-6f));
    p = fma(p, z, Real(-0x1.b9f39ep-5f));
    p = fma(p, z, Real(0x1.111082p-3f));
    p = fma(p, z, Real(-0x1.555554p-2f));
    const Real near = fma(size * z, p, size);
    // For large |x|: 1 - 2 / (e^2x + 1). The quotient is corrected by its residual.
    const ExpParts e = exp_parts(size + size, Real(0.0f));
    const Real s = two_to(e.n), power = e.head * s, sum = power + one, sum_low = (one - (sum - power)) + e.tail * s;
    const Real quotient = Real(2.0f) / sum;
    const Real residual = fma(-quotient, sum, Real(2.0f)) - quotient * sum_low;
    const Real far = one - quotient, far_low = ((one - far) - quotient) - quotient * (Real(0.5f) * residual);
    const Real y = select(size < Real(0.55f), near, far + far_low);
    return select(x == x, with_sign_of(y, x), canonical_nan());
}

/// Returns the error function. The error is at most 0.823 ulp.
MACHEPS_MATH_FN MACHEPS_MATH_REAL erf(MACHEPS_MATH_REAL x) {
    using Real = MACHEPS_MATH_REAL;
    const Real one(1.0f), size = clamp(abs(x), 0.0f, 4.0f);
    // For small |x|: x + x q(x^2).
    const Real z = size * size;
    Real q(0x1.49c996p-14f);
    q = fma(q, z, Real(-0x1.a4c674p-11f));
    q = fma(q, z, Real(0x1.5430eap-8f));
    q = fma(q, z, Real(-0x1.b7ff8ap-6f));
    q = fma(q, z, Real(0x1.ce2d5cp-4f));
    q = fma(q, z, Real(-0x1.812740p-2f));
    q = fma(q, z, Real(0x1.06eba8p-3f));
    const Real near = fma(size, q, size);
    const auto is_large = size >= Real(0.875f);
    if (!any(is_large)) return select(x == x, with_sign_of(near, x), canonical_nan());
    // For large |x|: 1 - e^-l(x), where l is a polynomial. The rounding error of the last step of l is kept.
    Real l(-0x1.a6a988p-13f);
    l = fma(l, size, Real(0x1.95ff34p-9f));
    l = fma(l, size, Real(-0x1.6faa34p-6f));
    l = fma(l, size, Real(0x1.ab7e2cp-4f));
    l = fma(l, size, Real(0x1.45fc80p-1f));
    l = fma(l, size, Real(0x1.20c220p0f));
    const Real product = l * size, product_low = fma(l, size, -product);
    const Real last = Real(0x1.0b605ap-13f), total = product + last,
               total_low = (last - (total - product)) + product_low;
    const ExpParts e = exp_parts(-total, -total_low);
    const Real s = two_to(e.n), complement = e.head * s;
    const Real far = one - complement, far_low = ((one - far) - complement) - e.tail * s;
    const Real y = select(is_large, far + far_low, near);
    return select(x == x, with_sign_of(y, x), canonical_nan());
}

/// Returns 1 / sqrt(x), correctly rounded. rsqrt(+-0) = +-Inf (IEEE 754-2019 9.2, rSqrt). A negative x gives the
/// canonical NaN.
MACHEPS_MATH_FN MACHEPS_MATH_REAL rsqrt(MACHEPS_MATH_REAL x) {
    using Real = MACHEPS_MATH_REAL;
    using Int = MACHEPS_MATH_INT;
    const Real zero(0.0f), infinity = from_bits(Int(0x7f800000));
    const auto regular = x > zero;
    const Real a = select(regular, select(x < infinity, x, Real(1.0f)), Real(1.0f));
    // An approximation y has the residual e = 1 - a y^2, which is computed to twice the precision. The exact result is
    // y (1 - e)^-1/2 = y (1 + e/2 + 3/8 e^2 + ...). The term in e^2 matters for x just below a power of four, where the
    // result is just above a tie.
    const Real y = Real(1.0f) / sqrt(a), h = a * y, h_low = fma(a, y, -h);
    const Real residual = fma(-h, y, Real(1.0f)) - h_low * y;
    const Real root = fma(y, fma(Real(0.375f) * residual, residual, Real(0.5f) * residual), y);
    const Real positive = select(x < infinity, root, zero);
    return select(regular, positive, select(x == zero, with_sign_of(infinity, x), canonical_nan()));
}

}  // namespace math
