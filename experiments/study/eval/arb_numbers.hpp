// SPDX-License-Identifier: Apache-2.0
// Classes that own the numbers of Arb and FLINT, and intervals of real numbers (Span). Only files that are compiled
// with Arb include this header.
#pragma once
// FLINT 3 includes Arb. With older versions of FLINT, Arb is a separate library.
#if __has_include(<flint/arb.h>)
#include <flint/arb.h>
#include <flint/arb_hypgeom.h>
#include <flint/arf.h>
#include <flint/fmpq.h>
#else
#include <arb.h>
#include <arb_hypgeom.h>
#include <arf.h>
#include <flint/fmpq.h>
#endif

namespace macheps::study {

/// A binary floating-point number with any number of digits and any exponent, or an infinity.
class Arf {
  public:
    Arf() { arf_init(x_); }
    explicit Arf(double x) : Arf() { arf_set_d(x_, x); }
    Arf(const Arf& other) : Arf() { arf_set(x_, other.x_); }
    Arf(Arf&& other) noexcept : Arf() { arf_swap(x_, other.x_); }
    Arf& operator=(const Arf& other) {
        arf_set(x_, other.x_);
        return *this;
    }
    Arf& operator=(Arf&& other) noexcept {
        arf_swap(x_, other.x_);
        return *this;
    }
    ~Arf() { arf_clear(x_); }
    arf_ptr get() { return x_; }
    arf_srcptr get() const { return x_; }

    bool is_zero() const { return arf_is_zero(x_) != 0; }
    bool is_finite() const { return arf_is_finite(x_) != 0; }
    int sign() const { return arf_sgn(x_); }
    friend int order(const Arf& a, const Arf& b) { return arf_cmp(a.x_, b.x_); }

  private:
    arf_t x_{};
};

/// An integer.
class Integer {
  public:
    Integer() { fmpz_init(x_); }
    Integer(const Integer& other) : Integer() { fmpz_set(x_, other.x_); }
    Integer& operator=(const Integer& other) {
        fmpz_set(x_, other.x_);
        return *this;
    }
    ~Integer() { fmpz_clear(x_); }
    fmpz* get() { return x_; }
    const fmpz* get() const { return x_; }

  private:
    fmpz_t x_;
};

/// A rational number.
class Fraction {
  public:
    Fraction() { fmpq_init(x_); }
    Fraction(const Fraction& other) : Fraction() { fmpq_set(x_, other.x_); }
    Fraction(Fraction&& other) noexcept : Fraction() { fmpq_swap(x_, other.x_); }
    Fraction& operator=(const Fraction& other) {
        fmpq_set(x_, other.x_);
        return *this;
    }
    Fraction& operator=(Fraction&& other) noexcept {
        fmpq_swap(x_, other.x_);
        return *this;
    }
    ~Fraction() { fmpq_clear(x_); }
    fmpq* get() { return x_; }
    const fmpq* get() const { return x_; }
    const fmpz* above() const { return fmpq_numref(x_); }
    const fmpz* below() const { return fmpq_denref(x_); }

    int sign() const { return fmpq_sgn(x_); }
    bool is_whole() const { return fmpz_is_one(below()) != 0; }
    slong bits() const { return static_cast<slong>(fmpz_bits(above()) + fmpz_bits(below())); }

  private:
    fmpq_t x_;
};

class Ball {
  public:
    Ball() { arb_init(x_); }
    Ball(const Ball&) = delete;
    Ball& operator=(const Ball&) = delete;
    ~Ball() { arb_clear(x_); }
    arb_ptr get() { return x_; }
    arb_srcptr get() const { return x_; }

  private:
    arb_t x_;
};

/// Interval of all real numbers between two ends. An open end is not part of the interval. With an infinite end, the
/// interval is unbounded on that side. An end that was rounded outwards can be open, because it lies outside all
/// values.
struct Span {
    Arf lo{}, hi{};
    bool is_lo_open = false, is_hi_open = false;

    bool is_point() const { return !is_lo_open && !is_hi_open && lo.is_finite() && order(lo, hi) == 0; }
    bool is_bounded() const { return lo.is_finite() && hi.is_finite(); }
    bool is_positive() const { return lo.sign() > 0 || (lo.sign() == 0 && is_lo_open); }
    bool is_negative() const { return hi.sign() < 0 || (hi.sign() == 0 && is_hi_open); }
};

// Operations on spans. The result contains the exact result for all operands in the given spans. Its ends are rounded
// outwards to `bits` bits.
Span span_of(const Fraction& x, slong bits);
Span negated(Span x);
Span magnitude_of(Span x);
Span sum_of(const Span& a, const Span& b, slong bits);
Span product_of(const Span& a, const Span& b, slong bits);
/// `b` must not contain zero.
Span quotient_of(const Span& a, const Span& b, slong bits);
/// `x` must not contain a negative number.
Span root_of(const Span& x, slong bits);

/// Converts a bounded span to a ball, and a ball to a span. The span of a ball that is not finite is unbounded.
void set_ball(Ball& out, const Span& x, slong bits);
Span span_of(const Ball& x, slong bits);

/// Limits `x` to the range of a function, [least, greatest]. `is_open` means that the function never reaches the two
/// bounds.
void clamp(Span& x, double least, double greatest, bool is_open);

bool is_surely_less(const Span& a, const Span& b);
bool is_surely_at_most(const Span& a, const Span& b);

}  // namespace macheps::study
