// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/eval/real_system.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace macheps::study {

namespace {

Real infinite_real(bool is_negative) {
    Real out;
    out.kind = Real::Kind::infinite;
    out.is_negative = is_negative;
    return out;
}

Real span_real(Span x) {
    Real out;
    out.kind = Real::Kind::span;
    out.span = std::move(x);
    return out;
}

/// Returns floor, ceil, trunc, round (ties away) or nearbyint (ties to even) of a fraction.
Fraction whole_of(Op op, const Fraction& x) {
    Fraction out;
    fmpz* const n = fmpq_numref(out.get());
    if (op == Op::floor) {
        fmpz_fdiv_q(n, x.above(), x.below());
    } else if (op == Op::ceil) {
        fmpz_cdiv_q(n, x.above(), x.below());
    } else if (op == Op::trunc) {
        fmpz_tdiv_q(n, x.above(), x.below());
    } else {
        // floor((2 |a| + b) / 2b): the nearest integer, ties away from zero.
        Integer twice, half, rest;
        fmpz_abs(twice.get(), x.above());
        fmpz_mul_2exp(twice.get(), twice.get(), 1);
        fmpz_add(twice.get(), twice.get(), x.below());
        fmpz_mul_2exp(half.get(), x.below(), 1);
        fmpz_fdiv_qr(n, rest.get(), twice.get(), half.get());
        if (op == Op::nearbyint && fmpz_is_zero(rest.get()) != 0 && fmpz_is_odd(n) != 0) fmpz_sub_ui(n, n, 1);
        if (x.sign() < 0) fmpz_neg(n, n);
    }
    return out;
}

/// Rounds an end of a span to an integer, as `op` does. If the end is open, `nudge` is 1 if the values of the span lie
/// above the end, and -1 if they lie below it. If the end is closed, `nudge` is 0.
Arf whole_of(Op op, const Arf& x, int nudge) {
    if (!x.is_finite()) return x;
    if (arf_cmpabs_2exp_si(x.get(), 70) >= 0 && arf_is_int(x.get()) != 0) return x;
    Fraction value;
    if (!x.is_zero() && arf_cmpabs_2exp_si(x.get(), -8) < 0) {
        // Each of these functions has the same result for all numbers of one sign with magnitudes between 0 and 1/2, so
        // x can be replaced by 1/256 with the sign of x.
        fmpq_set_si(value.get(), x.sign(), 256);
    } else {
        arf_get_fmpq(value.get(), x.get());
        Fraction twice;
        fmpq_mul_2exp(twice.get(), value.get(), 1);
        if (nudge != 0 && twice.is_whole()) {
            Fraction quarter;
            fmpq_set_si(quarter.get(), nudge, 4);
            fmpq_add(value.get(), value.get(), quarter.get());
        }
    }
    Arf out;
    arf_set_fmpz(out.get(), whole_of(op, value).above());
    return out;
}

}  // namespace

Real real_of(double x) {
    if (std::isinf(x)) return infinite_real(x < 0);
    if (x != x) return {};
    int exponent = 0;
    const auto significand = static_cast<slong>(std::ldexp(std::frexp(x, &exponent), 53));
    Fraction out;
    fmpq_set_si(out.get(), significand, 1);
    exponent -= 53;
    exponent < 0 ? fmpq_div_2exp(out.get(), out.get(), static_cast<flint_bitcnt_t>(-exponent))
                 : fmpq_mul_2exp(out.get(), out.get(), static_cast<flint_bitcnt_t>(exponent));
    return exact_real(std::move(out), std::signbit(x));
}

Real exact_real(Fraction x, bool is_negative_zero) {
    Real out;
    out.kind = Real::Kind::exact;
    out.is_negative = x.sign() == 0 && is_negative_zero;
    out.exact = std::move(x);
    return out;
}

Real negative(Real x) {
    x.is_negative = x.kind == Real::Kind::infinite || x.is_zero() ? !x.is_negative : x.is_negative;
    if (x.is_exact()) fmpq_neg(x.exact.get(), x.exact.get());
    if (x.kind == Real::Kind::span) x.span = negated(std::move(x.span));
    return x;
}

void RealSystem::spend(const std::vector<Real>& x, bool is_function) {
    slong most = bits_;
    for (const Real& each : x) {
        if (each.is_exact()) most = std::max(most, each.exact.bits());
    }
    // The time that a function takes grows faster than the number of digits.
    const auto words = static_cast<std::uint64_t>(most / 64);
    work_ += is_function ? words * (16 + words / 8) : words;
    if (work_ > max_work) throw Exhausted{};
}

/// Returns the span as a Real. If the span contains only one number, and the numerator and denominator of this number
/// are not too long, the Real is an exact fraction.
Real RealSystem::settled(Span x) const {
    if (!x.is_point() || arf_bits(x.lo.get()) > max_fraction_bits / 2 ||
        arf_cmpabs_2exp_si(x.lo.get(), max_fraction_bits / 2) > 0 ||
        (!x.lo.is_zero() && arf_cmpabs_2exp_si(x.lo.get(), -max_fraction_bits / 2) < 0)) {
        return span_real(std::move(x));
    }
    Fraction out;
    arf_get_fmpq(out.get(), x.lo.get());
    return exact_real(std::move(out));
}

Real RealSystem::settled(Fraction x) const {
    if (x.bits() <= max_fraction_bits) return exact_real(std::move(x));
    return span_real(span_of(x, bits_));
}

Real RealSystem::add(const Real& a, const Real& b) {
    if (a.is_zero() && !b.is_zero()) return b;
    if (b.is_zero() && !a.is_zero()) return a;
    if (!a.is_exact() || !b.is_exact()) return settled(sum_of(span(a), span(b), bits_));
    if (a.is_zero()) return exact_real({}, a.is_negative && b.is_negative);
    Fraction out;
    fmpq_add(out.get(), a.exact.get(), b.exact.get());
    return settled(std::move(out));
}

Real RealSystem::multiply(const Real& a, const Real& b) {
    if (!a.is_exact() || !b.is_exact()) return settled(product_of(span(a), span(b), bits_));
    Fraction out;
    fmpq_mul(out.get(), a.exact.get(), b.exact.get());
    return settled(std::move(out));
}

Real RealSystem::divide(const Real& a, const Real& b) {
    if (!a.is_exact() || !b.is_exact()) {
        if (b.sign() == 0) throw Undecided{};
        return settled(quotient_of(span(a), span(b), bits_));
    }
    Fraction out;
    fmpq_div(out.get(), a.exact.get(), b.exact.get());
    return settled(std::move(out));
}

Real RealSystem::root(const Real& x) {
    if (x.is_exact() ? x.exact.sign() < 0 : x.span.is_negative()) return {};
    if (x.kind == Real::Kind::span && x.span.lo.sign() < 0) throw Undecided{};
    return settled(root_of(span(x), bits_));
}

Real RealSystem::magnitude(const Real& x) const {
    Real out = x;
    out.is_negative = false;
    if (x.is_exact()) fmpq_abs(out.exact.get(), out.exact.get());
    if (x.kind == Real::Kind::span) out.span = magnitude_of(x.span);
    return out;
}

/// Returns the minimum of the operands. If one operand is NaN, returns the other operand.
Real RealSystem::least(const Real& a, const Real& b) {
    if (a.kind == Real::Kind::nan) return b;
    if (b.kind == Real::Kind::nan) return a;
    if (a.kind == Real::Kind::infinite) return a.is_negative ? a : b;
    if (b.kind == Real::Kind::infinite) return b.is_negative ? b : a;
    if (a.is_exact() && b.is_exact()) return fmpq_cmp(b.exact.get(), a.exact.get()) < 0 ? b : a;
    const Span x = span(a), y = span(b);
    if (is_surely_at_most(x, y)) return a;
    if (is_surely_at_most(y, x)) return b;
    Span out;
    const bool is_lo_of_x = order(x.lo, y.lo) <= 0, is_hi_of_x = order(x.hi, y.hi) <= 0;
    out.lo = is_lo_of_x ? x.lo : y.lo;
    out.hi = is_hi_of_x ? x.hi : y.hi;
    out.is_lo_open = (is_lo_of_x ? x.is_lo_open : y.is_lo_open) && order(x.lo, y.lo) != 0;
    out.is_hi_open = (is_hi_of_x ? x.is_hi_open : y.is_hi_open) && order(x.hi, y.hi) != 0;
    return span_real(std::move(out));
}

Real RealSystem::difference_above_zero(const Real& a, const Real& b) {
    if (a.kind == Real::Kind::nan || b.kind == Real::Kind::nan) return {};
    if (a.kind == Real::Kind::infinite && b.kind == Real::Kind::infinite && a.is_negative == b.is_negative)
        return exact_real({});
    const Real difference = apply(Op::sub, {a, b});
    return negative(least(negative(difference), negative(exact_real({}))));
}

Real RealSystem::with_sign(const Real& a, const Real& b) const {
    bool is_negative = b.is_negative;
    if (b.is_number() && !b.is_zero()) {
        if (b.sign() == 0 && b.span.lo.sign() < 0) throw Undecided{};
        is_negative = b.sign() < 0;
    }
    Real out = magnitude(a);
    return is_negative ? negative(std::move(out)) : out;
}

Real RealSystem::whole(Op op, const Real& x) const {
    if (!x.is_number() || x.is_zero()) return x;
    if (x.is_exact()) return exact_real(whole_of(op, x.exact), x.exact.sign() < 0);
    Span out;
    out.lo = whole_of(op, x.span.lo, x.span.is_lo_open ? 1 : 0);
    out.hi = whole_of(op, x.span.hi, x.span.is_hi_open ? -1 : 0);
    Real settled_value = settled(std::move(out));
    if (settled_value.is_zero()) settled_value.is_negative = x.span.is_negative();
    return settled_value;
}

/// Computes fmod, which truncates the quotient, or remainder, which rounds it to the nearest integer with ties to even.
Real RealSystem::remainder(Op op, const Real& a, const Real& b) {
    if (!a.is_number() || b.kind == Real::Kind::nan || b.is_zero()) return {};
    if (b.kind == Real::Kind::infinite || a.is_zero()) return a;
    const Real quotient = whole(op == Op::fmod ? Op::trunc : Op::nearbyint, divide(a, b));
    if (!quotient.is_exact()) throw Undecided{};
    Real out = add(a, negative(multiply(quotient, b)));
    if (out.is_zero()) {
        if (a.sign() == 0) throw Undecided{};
        out.is_negative = a.sign() < 0;
    }
    return out;
}

Real RealSystem::power(const Real& a, const Real& b) {
    const bool is_whole = b.is_exact() && b.exact.is_whole();
    if (a.sign() < 0) {
        if (!b.is_exact()) throw Undecided{};
        if (!is_whole) return {};
        Real out = apply(Op::pow, {magnitude(a), b});  // apply() also finds powers that are rational
        return fmpz_is_odd(b.exact.above()) != 0 ? negative(std::move(out)) : out;
    }
    Span base = span(a);
    bool is_odd = false;
    if (a.sign() == 0) {  // the span of `a` contains zero
        if (!b.is_exact() || b.exact.sign() < 0 || (!is_whole && base.lo.sign() < 0)) throw Undecided{};
        is_odd = is_whole && fmpz_is_odd(b.exact.above()) != 0;
        if (base.lo.sign() < 0 && is_odd) {
            const auto side = [&](Span part) { return power(span_real(std::move(part)), b); };
            Span above = base, below = negated(base);
            above.lo = below.lo = Arf();
            above.is_lo_open = below.is_lo_open = false;
            const Real up = side(std::move(above)), down = side(std::move(below));
            return span_real({negated(down.span).lo, up.span.hi, down.span.is_hi_open, up.span.is_hi_open});
        }
        base = magnitude_of(std::move(base));
        Span out = base;
        if (!base.hi.is_zero()) {
            base.lo = base.hi;
            base.is_lo_open = base.is_hi_open;
            const Span exponent = product_of(span(b), function_over(Op::log, base, false, bits_).span, bits_),
                       raised = function_over(Op::exp, exponent, false, bits_).span;
            out.hi = raised.hi;
            out.is_hi_open = raised.is_hi_open;
        }
        return span_real(std::move(out));
    }
    const Span exponent = product_of(span(b), span(function_over(Op::log, base, false, bits_)), bits_);
    return function_over(Op::exp, exponent, false, bits_);
}

Real RealSystem::angle(const Real& y, const Real& x) const {
    const Span above = span(y), beside = span(x);
    const bool is_right = beside.is_positive();
    if ((!is_right && y.sign() == 0) || !above.is_bounded() || !beside.is_bounded()) throw Undecided{};
    Ball a, b, out;
    set_ball(a, above, bits_);
    set_ball(b, beside, bits_);
    arb_atan2(out.get(), a.get(), b.get(), bits_);
    Span angle = span_of(out, bits_);
    if (!angle.is_bounded()) throw Undecided{};
    return span_real(std::move(angle));
}

Real RealSystem::apply(Op op, const std::vector<Real>& x) {
    spend(x, is_elementary(op));
    const Real& a = x[0];
    switch (op) {
        case Op::neg:
            return negative(a);
        case Op::fabs:
            return magnitude(a);
        case Op::fmin:
            return least(a, x[1]);
        case Op::fmax:
            return negative(least(negative(a), negative(x[1])));
        case Op::fdim:
            return difference_above_zero(a, x[1]);
        case Op::copysign:
            return with_sign(a, x[1]);
        case Op::floor:
        case Op::ceil:
        case Op::trunc:
        case Op::round:
        case Op::nearbyint:
            return whole(op, a);
        case Op::fmod:
        case Op::remainder:
            return remainder(op, a, x[1]);
        case Op::sub:
            return apply(Op::add, {a, negative(x[1])});
        case Op::fma:
            return apply(Op::add, {apply(Op::mul, {a, x[1]}), x[2]});
        default:
            break;
    }
    if (Real out; special_result(op, x, bits_, out) || rational_result(op, x, out)) return out;
    switch (op) {
        case Op::add:
            return add(a, x[1]);
        case Op::mul:
            return multiply(a, x[1]);
        case Op::div:
            return divide(a, x[1]);
        case Op::sqrt:
            return root(a);
        case Op::pow:
            return power(a, x[1]);
        case Op::atan2:
            return angle(a, x[1]);
        case Op::hypot: {
            const Real p = magnitude(a), q = magnitude(x[1]);
            return root(add(multiply(p, p), multiply(q, q)));
        }
        default:
            return function_over(op, span(a), a.is_exact(), bits_);
    }
}

bool RealSystem::compare(Op op, const Real& a, const Real& b) {
    if (a.kind == Real::Kind::nan || b.kind == Real::Kind::nan) return op == Op::unequal;
    if (op == Op::greater || op == Op::greater_equal)
        return compare(op == Op::greater ? Op::less : Op::less_equal, b, a);
    if (op == Op::unequal) return !compare(Op::equal, a, b);
    std::optional<int> order;
    const auto infinite_sign = [](const Real& x) {
        return x.kind != Real::Kind::infinite ? 0 : x.is_negative ? -1 : 1;
    };
    if (infinite_sign(a) != 0 || infinite_sign(b) != 0) {
        order = infinite_sign(a) - infinite_sign(b);
    } else if (a.is_exact() && b.is_exact()) {
        order = fmpq_cmp(a.exact.get(), b.exact.get());
    }
    if (order) return op == Op::less ? *order < 0 : op == Op::less_equal ? *order <= 0 : *order == 0;
    const Span x = span(a), y = span(b);
    if (op == Op::less && is_surely_less(x, y)) return true;
    if (op == Op::less && is_surely_at_most(y, x)) return false;
    if (op == Op::less_equal && is_surely_at_most(x, y)) return true;
    if (op == Op::less_equal && is_surely_less(y, x)) return false;
    if (op == Op::equal && (is_surely_less(x, y) || is_surely_less(y, x))) return false;
    if (op == Op::equal && x.is_point() && y.is_point()) return true;
    throw Undecided{};
}

bool RealSystem::test(Op op, const Real& x) {
    switch (op) {
        case Op::is_nan:
            return x.kind == Real::Kind::nan;
        case Op::is_inf:
            return x.kind == Real::Kind::infinite;
        case Op::is_finite:
            return x.is_number();
        case Op::is_normal:
            if (x.kind == Real::Kind::span && x.sign() == 0) throw Undecided{};
            return x.is_number() && !x.is_zero();  // a real number is never subnormal
        default:
            if (!x.is_number() || x.is_zero()) return x.is_negative;
            if (x.sign() == 0 && x.span.lo.sign() < 0) throw Undecided{};
            return x.sign() < 0;
    }
}

}  // namespace macheps::study
