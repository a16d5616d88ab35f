// SPDX-License-Identifier: Apache-2.0
// Results that enclosures cannot give: results at NaN, infinities, zeros and poles, and exact rational results. Also
// the values of literals and constants.
#include "core/codec.hpp"
#include "experiments/study/eval/real_system.hpp"

#include <math.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace macheps::study {

namespace {

using Doubles = const std::vector<double>&;
template <double (*f)(double)>
double unary(Doubles x) {
    return f(x[0]);
}
template <double (*f)(double, double)>
double binary(Doubles x) {
    return f(x[0], x[1]);
}
double log_gamma(double x) {
    int sign = 0;  // std::lgamma would write the sign to a global variable, which all threads share
    return lgamma_r(x, &sign);
}

struct LibraryRow {
    Op op;
    double (*function)(Doubles);
};
/// Functions of the C library. They are used only for results that Annex F of the C standard prescribes (NaN,
/// infinities, zeros and integers) and to recognise multiples of pi / 4.
constexpr LibraryRow library[] = {{Op::add, [](Doubles x) { return x[0] + x[1]; }},
                                  {Op::mul, [](Doubles x) { return x[0] * x[1]; }},
                                  {Op::div, [](Doubles x) { return x[0] / x[1]; }},
                                  {Op::sqrt, unary<std::sqrt>},
                                  {Op::exp, unary<std::exp>},
                                  {Op::exp2, unary<std::exp2>},
                                  {Op::expm1, unary<std::expm1>},
                                  {Op::log, unary<std::log>},
                                  {Op::log2, unary<std::log2>},
                                  {Op::log10, unary<std::log10>},
                                  {Op::log1p, unary<std::log1p>},
                                  {Op::sin, unary<std::sin>},
                                  {Op::cos, unary<std::cos>},
                                  {Op::tan, unary<std::tan>},
                                  {Op::asin, unary<std::asin>},
                                  {Op::acos, unary<std::acos>},
                                  {Op::atan, unary<std::atan>},
                                  {Op::sinh, unary<std::sinh>},
                                  {Op::cosh, unary<std::cosh>},
                                  {Op::tanh, unary<std::tanh>},
                                  {Op::asinh, unary<std::asinh>},
                                  {Op::acosh, unary<std::acosh>},
                                  {Op::atanh, unary<std::atanh>},
                                  {Op::cbrt, unary<std::cbrt>},
                                  {Op::erf, unary<std::erf>},
                                  {Op::erfc, unary<std::erfc>},
                                  {Op::tgamma, unary<std::tgamma>},
                                  {Op::lgamma, unary<log_gamma>},
                                  {Op::pow, binary<std::pow>},
                                  {Op::atan2, binary<std::atan2>},
                                  {Op::hypot, binary<std::hypot>}};

bool is_one(const Real& x) { return x.is_exact() && x.exact.is_whole() && fmpz_is_pm1(x.exact.above()) != 0; }

/// Returns a double that represents `x` in a call of the C library. It has the properties of `x` that decide special
/// results: its sign, whether it is 0 or infinite, and whether |x| is below, equal to or above 1. If `is_exponent` is
/// true, the last property is replaced by whether x is an odd integer, an even integer or no integer.
double stand_in(const Real& x, bool is_exponent, bool needs_sign) {
    if (x.kind == Real::Kind::nan) return std::numeric_limits<double>::quiet_NaN();
    if (x.kind == Real::Kind::infinite) return x.is_negative ? -HUGE_VAL : HUGE_VAL;
    if (x.is_zero()) return x.is_negative ? -0.0 : 0.0;
    const int sign = x.sign();
    if (sign == 0 && needs_sign) throw Undecided{};
    double size = 1.5;
    if (is_exponent) {
        if (x.is_exact() && x.exact.is_whole()) size = fmpz_is_odd(x.exact.above()) != 0 ? 1 : 2;
    } else if (is_one(x)) {
        size = 1;
    } else if (x.is_exact()) {
        size = fmpz_cmpabs(x.exact.above(), x.exact.below()) < 0 ? 0.5 : 1.5;
    } else {
        const Span span = magnitude_of(x.span), one{Arf(1.0), Arf(1.0), false, false};
        if (is_surely_less(span, one)) {
            size = 0.5;
        } else if (!is_surely_less(one, span)) {
            return std::numeric_limits<double>::signaling_NaN();  // |x| may be below or above 1, see special_result
        }
    }
    return sign < 0 ? -size : size;
}

/// Returns `k` pi / 4.
Real quarter_turns(int k, slong bits) {
    Ball pi;
    arb_const_pi(pi.get(), bits);
    arb_mul_si(pi.get(), pi.get(), k, bits);
    arb_mul_2exp_si(pi.get(), pi.get(), -2);
    Real out;
    out.kind = Real::Kind::span;
    out.span = span_of(pi, bits);
    return out;
}

/// Finds the exponent if `x` is a power of `base`. Returns false if it is not.
bool find_exponent(const fmpz* x, ulong base, slong& exponent) {
    if (fmpz_sgn(x) <= 0) return false;
    exponent = fmpz_flog_ui(x, base);
    Integer power;
    fmpz_ui_pow_ui(power.get(), base, static_cast<ulong>(exponent));
    return fmpz_equal(power.get(), x) != 0;
}

bool rational_logarithm(const Fraction& x, ulong base, Real& out) {
    slong above = 0, below = 0;
    if (!find_exponent(x.above(), base, above) || !find_exponent(x.below(), base, below)) return false;
    Fraction exponent;
    fmpq_set_si(exponent.get(), above - below, 1);
    out = exact_real(std::move(exponent));
    return true;
}

/// Computes x^(1/n) and returns true if the root is rational.
bool rational_root(const Fraction& x, slong n, Fraction& out) {
    if (x.sign() < 0 && n % 2 == 0) return false;
    return fmpz_root(fmpq_numref(out.get()), x.above(), n) != 0 && fmpz_root(fmpq_denref(out.get()), x.below(), n) != 0;
}

bool rational_power(const Fraction& base, const Fraction& exponent, Real& out) {
    constexpr slong most = 1 << 20;
    if (base.sign() <= 0 || exponent.sign() == 0) return false;
    if (fmpz_cmp_si(exponent.below(), most) > 0 || fmpz_sizeinbase(exponent.above(), 2) > 40) return false;
    Fraction root = base;
    const slong degree = fmpz_get_si(exponent.below()), count = fmpz_get_si(exponent.above());
    if (degree > 1 && !rational_root(base, degree, root)) return false;
    slong above = 0, below = 0;
    if (find_exponent(root.above(), 2, above) && find_exponent(root.below(), 2, below)) {
        // A power of two is exact at any size. If it is too large for a fraction, it becomes a span of one number.
        out = {};
        out.kind = Real::Kind::span;
        arf_one(out.span.lo.get());
        Integer shift;
        fmpz_set_si(shift.get(), above - below);
        fmpz_mul_si(shift.get(), shift.get(), count);
        arf_mul_2exp_fmpz(out.span.lo.get(), out.span.lo.get(), shift.get());
        out.span.hi = out.span.lo;
        if (fmpz_bits(shift.get()) > 13) return true;
        Fraction power;
        arf_get_fmpq(power.get(), out.span.lo.get());
        out = exact_real(std::move(power));
        return true;
    }
    if (std::abs(count) > max_fraction_bits || root.bits() * std::abs(count) > max_fraction_bits) return false;
    Fraction power;
    fmpq_pow_si(power.get(), root.get(), count);
    out = exact_real(std::move(power));
    return true;
}

/// Parses a decimal number, a hexadecimal number with a `p` exponent, or a ratio of two numbers.
Fraction number_of(std::string_view text) {
    Fraction out;
    if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
        const Fraction above = number_of(text.substr(0, slash)), below = number_of(text.substr(slash + 1));
        fmpq_div(out.get(), above.get(), below.get());
        return out;
    }
    const bool is_negative = text.starts_with("-");
    if (is_negative || text.starts_with("+")) text.remove_prefix(1);
    const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
    if (is_hex) text.remove_prefix(2);
    slong exponent = 0;
    if (const std::size_t at = text.find_first_of(is_hex ? "pP" : "eE"); at != std::string_view::npos) {
        exponent = std::strtol(std::string(text.substr(at + 1)).c_str(), nullptr, 10);
        text = text.substr(0, at);
    }
    std::string digits(text);
    if (const std::size_t point = digits.find('.'); point != std::string::npos) {
        exponent -= static_cast<slong>(digits.size() - point - 1) * (is_hex ? 4 : 1);
        digits.erase(point, 1);
    }
    fmpz_set_str(fmpq_numref(out.get()), digits.c_str(), is_hex ? 16 : 10);
    Integer power;
    fmpz_ui_pow_ui(power.get(), is_hex ? 2 : 10, static_cast<ulong>(std::abs(exponent)));
    exponent < 0 ? fmpq_div_fmpz(out.get(), out.get(), power.get()) : fmpq_mul_fmpz(out.get(), out.get(), power.get());
    if (is_negative) fmpq_neg(out.get(), out.get());
    return out;
}

void two_over_root_pi(arb_t out, slong bits) {
    arb_const_sqrt_pi(out, bits);
    arb_ui_div(out, 2, out, bits);
}
/// Computes 1 / ln n.
void inverse_log(arb_t out, ulong n, slong bits) {
    arb_log_ui(out, n, bits);
    arb_inv(out, out, bits);
}
void pi_over(arb_t out, int shift, slong bits) {
    arb_const_pi(out, bits);
    arb_mul_2exp_si(out, out, shift);
}
void over_pi(arb_t out, int shift, slong bits) {
    arb_const_pi(out, bits);
    arb_inv(out, out, bits);
    arb_mul_2exp_si(out, out, shift);
}
void root_of_two(arb_t out, int shift, slong bits) {
    arb_sqrt_ui(out, 2, bits);
    arb_mul_2exp_si(out, out, shift);
}
struct ConstantRow {
    std::string_view name;
    void (*set)(arb_t out, slong bits);
};
constexpr ConstantRow constants[] = {{"PI", arb_const_pi},
                                     {"E", arb_const_e},
                                     {"LN2", arb_const_log2},
                                     {"LN10", arb_const_log10},
                                     {"LOG2E", [](arb_t out, slong bits) { inverse_log(out, 2, bits); }},
                                     {"LOG10E", [](arb_t out, slong bits) { inverse_log(out, 10, bits); }},
                                     {"PI_2", [](arb_t out, slong bits) { pi_over(out, -1, bits); }},
                                     {"PI_4", [](arb_t out, slong bits) { pi_over(out, -2, bits); }},
                                     {"M_1_PI", [](arb_t out, slong bits) { over_pi(out, 0, bits); }},
                                     {"M_2_PI", [](arb_t out, slong bits) { over_pi(out, 1, bits); }},
                                     {"M_2_SQRTPI", two_over_root_pi},
                                     {"SQRT2", [](arb_t out, slong bits) { root_of_two(out, 0, bits); }},
                                     {"SQRT1_2", [](arb_t out, slong bits) { root_of_two(out, -1, bits); }}};

}  // namespace

bool special_result(Op op, const std::vector<Real>& x, slong bits, Real& out) {
    const bool is_binary = x.size() == 2;
    if (op == Op::pow && x[1].is_zero()) {
        out = real_of(1);
        return true;
    }
    const auto has = [&](auto is) { return std::any_of(x.begin(), x.end(), is); };
    const bool has_special = has([](const Real&r) { return !r.is_number(); }),
               has_zero = has([](const Real&r) { return r.is_zero(); });
    const bool is_unit = (!is_binary && is_one(x[0])) || (op == Op::pow && is_one(x[0]) && x[0].exact.sign() > 0),
               is_pole = (op == Op::tgamma || op == Op::lgamma) && x[0].is_exact() && x[0].exact.is_whole() &&
                         x[0].exact.sign() < 0;
    const bool asks_zero = op != Op::add && op != Op::hypot && has_zero;
    if (!has_special && !asks_zero && !is_unit && !is_pole) return false;
    const auto row =
        std::find_if(std::begin(library), std::end(library), [&](const LibraryRow& r) { return r.op == op; });
    if (row == std::end(library)) return false;
    std::vector<double> stand_ins;
    for (std::size_t i = 0; i < x.size(); ++i) {
        stand_ins.push_back(
            is_pole ? -1 : stand_in(x[i], op == Op::pow && i == 1, is_binary && op != Op::add && op != Op::hypot));
    }
    // Whether |x| is below or above 1 matters only for x^inf. In all other cases, only the sign of x matters.
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (stand_ins[i] == stand_ins[i] || x[i].kind == Real::Kind::nan) continue;
        if (op == Op::pow && i == 0 && x[1].kind == Real::Kind::infinite) throw Undecided{};
        stand_ins[i] = x[i].sign() < 0 ? -1.5 : 1.5;
    }
    // With the base -0 or -inf, the result depends on whether y is an odd integer, which an enclosure cannot show.
    if (op == Op::pow && x[1].kind == Real::Kind::span && (x[0].is_negative || x[0].sign() < 0)) throw Undecided{};
    const double result = row->function(stand_ins);
    const bool is_angle = op == Op::asin || op == Op::acos || op == Op::atan || op == Op::atan2;
    if (result == std::rint(result) || result != result) {
        out = real_of(result);
        return true;
    }
    if (!is_angle) return false;
    out = quarter_turns(static_cast<int>(std::lround(result * 4 / M_PI)), bits);
    return true;
}

bool rational_result(Op op, const std::vector<Real>& x, Real& out) {
    if (std::any_of(x.begin(), x.end(), [](const Real& r) { return !r.is_exact(); })) return false;
    const Fraction& a = x[0].exact;
    switch (op) {
        case Op::sqrt:
        case Op::cbrt: {
            Fraction root;
            if (!rational_root(a, op == Op::sqrt ? 2 : 3, root)) return false;
            out = exact_real(std::move(root));
            return true;
        }
        case Op::log2:
            return rational_logarithm(a, 2, out);
        case Op::log10:
            return rational_logarithm(a, 10, out);
        case Op::exp2: {
            Fraction two;
            fmpq_set_si(two.get(), 2, 1);
            return a.is_whole() && rational_power(two, a, out);
        }
        case Op::pow:
            return rational_power(a, x[1].exact, out);
        case Op::lgamma:
            if (!a.is_whole() || fmpz_cmp_si(a.above(), 2) != 0) return false;
            out = exact_real({});
            return true;
        case Op::tgamma: {
            constexpr slong most = 1000;
            if (!a.is_whole() || a.sign() <= 0 || fmpz_cmp_si(a.above(), most) > 0) return false;
            Fraction product;
            fmpz_fac_ui(fmpq_numref(product.get()), static_cast<ulong>(fmpz_get_si(a.above()) - 1));
            out = exact_real(std::move(product));
            return true;
        }
        default:
            return false;
    }
}

Real RealSystem::literal(const Node& node) {
    spend({}, false);
    if (node.kind == Node::Kind::number) {
        const std::size_t slash = node.text.find('/');
        if (slash != std::string::npos) {
            return apply(Op::div, {exact_real(number_of(std::string_view(node.text).substr(0, slash))),
                                   exact_real(number_of(std::string_view(node.text).substr(slash + 1)))});
        }
        return settled(number_of(node.text));
    }
    for (const ConstantRow& row : constants) {
        if (row.name != node.text) continue;
        Ball value;
        row.set(value.get(), bits_);
        Real out;
        out.kind = Real::Kind::span;
        out.span = span_of(value, bits_);
        return out;
    }
    return node.text == "INFINITY" ? real_of(HUGE_VAL) : Real{};
}

}  // namespace macheps::study
