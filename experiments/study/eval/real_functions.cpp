// SPDX-License-Identifier: Apache-2.0
// Elementary functions over spans (intervals). They combine Arb's ball arithmetic with known facts about each function:
// its range, and whether it increases or decreases.
#include "experiments/study/eval/real_system.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace macheps::study {

namespace {

constexpr double unbounded = HUGE_VAL;

/// Type of functions that return an enclosure of an elementary function at `x`.
using At = Span (*)(const Arf& x, slong bits);

template <void (*function)(arb_t, const arb_t, slong)>
Span at(const Arf& x, slong bits) {
    Ball out;
    arb_set_arf(out.get(), x.get());
    function(out.get(), out.get(), bits);
    return span_of(out, bits);
}
void logarithm_2(arb_t out, const arb_t x, slong bits) { arb_log_base_ui(out, x, 2, bits); }
void logarithm_10(arb_t out, const arb_t x, slong bits) { arb_log_base_ui(out, x, 10, bits); }
void cube_root(arb_t out, const arb_t x, slong bits) {
    const int is_negative = arb_is_negative(x);
    if (is_negative != 0) {
        arb_neg(out, x);
    } else {
        arb_set(out, x);
    }
    arb_root_ui(out, out, 3, bits);
    if (is_negative != 0) arb_neg(out, out);
}

/// Returns 2^n, where n is `x` rounded toward zero. The result therefore lies between 1 and 2^x. Very large magnitudes
/// of n are reduced, which gives a weaker but valid bound.
Arf power_of_two_towards_one(const Arf& x) {
    constexpr slong max_exponent_bits = 4096;
    Integer n;
    if (arf_cmpabs_2exp_si(x.get(), max_exponent_bits) >= 0) {
        fmpz_one_2exp(n.get(), static_cast<ulong>(max_exponent_bits));
        if (x.sign() < 0) fmpz_neg(n.get(), n.get());
    } else {
        arf_get_fmpz(n.get(), x.get(), ARF_RND_DOWN);
    }
    Arf out;
    arf_one(out.get());
    arf_mul_2exp_fmpz(out.get(), out.get(), n.get());
    return out;
}

/// Returns whether `x` is too large in magnitude to be reduced modulo ln 2 with `bits` bits. The caller then bounds e^x
/// by a power of two: e^x > 2^x for positive x, and e^x < 2^x for negative x.
bool is_far(const Arf& x, slong bits) { return arf_cmpabs_2exp_si(x.get(), std::max<slong>(64, bits)) >= 0; }

Span at_exp(const Arf& x, slong bits) {
    if (!is_far(x, bits)) return at<arb_exp>(x, bits);
    Span out;
    if (x.sign() > 0) {
        out.lo = power_of_two_towards_one(x);
        arf_pos_inf(out.hi.get());
    } else {
        out.hi = power_of_two_towards_one(x);
        out.is_lo_open = true;
    }
    return out;
}

/// Returns an enclosure of 2^x. Splits x exactly into an integer n and a fraction f, and computes 2^f * 2^n.
Span at_exp2(const Arf& x, slong bits) {
    if (is_far(x, 4096)) return at_exp(x, 64);
    Arf whole, fraction;
    Integer n;
    arf_floor(whole.get(), x.get());
    arf_get_fmpz(n.get(), whole.get(), ARF_RND_DOWN);
    if (arf_cmpabs_2exp_si(x.get(), -1) < 0) {
        whole = Arf();
        fmpz_zero(n.get());
    }
    arf_sub(fraction.get(), x.get(), whole.get(), ARF_PREC_EXACT, ARF_RND_DOWN);
    Ball out, log;
    arb_const_log2(log.get(), bits + 8);
    arb_set_arf(out.get(), fraction.get());
    arb_mul(out.get(), out.get(), log.get(), bits + 8);
    arb_exp(out.get(), out.get(), bits);
    arb_mul_2exp_fmpz(out.get(), out.get(), n.get());
    return span_of(out, bits);
}

Span at_expm1(const Arf& x, slong bits) {
    if (!is_far(x, bits)) return at<arb_expm1>(x, bits);
    const Span one{Arf(-1.0), Arf(-1.0), false, false};
    return sum_of(at_exp(x, bits), one, bits);
}

/// Returns an enclosure of e^x / 2 + d for all d between `least` and `greatest`, for x >= 0. For sinh, d = -e^-x / 2
/// lies between -1 and 0. For cosh, d = e^-x / 2 lies between 0 and 1.
Span half_exp(const Arf& x, slong bits, double least, double greatest) {
    Span out = sum_of(at_exp(x, bits), {Arf(2 * least), Arf(2 * greatest), true, true}, bits);
    arf_mul_2exp_si(out.lo.get(), out.lo.get(), -1);
    arf_mul_2exp_si(out.hi.get(), out.hi.get(), -1);
    return out;
}
Span at_sinh(const Arf& x, slong bits) {
    if (!is_far(x, bits)) return at<arb_sinh>(x, bits);
    Arf size;
    arf_abs(size.get(), x.get());
    Span out = half_exp(size, bits, -1, 0);
    return x.sign() < 0 ? negated(std::move(out)) : out;
}
Span at_cosh(const Arf& x, slong bits) { return is_far(x, bits) ? half_exp(x, bits, 0, 1) : at<arb_cosh>(x, bits); }

/// A function that is increasing or decreasing on its whole domain.
struct MonotoneRow {
    Op op;
    At at;
    bool falls;
    double domain_min, domain_greatest;
    bool is_domain_open;  ///< the finite ends are not part of the domain
    double least, greatest;
    bool is_range_open;  ///< the function never reaches its finite bounds
};
constexpr MonotoneRow monotone[] = {
    {Op::exp, at_exp, false, -unbounded, unbounded, false, 0, unbounded, true},
    {Op::exp2, at_exp2, false, -unbounded, unbounded, false, 0, unbounded, true},
    {Op::expm1, at_expm1, false, -unbounded, unbounded, false, -1, unbounded, true},
    {Op::log, at<arb_log>, false, 0, unbounded, true, -unbounded, unbounded, true},
    {Op::log2, at<logarithm_2>, false, 0, unbounded, true, -unbounded, unbounded, true},
    {Op::log10, at<logarithm_10>, false, 0, unbounded, true, -unbounded, unbounded, true},
    {Op::log1p, at<arb_log1p>, false, -1, unbounded, true, -unbounded, unbounded, true},
    {Op::asin, at<arb_asin>, false, -1, 1, false, -2, 2, true},
    {Op::acos, at<arb_acos>, true, -1, 1, false, 0, 4, false},
    {Op::atan, at<arb_atan>, false, -unbounded, unbounded, false, -2, 2, true},
    {Op::sinh, at_sinh, false, -unbounded, unbounded, false, -unbounded, unbounded, true},
    {Op::tanh, at<arb_tanh>, false, -unbounded, unbounded, false, -1, 1, true},
    {Op::asinh, at<arb_asinh>, false, -unbounded, unbounded, false, -unbounded, unbounded, true},
    {Op::acosh, at<arb_acosh>, false, 1, unbounded, false, 0, unbounded, false},
    {Op::atanh, at<arb_atanh>, false, -1, 1, true, -unbounded, unbounded, true},
    {Op::cbrt, at<cube_root>, false, -unbounded, unbounded, false, -unbounded, unbounded, true},
    {Op::erf, at<arb_hypgeom_erf>, false, -unbounded, unbounded, false, -1, 1, true},
    {Op::erfc, at<arb_hypgeom_erfc>, true, -unbounded, unbounded, false, 0, 2, true},
};

/// Evaluates a monotone function at the ends of the span. If an end is infinite, or if Arb has no finite ball there,
/// the result is unbounded on that side. The caller then limits it to the function's range.
Span over_ends(At function, bool falls, const Span& x, slong bits) {
    Span all;
    arf_neg_inf(all.lo.get());
    arf_pos_inf(all.hi.get());
    const auto end = [&](const Arf& at_end) { return at_end.is_finite() ? function(at_end, bits) : all; };
    Span low = end(x.lo), high = order(x.lo, x.hi) == 0 ? low : end(x.hi);
    if (falls) std::swap(low, high);
    const bool is_low_open = falls ? x.is_hi_open : x.is_lo_open, is_high_open = falls ? x.is_lo_open : x.is_hi_open;
    return {std::move(low.lo), std::move(high.hi), low.is_lo_open || is_low_open, high.is_hi_open || is_high_open};
}

Span over_monotone(const MonotoneRow& row, const Span& x, slong bits, bool& is_outside) {
    const Arf least(row.domain_min), greatest(row.domain_greatest);
    const int below = order(x.lo, least), above = order(x.hi, greatest);
    const bool is_lo_inside = below > 0 || (below == 0 && (!row.is_domain_open || x.is_lo_open || !least.is_finite())),
               is_hi_inside =
                   above < 0 || (above == 0 && (!row.is_domain_open || x.is_hi_open || !greatest.is_finite()));
    if (is_lo_inside && is_hi_inside) {
        Span out = over_ends(row.at, row.falls, x, bits);
        clamp(out, row.least, row.greatest, row.is_range_open);
        return out;
    }
    const int lowest = order(x.hi, least), highest = order(x.lo, greatest);
    is_outside = lowest < 0 || (lowest == 0 && x.is_hi_open) || highest > 0 || (highest == 0 && x.is_lo_open);
    if (!is_outside) throw Undecided{};
    return {};
}

Span over_ball(void (*function)(arb_t, const arb_t, slong), const Span& x, slong bits) {
    if (!x.is_bounded()) throw Undecided{};
    Ball out;
    set_ball(out, x, bits);
    function(out.get(), out.get(), bits);
    Span span = span_of(out, bits);
    if (!span.is_bounded()) throw Undecided{};
    return span;
}

Span over_cosh(const Span& x, slong bits, bool is_exact) {
    Span out = over_ends(at_cosh, false, magnitude_of(x), bits);
    clamp(out, 1, unbounded, is_exact);  // if `is_exact`, x is not 0 (see special_result()), so cosh x > 1
    return out;
}

/// Returns an enclosure of sin or cos. Their values at a rational number other than zero are never -1 or 1.
Span over_wave(void (*function)(arb_t, const arb_t, slong), const Span& x, slong bits, bool is_exact) {
    Span out{Arf(-1.0), Arf(1.0), is_exact, is_exact};
    if (!x.is_bounded()) return out;
    Ball ball;
    set_ball(ball, x, bits);
    function(ball.get(), ball.get(), bits);
    if (arb_is_finite(ball.get()) != 0) out = span_of(ball, bits);
    clamp(out, -1, 1, is_exact);
    return out;
}

Span over_gamma(const Span& x, slong bits) {
    if (x.lo.is_finite() && arf_cmp_si(x.lo.get(), 1024) >= 0) {
        Ball ball;
        if (x.is_bounded() && !is_far(x.hi, bits)) {
            set_ball(ball, x, bits);
            arb_gamma(ball.get(), ball.get(), bits);
            if (arb_is_finite(ball.get()) != 0) return span_of(ball, bits);
        }
        // For these x, gamma(x) exceeds 2^x.
        Span out;
        out.lo = power_of_two_towards_one(x.lo);
        arf_pos_inf(out.hi.get());
        return out;
    }
    return over_ball(arb_gamma, x, bits);
}

/// Computes ln |gamma(x)|. For negative x, uses ln pi - ln |sin(pi x)| - ln gamma(1 - x).
void log_gamma(arb_t out, const arb_t x, slong bits) {
    if (arb_is_positive(x) != 0) {
        arb_lgamma(out, x, bits);
        return;
    }
    Ball sine, rest;
    arb_sin_pi(sine.get(), x, bits);
    arb_abs(sine.get(), sine.get());
    arb_log(sine.get(), sine.get(), bits);
    arb_sub_ui(rest.get(), x, 1, bits);
    arb_neg(rest.get(), rest.get());
    arb_lgamma(rest.get(), rest.get(), bits);
    arb_const_pi(out, bits);
    arb_log(out, out, bits);
    arb_sub(out, out, sine.get(), bits);
    arb_sub(out, out, rest.get(), bits);
}

}  // namespace

Real function_over(Op op, const Span& x, bool is_exact, slong bits) {
    Real out;
    out.kind = Real::Kind::span;
    const auto row =
        std::find_if(std::begin(monotone), std::end(monotone), [&](const MonotoneRow& r) { return r.op == op; });
    if (row != std::end(monotone)) {
        bool is_outside = false;
        out.span = over_monotone(*row, x, bits, is_outside);
        return is_outside ? Real{} : out;
    }
    switch (op) {
        case Op::sin:
            out.span = over_wave(arb_sin, x, bits, is_exact);
            break;
        case Op::cos:
            out.span = over_wave(arb_cos, x, bits, is_exact);
            break;
        case Op::tan:
            out.span = over_ball(arb_tan, x, bits);
            break;
        case Op::cosh:
            out.span = over_cosh(x, bits, is_exact);
            break;
        case Op::tgamma:
            out.span = over_gamma(x, bits);
            break;
        case Op::lgamma:
            out.span = over_ball(log_gamma, x, bits);
            break;
        default:
            throw Undecided{};
    }
    return out;
}

}  // namespace macheps::study
