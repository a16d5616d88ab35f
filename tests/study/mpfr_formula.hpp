// SPDX-License-Identifier: Apache-2.0
// An oracle for formulas. It computes with MPFR and rounds to formats with its own code, which it shares with neither
// macheps nor Arb.
#pragma once
#include "core/rounding.hpp"

#include <mpfr.h>

#include <cmath>
#include <cstdint>
#include <optional>

namespace macheps::test {

/// The parameters of a binary IEEE 754 format.
struct BinaryFormat {
    const char* name;
    int precision, emin, emax;

    double largest() const { return std::ldexp(2 - std::ldexp(1.0, 1 - precision), emax); }
};

/// Rounds the exact value of a result `v` of MPFR. `ternary` is MPFR's return value: 0 if v is exact, positive if v
/// exceeds the exact value, and negative if v is less.
inline double rounded_by_mpfr(const BinaryFormat& f, mpfr_srcptr v, int ternary, Round mode) {
    if (mpfr_nan_p(v) != 0) return NAN;
    const bool is_negative = mpfr_signbit(v) != 0;
    const double sign = is_negative ? -1 : 1;
    if (mpfr_inf_p(v) != 0 && ternary == 0) return sign * HUGE_VAL;
    const bool is_outward = mode == Round::up ? !is_negative : mode == Round::down && is_negative,
               is_nearest = mode == Round::nearest_even || mode == Round::nearest_away;
    const double beyond = is_nearest || is_outward ? sign * HUGE_VAL : sign * f.largest();
    if (mpfr_inf_p(v) != 0) return beyond;
    const int side = ternary == 0 ? 0 : (ternary > 0) == is_negative ? 1 : -1;  // sign of |exact value| - |v|
    if (mpfr_zero_p(v) != 0)
        return side != 0 && is_outward ? sign * std::ldexp(1.0, f.emin - f.precision + 1) : sign * 0.0;
    mpfr_t y, n;
    mpfr_init2(y, mpfr_get_prec(v) + 2);
    mpfr_init2(n, mpfr_get_prec(v) + 2);
    mpfr_abs(y, v, MPFR_RNDN);
    mpfr_exp_t e = mpfr_get_exp(y) - 1;
    mpfr_set_ui_2exp(n, 1, e, MPFR_RNDN);
    if (side < 0 && mpfr_equal_p(y, n) != 0) --e;
    const mpfr_exp_t quantum = std::max<mpfr_exp_t>(e, f.emin) - f.precision + 1;
    double result = beyond;
    if (e <= f.emax + 2) {
        mpfr_mul_2si(y, y, -quantum, MPFR_RNDN);
        mpfr_floor(n, y);
        auto whole = mpfr_get_ui(n, MPFR_RNDZ);
        mpfr_sub(y, y, n, MPFR_RNDN);  // exact
        int against_zero = mpfr_zero_p(y) != 0 ? side : 1,
            against_half = mpfr_cmp_d(y, 0.5) != 0 ? mpfr_cmp_d(y, 0.5) : side;
        if (against_zero < 0) {
            --whole;
            against_zero = against_half = 1;
        }
        const bool is_up = mode == Round::toward_zero    ? false
                           : !is_nearest                 ? is_outward && against_zero > 0
                           : against_half != 0           ? against_half > 0
                           : mode == Round::nearest_away ? true
                                                         : whole % 2 != 0;
        result = std::ldexp(static_cast<double>(whole + (is_up ? 1 : 0)), static_cast<int>(quantum));
        result = result > f.largest() ? beyond : sign * result;
    }
    mpfr_clear(y);
    mpfr_clear(n);
    return result;
}

/// Describes how Mp computes: with a precision of `bits` and, if `format` is not null, with a rounding to the format
/// after each operation.
struct MpfrContext {
    mpfr_prec_t bits = 256;
    const BinaryFormat* format = nullptr;
    Round mode = Round::nearest_even;
};
inline MpfrContext mpfr_context;

class Mp {
  public:
    Mp(double x = 0) { mpfr_init2(v_, 256), mpfr_set_d(v_, x, MPFR_RNDN); }
    Mp(const Mp& other)
        : is_rounded_(other.is_rounded_),
          is_lost_(other.is_lost_),
          has_left_(other.has_left_),
          ternary_(other.ternary_) {
        mpfr_init2(v_, mpfr_get_prec(other.v_));
        mpfr_set(v_, other.v_, MPFR_RNDN);
    }
    Mp& operator=(const Mp& other) {
        mpfr_set_prec(v_, mpfr_get_prec(other.v_));
        mpfr_set(v_, other.v_, MPFR_RNDN);
        is_rounded_ = other.is_rounded_;
        is_lost_ = other.is_lost_;
        has_left_ = other.has_left_;
        ternary_ = other.ternary_;
        return *this;
    }
    ~Mp() { mpfr_clear(v_); }

    /// Returns the result of an operation. If the operands are exact, MPFR's rounding is its only error, and the
    /// direction of this error is known.
    template <class Operation>
    static Mp of(const Operation& operation, bool is_exact_input, bool is_lost) {
        Mp out;
        mpfr_set_prec(out.v_, mpfr_context.bits);
        mpfr_clear_flags();
        const int ternary = operation(out.v_);
        out.ternary_ = mpfr_inf_p(out.v_) != 0 && mpfr_overflow_p() == 0 ? 0 : ternary;
        out.is_rounded_ = !is_exact_input;
        out.is_lost_ = is_lost;
        out.has_left_ = mpfr_overflow_p() != 0 || mpfr_underflow_p() != 0;
        if (mpfr_context.format != nullptr) {
            mpfr_set_d(out.v_, rounded_by_mpfr(*mpfr_context.format, out.v_, out.ternary_, mpfr_context.mode),
                       MPFR_RNDN);
            out.ternary_ = 0;
            out.has_left_ = false;
        }
        return out;
    }
    bool is_useless() const { return is_lost_ || has_left_; }
    bool is_exact() const { return !is_rounded_ && ternary_ == 0; }
    mpfr_srcptr get() const { return v_; }
    double to_double() const { return mpfr_get_d(v_, MPFR_RNDN); }

    /// Rounds to a format. Returns nullopt if MPFR's digits do not decide the result. Assumes that cancellation may
    /// have destroyed half of the digits.
    std::optional<double> rounded(const BinaryFormat& f, Round mode) const {
        if (is_lost_) return std::nullopt;
        if (!is_rounded_) return rounded_by_mpfr(f, v_, ternary_, mode);
        if (mpfr_nan_p(v_) != 0) return NAN;
        if (mpfr_inf_p(v_) != 0) return std::nullopt;
        Mp low, high;
        mpfr_set_prec(low.v_, mpfr_get_prec(v_));
        mpfr_set_prec(high.v_, mpfr_get_prec(v_));
        const mpfr_exp_t margin =
            (mpfr_zero_p(v_) != 0 ? 0 : mpfr_get_exp(v_)) - static_cast<mpfr_exp_t>(mpfr_get_prec(v_)) / 2;
        mpfr_set_ui_2exp(low.v_, 1, margin, MPFR_RNDN);
        mpfr_add(high.v_, v_, low.v_, MPFR_RNDU);
        mpfr_sub(low.v_, v_, low.v_, MPFR_RNDD);
        const double a = rounded_by_mpfr(f, low.v_, 0, mode), b = rounded_by_mpfr(f, high.v_, 0, mode);
        return a == b ? std::optional(a) : std::nullopt;
    }

  private:
    mpfr_t v_;
    bool is_rounded_ = false;  ///< operands had errors already
    bool is_lost_ = false;     ///< an operand was beyond the exponents of MPFR
    bool has_left_ = false;    ///< this result is beyond the exponents of MPFR
    int ternary_ = 0;
};

using MpfrOne = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
using MpfrTwo = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);
inline Mp call(MpfrOne function, const Mp& a) {
    return Mp::of([&](mpfr_ptr out) { return function(out, a.get(), MPFR_RNDN); }, a.is_exact(), a.is_useless());
}
inline Mp call(MpfrTwo function, const Mp& a, const Mp& b) {
    return Mp::of([&](mpfr_ptr out) { return function(out, a.get(), b.get(), MPFR_RNDN); },
                  a.is_exact() && b.is_exact(), a.is_useless() || b.is_useless());
}
/// Returns a sum. A sum of zero is negative if rounding is downwards (IEEE 754-2019 6.3).
inline Mp sum(MpfrTwo function, const Mp& a, const Mp& b) {
    const bool is_down = mpfr_context.format != nullptr && mpfr_context.mode == Round::down;
    return Mp::of([&](mpfr_ptr out) { return function(out, a.get(), b.get(), is_down ? MPFR_RNDD : MPFR_RNDN); },
                  a.is_exact() && b.is_exact(), a.is_useless() || b.is_useless());
}
inline Mp operator+(const Mp& a, const Mp& b) { return sum(mpfr_add, a, b); }
inline Mp operator-(const Mp& a, const Mp& b) { return sum(mpfr_sub, a, b); }
inline Mp operator*(const Mp& a, const Mp& b) { return call(mpfr_mul, a, b); }
inline Mp operator/(const Mp& a, const Mp& b) { return call(mpfr_div, a, b); }

}  // namespace macheps::test
