// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/eval/arb_numbers.hpp"

#include <algorithm>
#include <utility>

namespace macheps::study {

namespace {

struct End {
    Arf at{};
    bool is_open = false;
};

/// Returns the product of an end of one span and an end of another, rounded outwards. The product of zero and an
/// infinite end is zero, because zero times any finite number is zero.
End corner(const Arf& x, bool is_x_open, const Arf& y, bool is_y_open, arf_rnd_t outwards, slong bits) {
    End out;
    if (x.is_zero() || y.is_zero()) {
        const bool is_reached = (x.is_zero() && !is_x_open) || (y.is_zero() && !is_y_open);
        out.is_open = !is_reached;
        return out;
    }
    const int is_inexact = arf_mul(out.at.get(), x.get(), y.get(), bits, outwards);
    out.is_open = is_inexact != 0 || is_x_open || is_y_open;
    return out;
}

}  // namespace

Span span_of(const Fraction& x, slong bits) {
    Span out;
    // Most numbers are integers or have a power of two as the denominator. The first division is then exact.
    out.is_lo_open = arf_fmpz_div_fmpz(out.lo.get(), x.above(), x.below(), bits, ARF_RND_FLOOR) != 0;
    out.is_hi_open = out.is_lo_open;
    if (out.is_lo_open) {
        arf_fmpz_div_fmpz(out.hi.get(), x.above(), x.below(), bits, ARF_RND_CEIL);
    } else {
        out.hi = out.lo;
    }
    return out;
}

Span negated(Span x) {
    arf_neg(x.lo.get(), x.lo.get());
    arf_neg(x.hi.get(), x.hi.get());
    std::swap(x.lo, x.hi);
    std::swap(x.is_lo_open, x.is_hi_open);
    return x;
}

Span magnitude_of(Span x) {
    if (x.lo.sign() >= 0) return x;
    if (x.hi.sign() <= 0) return negated(std::move(x));
    Span other = negated(x);
    const int beyond = order(other.hi, x.hi);
    x.is_hi_open = beyond == 0 ? x.is_hi_open && other.is_hi_open : beyond > 0 ? other.is_hi_open : x.is_hi_open;
    if (beyond > 0) x.hi = std::move(other.hi);
    x.lo = Arf();
    x.is_lo_open = false;
    return x;
}

Span sum_of(const Span& a, const Span& b, slong bits) {
    Span out;
    const int lo = arf_add(out.lo.get(), a.lo.get(), b.lo.get(), bits, ARF_RND_FLOOR),
              hi = arf_add(out.hi.get(), a.hi.get(), b.hi.get(), bits, ARF_RND_CEIL);
    out.is_lo_open = lo != 0 || a.is_lo_open || b.is_lo_open;
    out.is_hi_open = hi != 0 || a.is_hi_open || b.is_hi_open;
    return out;
}

Span product_of(const Span& a, const Span& b, slong bits) {
    Span out;
    bool is_first = true;
    for (const bool of_a : {false, true}) {
        for (const bool of_b : {false, true}) {
            const Arf &x = of_a ? a.hi : a.lo, &y = of_b ? b.hi : b.lo;
            const bool is_x_open = of_a ? a.is_hi_open : a.is_lo_open, is_y_open = of_b ? b.is_hi_open : b.is_lo_open;
            End low = corner(x, is_x_open, y, is_y_open, ARF_RND_FLOOR, bits),
                high = corner(x, is_x_open, y, is_y_open, ARF_RND_CEIL, bits);
            const int below = is_first ? -1 : order(low.at, out.lo), above = is_first ? 1 : order(high.at, out.hi);
            if (below < 0) {
                out.lo = std::move(low.at);
                out.is_lo_open = low.is_open;
            } else if (below == 0) {
                out.is_lo_open = out.is_lo_open && low.is_open;
            }
            if (above > 0) {
                out.hi = std::move(high.at);
                out.is_hi_open = high.is_open;
            } else if (above == 0) {
                out.is_hi_open = out.is_hi_open && high.is_open;
            }
            is_first = false;
        }
    }
    return out;
}

Span quotient_of(const Span& a, const Span& b, slong bits) {
    if (b.is_negative()) return quotient_of(negated(a), negated(b), bits);
    // The divisor is positive here. Each end of the quotient is an end of the dividend, divided by one end of the
    // divisor: the end that makes the span wider.
    const auto end = [&](const Arf& x, bool is_x_open, bool takes_greatest, arf_rnd_t outwards) {
        const Arf& y = takes_greatest ? b.hi : b.lo;
        const bool is_y_open = takes_greatest ? b.is_hi_open : b.is_lo_open;
        End out;
        if (x.is_zero()) {
            out.is_open = is_x_open;
        } else if (y.is_zero()) {  // 0 is an open end of the divisor, so the quotient is unbounded
            x.sign() > 0 ? arf_pos_inf(out.at.get()) : arf_neg_inf(out.at.get());
        } else if (!y.is_finite()) {
            out.is_open = true;
        } else {
            out.is_open = arf_div(out.at.get(), x.get(), y.get(), bits, outwards) != 0 || is_x_open || is_y_open;
        }
        return out;
    };
    End lo = end(a.lo, a.is_lo_open, a.lo.sign() >= 0, ARF_RND_FLOOR),
        hi = end(a.hi, a.is_hi_open, a.hi.sign() < 0, ARF_RND_CEIL);
    return {std::move(lo.at), std::move(hi.at), lo.is_open, hi.is_open};
}

Span root_of(const Span& x, slong bits) {
    Span out;
    const int lo = arf_sqrt(out.lo.get(), x.lo.get(), bits, ARF_RND_FLOOR),
              hi = arf_sqrt(out.hi.get(), x.hi.get(), bits, ARF_RND_CEIL);
    out.is_lo_open = lo != 0 || x.is_lo_open;
    out.is_hi_open = hi != 0 || x.is_hi_open;
    return out;
}

void set_ball(Ball& out, const Span& x, slong bits) {
    if (order(x.lo, x.hi) == 0) {
        arb_set_arf(out.get(), x.lo.get());
    } else {
        arb_set_interval_arf(out.get(), x.lo.get(), x.hi.get(), bits);
    }
}

Span span_of(const Ball& x, slong bits) {
    Span out;
    if (arb_is_finite(x.get()) == 0) {
        arf_neg_inf(out.lo.get());
        arf_pos_inf(out.hi.get());
        return out;
    }
    arb_get_lbound_arf(out.lo.get(), x.get(), bits);
    arb_get_ubound_arf(out.hi.get(), x.get(), bits);
    return out;
}

void clamp(Span& x, double least, double greatest, bool is_open) {
    const Arf low(least), high(greatest);
    if (order(x.lo, low) <= 0) {
        x.is_lo_open = is_open || (x.is_lo_open && order(x.lo, low) == 0);
        x.lo = low;
    }
    if (order(x.hi, high) >= 0) {
        x.is_hi_open = is_open || (x.is_hi_open && order(x.hi, high) == 0);
        x.hi = high;
    }
}

bool is_surely_less(const Span& a, const Span& b) {
    const int beside = order(a.hi, b.lo);
    return beside < 0 || (beside == 0 && (a.is_hi_open || b.is_lo_open));
}

bool is_surely_at_most(const Span& a, const Span& b) { return order(a.hi, b.lo) <= 0; }

}  // namespace macheps::study
