// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/eval_interval.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace macheps::analysis {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

double below(double x) { return std::nextafter(x, -infinite); }
double above(double x) { return std::nextafter(x, infinite); }
/// Of a function's double: 2^-44 of it, and the least number.
double lower(double x) { return std::isinf(x) ? (x > 0 ? 0x1.fffffffffffffp+1023 : x) : below(x - std::fabs(x) * 0x1p-44); }
double upper(double x) { return std::isinf(x) ? (x > 0 ? x : -0x1.fffffffffffffp+1023) : above(x + std::fabs(x) * 0x1p-44); }

Span rounded_sum(double a, double b, bool is_lower) {
    const double s = a + b, of_b = s - a, rest = (a - (s - of_b)) + (b - of_b);
    if (rest == 0) return {s, s};
    return is_lower ? Span{below(s), s} : Span{s, above(s)};
}

Span sum_of(const Span& a, const Span& b) { return {rounded_sum(a.lo, b.lo, true).lo, rounded_sum(a.hi, b.hi, false).hi}; }

/// [min, max] of the corners; exact products stay points.
Span product_of(const Span& a, const Span& b) {
    Span out{infinite, -infinite};
    for (const double x : {a.lo, a.hi}) {
        for (const double y : {b.lo, b.hi}) {
            const double p = x * y;
            const bool is_exact = std::fma(x, y, -p) == 0 && (p == 0 ? x == 0 || y == 0 : std::fabs(p) > 0x1p-900);
            out.lo = std::min(out.lo, is_exact ? p : below(p));
            out.hi = std::max(out.hi, is_exact ? p : above(p));
            if (p != p) return {p, p};
        }
    }
    return out;
}

Span quotient_of(const Span& a, const Span& b) {
    Span out{infinite, -infinite};
    for (const double x : {a.lo, a.hi}) {
        for (const double y : {b.lo, b.hi}) {
            const double q = x / y;
            const bool is_exact = std::fma(q, y, -x) == 0 && std::fabs(x) > 0x1p-900;
            out.lo = std::min(out.lo, is_exact ? q : below(q));
            out.hi = std::max(out.hi, is_exact ? q : above(q));
            if (q != q) return {q, q};
        }
    }
    return out;
}

struct Monotone {
    Op op;
    double (*function)(double);
    double least, greatest;  ///< where the function is real and increasing, both ends left out where it is infinite there
};
constexpr Monotone monotone[] = {
    {Op::exp, std::exp, -infinite, infinite},     {Op::exp2, std::exp2, -infinite, infinite},
    {Op::expm1, std::expm1, -infinite, infinite}, {Op::log, std::log, 0x1p-1074, infinite},
    {Op::log2, std::log2, 0x1p-1074, infinite},   {Op::log10, std::log10, 0x1p-1074, infinite},
    {Op::log1p, std::log1p, -0x1.fffffffffffffp-1, infinite}, {Op::asin, std::asin, -1, 1},
    {Op::atan, std::atan, -infinite, infinite},   {Op::sinh, std::sinh, -infinite, infinite},
    {Op::tanh, std::tanh, -infinite, infinite},   {Op::asinh, std::asinh, -infinite, infinite},
    {Op::acosh, std::acosh, 1, infinite},         {Op::atanh, std::atanh, -0x1.fffffffffffffp-1, 0x1.fffffffffffffp-1},
    {Op::cbrt, std::cbrt, -infinite, infinite},
};

Span absolute(const Span& x) {
    if (x.lo >= 0) return x;
    if (x.hi <= 0) return {-x.hi, -x.lo};
    return {0, std::max(-x.lo, x.hi)};
}

}  // namespace

Span IntervalSystem::literal(const Node& node) {
    if (node.kind == Node::Kind::constant) {
        struct Constant {
            std::string_view name;
            double near;
        };
        constexpr Constant constants[] = {
            {"PI", 0x1.921fb54442d18p+1},      {"E", 0x1.5bf0a8b145769p+1},       {"LN2", 0x1.62e42fefa39efp-1},
            {"LN10", 0x1.26bb1bbb55516p+1},    {"LOG2E", 0x1.71547652b82fep+0},   {"LOG10E", 0x1.bcb7b1526e50ep-2},
            {"PI_2", 0x1.921fb54442d18p+0},    {"PI_4", 0x1.921fb54442d18p-1},    {"M_1_PI", 0x1.45f306dc9c883p-2},
            {"M_2_PI", 0x1.45f306dc9c883p-1},  {"M_2_SQRTPI", 0x1.20dd750429b6dp+0}, {"SQRT2", 0x1.6a09e667f3bcdp+0},
            {"SQRT1_2", 0x1.6a09e667f3bcdp-1}};
        for (const Constant& each : constants) {
            if (each.name == node.text) return {below(each.near), above(each.near)};
        }
        return fail();
    }
    const std::size_t slash = node.text.find('/');
    if (slash != std::string::npos) {
        const double a = std::strtod(node.text.c_str(), nullptr), b = std::strtod(node.text.c_str() + slash + 1, nullptr);
        if (b == 0 || std::fabs(a) > 0x1p53 || std::fabs(b) > 0x1p53) return fail();
        return quotient_of({a, a}, {b, b});
    }
    const double x = std::strtod(node.text.c_str(), nullptr);
    const bool is_short = node.text.size() <= 15 && node.text.find_first_of(".eExXpP") == std::string::npos;
    if (!std::isfinite(x)) return fail();
    return is_short ? Span{x, x} : Span{below(x), above(x)};
}

Span IntervalSystem::elementary(Op op, const std::vector<Span>& x) {
    const Span& a = x[0];
    for (const Monotone& row : monotone) {
        if (row.op != op) continue;
        if (a.lo < row.least || a.hi > row.greatest) return fail();
        Span out{lower(row.function(a.lo)), upper(row.function(a.hi))};
        // None of these changes its sign but at the same place as its double; where powers underflow they stay above 0.
        if (row.function(a.lo) >= 0) out.lo = std::max(out.lo, 0.0);
        if (row.function(a.hi) <= 0 && op != Op::exp && op != Op::exp2) out.hi = std::min(out.hi, 0.0);
        return out;
    }
    const double width = a.hi - a.lo;
    switch (op) {
        case Op::sin:
        case Op::cos: {
            if (!(width < 0.125)) return fail();
            const double y = op == Op::sin ? std::sin(a.lo) : std::cos(a.lo);
            return {below(lower(y) - width), above(upper(y) + width)};
        }
        case Op::tan: {
            const double y = std::tan(a.lo), slope = 1 + y * y;
            // Within this distance the slope does not double.
            if (width * (1 + std::fabs(y)) > 0.0625) return fail();
            return {below(lower(y) - 2 * slope * width), above(upper(y) + 2 * slope * width)};
        }
        case Op::acos:
            if (a.lo < -1 || a.hi > 1) return fail();
            return {std::max(0.0, lower(std::acos(a.hi))), upper(std::acos(a.lo))};
        case Op::cosh: {
            const Span size = absolute(a);
            return {lower(std::cosh(size.lo)), upper(std::cosh(size.hi))};
        }
        case Op::hypot: {
            const Span p = absolute(a), q = absolute(x[1]);
            return {std::max(0.0, lower(std::hypot(p.lo, q.lo))), upper(std::hypot(p.hi, q.hi))};
        }
        case Op::atan2: {
            if (!a.is_point() || !x[1].is_point() || (a.lo == 0 && x[1].lo == 0)) return fail();
            const double y = std::atan2(a.lo, x[1].lo);
            return y == 0 ? fail() : Span{lower(y), upper(y)};
        }
        case Op::pow: {
            const Span& y = x[1];
            if (a.is_point() && y.is_point() && a.lo != 0) {
                const double p = std::pow(a.lo, y.lo);
                if (p != p) return fail();
                return p >= 0 ? Span{std::max(0.0, lower(p)), upper(p)} : Span{lower(p), std::min(0.0, upper(p))};
            }
            if (a.lo <= 0) return fail();
            Span out{infinite, 0};
            for (const double base : {a.lo, a.hi}) {
                for (const double exponent : {y.lo, y.hi}) {
                    out.lo = std::min(out.lo, lower(std::pow(base, exponent)));
                    out.hi = std::max(out.hi, upper(std::pow(base, exponent)));
                }
            }
            out.lo = std::max(out.lo, 0.0);
            return out;
        }
        default: return fail();
    }
}

Span IntervalSystem::apply(Op op, const std::vector<Span>& x) {
    if (failed_) return {};
    const Span& a = x[0];
    Span out{};
    const auto minus = [](const Span& s) { return Span{-s.hi, -s.lo}; };
    switch (op) {
        case Op::add: out = sum_of(a, x[1]); break;
        case Op::sub: out = sum_of(a, minus(x[1])); break;
        case Op::mul: out = product_of(a, x[1]); break;
        case Op::div:
            if (x[1].lo <= 0 && x[1].hi >= 0) return fail();
            out = quotient_of(a, x[1]);
            if (a.lo >= 0 && x[1].lo > 0) out.lo = std::max(out.lo, 0.0);
            break;
        case Op::neg: out = minus(a); break;
        case Op::fma: out = sum_of(product_of(a, x[1]), x[2]); break;
        case Op::sqrt: {
            if (a.lo < 0) return fail();
            const double lo = std::sqrt(a.lo), hi = std::sqrt(a.hi);
            out = {std::fma(lo, lo, -a.lo) == 0 ? lo : std::max(0.0, below(lo)), std::fma(hi, hi, -a.hi) == 0 ? hi : above(hi)};
            break;
        }
        case Op::fabs: out = absolute(a); break;
        case Op::fmin: out = {std::min(a.lo, x[1].lo), std::min(a.hi, x[1].hi)}; break;
        case Op::fmax: out = {std::max(a.lo, x[1].lo), std::max(a.hi, x[1].hi)}; break;
        case Op::floor: out = {std::floor(a.lo), std::floor(a.hi)}; break;
        case Op::ceil: out = {std::ceil(a.lo), std::ceil(a.hi)}; break;
        case Op::trunc: out = {std::trunc(a.lo), std::trunc(a.hi)}; break;
        case Op::round: out = {std::round(a.lo), std::round(a.hi)}; break;
        default:
            if (!is_elementary(op)) return fail();
            out = elementary(op, x);
    }
    // A NaN, and what is beyond every double on both sides.
    if (!(out.lo <= out.hi) || out.lo == infinite || out.hi == -infinite) return fail();
    return out;
}

bool IntervalSystem::compare(Op op, const Span& a, const Span& b) {
    switch (op) {
        case Op::less:
            if (a.hi < b.lo) return true;
            if (a.lo >= b.hi) return false;
            break;
        case Op::less_equal:
            if (a.hi <= b.lo) return true;
            if (a.lo > b.hi) return false;
            break;
        case Op::greater: return compare(Op::less, b, a);
        case Op::greater_equal: return compare(Op::less_equal, b, a);
        case Op::equal:
            if (a.is_point() && b.is_point()) return a.lo == b.lo;
            if (a.hi < b.lo || b.hi < a.lo) return false;
            break;
        case Op::unequal: return !compare(Op::equal, a, b);
        default: break;
    }
    failed_ = true;
    return false;
}

bool IntervalSystem::test(Op op, const Span& x) {
    if (op == Op::is_nan || op == Op::is_inf) return false;  // an exact value is a number
    if (op == Op::is_finite) return true;
    if (x.lo > 0) return false;
    if (x.hi < 0) return true;
    failed_ = true;
    return false;
}

}  // namespace macheps::analysis
