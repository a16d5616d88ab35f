// SPDX-License-Identifier: Apache-2.0
// The part of the fp64 function e^x that scalar and vector code share. The including file defines two macros:
// MACHEPS_MATH_FN holds the qualifiers of a function, and MACHEPS_MATH_REAL is double or a vector of doubles. The
// coefficients are our own minimax fit.
namespace math {
namespace detail {

/// Splits e^x into y 2^n with an integer n and y in (0.7, 1.5), for |x| up to 746. Returns y. The low bits of `shifted`
/// hold n.
MACHEPS_MATH_FN MACHEPS_MATH_REAL exp_mantissa(MACHEPS_MATH_REAL x, MACHEPS_MATH_REAL& shifted) {
    using Real = MACHEPS_MATH_REAL;
    const Real magic(macheps::math::detail::exp_magic), one(1.0);
    shifted = fma(x, Real(0x1.71547652b82fep+0), magic);
    const Real n = shifted - magic;
    const Real coarse = fma(n, Real(-0x1.62e42fefa3000p-1), x), fine = n * Real(-0x1.3de6af278ece6p-42);
    const Real r = coarse + fine, lost = fine - (r - coarse);
    Real q(0x1.20528c9a6a42fp-29);
    q = fma(q, r, Real(0x1.af747677f5fe5p-26));
    q = fma(q, r, Real(0x1.27e4499f5984ap-22));
    q = fma(q, r, Real(0x1.71ddea9661200p-19));
    q = fma(q, r, Real(0x1.a01a01e8e4a7ap-16));
    q = fma(q, r, Real(0x1.a01a01b5fb64ep-13));
    q = fma(q, r, Real(0x1.6c16c16c0a3cep-10));
    q = fma(q, r, Real(0x1.111111110e53fp-7));
    q = fma(q, r, Real(0x1.555555555556cp-5));
    q = fma(q, r, Real(0x1.555555555555dp-3));
    q = fma(q, r, Real(0.5));
    const Real first = one + r;
    return first + ((r - (first - one)) + fma(lost, first, q * (r * r)));
}

}  // namespace detail
}  // namespace math
