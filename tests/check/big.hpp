// SPDX-License-Identifier: Apache-2.0
// A number class: MPFR numbers with 200 bits, and the operators and functions that the oracles of tests use.
#pragma once
#include <mpfr.h>

namespace macheps::test {

class Big {
  public:
    static constexpr mpfr_prec_t bits = 200;

    Big(double x = 0) { mpfr_init2(x_, bits), mpfr_set_d(x_, x, MPFR_RNDN); }  // NOLINT: converts implicitly
    explicit Big(int x) : Big(static_cast<double>(x)) {}
    explicit Big(const char* text) { mpfr_init2(x_, bits), mpfr_set_str(x_, text, 10, MPFR_RNDN); }
    Big(const Big& other) { mpfr_init2(x_, bits), mpfr_set(x_, other.x_, MPFR_RNDN); }
    Big& operator=(const Big& other) {
        mpfr_set(x_, other.x_, MPFR_RNDN);
        return *this;
    }
    ~Big() { mpfr_clear(x_); }

    double value() const { return mpfr_get_d(x_, MPFR_RNDN); }
    bool is_finite() const { return mpfr_number_p(x_) != 0; }

    friend Big operator+(const Big& x, const Big& y) { return two(mpfr_add, x, y); }
    friend Big operator-(const Big& x, const Big& y) { return two(mpfr_sub, x, y); }
    friend Big operator*(const Big& x, const Big& y) { return two(mpfr_mul, x, y); }
    friend Big operator/(const Big& x, const Big& y) { return two(mpfr_div, x, y); }
    friend Big operator-(const Big& x) { return one(mpfr_neg, x); }
    friend bool operator<(const Big& x, const Big& y) { return mpfr_less_p(x.x_, y.x_) != 0; }
    friend Big exp(const Big& x) { return one(mpfr_exp, x); }
    friend Big log(const Big& x) { return one(mpfr_log, x); }
    friend Big sqrt(const Big& x) { return one(mpfr_sqrt, x); }
    friend Big tanh(const Big& x) { return one(mpfr_tanh, x); }
    friend Big erf(const Big& x) { return one(mpfr_erf, x); }
    friend Big abs(const Big& x) { return one(mpfr_abs, x); }
    static Big pi() {
        Big x;
        mpfr_const_pi(x.x_, MPFR_RNDN);
        return x;
    }

  private:
    template <class Function>
    static Big two(Function function, const Big& x, const Big& y) {
        Big z;
        function(z.x_, x.x_, y.x_, MPFR_RNDN);
        return z;
    }
    template <class Function>
    static Big one(Function function, const Big& x) {
        Big z;
        function(z.x_, x.x_, MPFR_RNDN);
        return z;
    }

    mpfr_t x_;
};

}  // namespace macheps::test
