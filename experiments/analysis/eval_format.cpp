// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/eval_format.hpp"

#include "core/arithmetic.hpp"
#include "core/math.hpp"
#include "core/math64.hpp"
#include "experiments/analysis/eval_interval.hpp"
#include "experiments/analysis/eval_walk.hpp"
#include "experiments/analysis/eval_wide.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::analysis {

namespace {

std::uint64_t code_of(const Format& f, double x) { return encode64(f, x, Round::nearest_even, Overflow::nonsaturate); }

/// fp64 itself cannot tell an exact interval from one that rounds to it, so both ends are asked.
std::optional<double> rounded_span(const Format& f, const Span& span, Round mode, RandomBits random) {
    if (f == fp64 && !span.is_point()) return std::nullopt;
    const double lo = decode64(f, encode64(f, span.lo, mode, Overflow::nonsaturate, random)),
                 hi = decode64(f, encode64(f, std::isinf(span.hi) ? 0x1.fffffffffffffp+1023 : span.hi, mode,
                                           Overflow::nonsaturate, random));
    const bool is_same = lo == hi || (lo != lo && hi != hi);
    return is_same ? std::optional(lo) : std::nullopt;
}

struct MathFunction {
    Op op;
    double (*function)(const std::vector<double>& x);
};
template <double (*f)(double)>
double unary(const std::vector<double>& x) {
    return f(x[0]);
}
template <double (*f)(double, double)>
double binary(const std::vector<double>& x) {
    return f(x[0], x[1]);
}
/// What the C library gives where it is exact: NaN, infinite arguments, poles, zeros.
constexpr MathFunction math_functions[] = {
    {Op::exp, unary<std::exp>},     {Op::exp2, unary<std::exp2>},   {Op::expm1, unary<std::expm1>},
    {Op::log, unary<std::log>},     {Op::log2, unary<std::log2>},   {Op::log10, unary<std::log10>},
    {Op::log1p, unary<std::log1p>}, {Op::sin, unary<std::sin>},     {Op::cos, unary<std::cos>},
    {Op::tan, unary<std::tan>},     {Op::asin, unary<std::asin>},   {Op::acos, unary<std::acos>},
    {Op::atan, unary<std::atan>},   {Op::sinh, unary<std::sinh>},   {Op::cosh, unary<std::cosh>},
    {Op::tanh, unary<std::tanh>},   {Op::asinh, unary<std::asinh>}, {Op::acosh, unary<std::acosh>},
    {Op::atanh, unary<std::atanh>}, {Op::cbrt, unary<std::cbrt>},   {Op::pow, binary<std::pow>},
    {Op::atan2, binary<std::atan2>}, {Op::hypot, binary<std::hypot>}, {Op::fmod, binary<std::fmod>}};

double library_value(Op op, const std::vector<double>& x) {
    for (const MathFunction& row : math_functions) {
        if (row.op == op) return row.function(x);
    }
    return std::numeric_limits<double>::quiet_NaN();
}

bool has_pole(Op op, const std::vector<double>& x) {
    switch (op) {
        case Op::log:
        case Op::log2:
        case Op::log10: return x[0] == 0;
        case Op::log1p: return x[0] == -1;
        case Op::atanh: return std::fabs(x[0]) == 1;
        case Op::pow: return x[0] == 0;
        default: return false;
    }
}

}  // namespace

double FormatSystem::flushed(double x) const {
    return flushes_ && std::fabs(x) < Format::power_of_two(format_.emin()) ? std::copysign(0.0, x) : x;
}

double FormatSystem::rounded(const Unpacked& x, RandomBits random) const {
    return decode64(format_, detail::encode_unpacked(format_, x, mode_, Overflow::nonsaturate, random) << format_.padding);
}

double FormatSystem::literal(const Node& node) {
    IntervalSystem interval;
    const Span span = interval.literal(node);
    const RandomBits random{0x80000000u, 32};  // constants are no operation: they draw nothing, and are rounded to nearest unless a context says how
    if (!interval.has_failed()) {
        if (const auto near = rounded_span(format_, span, literal_mode_, random)) return flushed(*near);
    }
    const Unpacked value = wide_literal(node, 0).value;
    return flushed(decode64(
        format_, detail::encode_unpacked(format_, value, literal_mode_, Overflow::nonsaturate, random) << format_.padding));
}

/// Intervals first, then more and more digits.
double FormatSystem::correct(Op op, const std::vector<double>& x) {
    const double near = library_value(op, x);
    const RandomBits random = next();
    bool is_finite = true;
    for (const double each : x) is_finite = is_finite && std::isfinite(each);
    if (near != near) return decode64(format_, code_of(format_, std::numeric_limits<double>::quiet_NaN()));
    if (near == 0 && op != Op::fmod) {
        // Zeros of the functions, and underflows, which are no zeros.
        const bool is_zero = !is_finite || x[0] == 0 || op == Op::log || op == Op::log2 || op == Op::log10 || op == Op::acos ||
                             op == Op::acosh || (op == Op::pow && x[0] == 0);
        if (is_zero) return decode64(format_, code_of(format_, near));
    }
    if (std::isinf(near) && (!is_finite || has_pole(op, x))) return decode64(format_, code_of(format_, near));
    if (op == Op::fmod) return decode64(format_, encode64(format_, near, mode_, Overflow::nonsaturate, random));  // exact
    std::vector<Span> spans;
    for (const double each : x) spans.push_back({each, each});
    IntervalSystem interval;
    const Span span = is_finite ? interval.apply(op, spans) : Span{std::nextafter(near, -HUGE_VAL), std::nextafter(near, HUGE_VAL)};
    if (!interval.has_failed()) {
        if (const auto value = rounded_span(format_, span, mode_, random)) return *value;
    }
    double before = 0;
    for (int precision = 0; precision < 3; ++precision) {
        const double value = rounded(wide_call(op, x, precision).value, random);
        if (precision > 0 && (value == before || (value != value && before != before))) return value;
        before = value;
    }
    return before;
}

bool has_own_function(Op op, const Format&) {
    return !is_elementary(op) || op == Op::exp || op == Op::log || op == Op::sin || op == Op::cos || op == Op::tanh;
}

/// core/math.hpp in fp32, core/math64.hpp for fp64, rounded once more.
double FormatSystem::own(Op op, double x) {
    const auto narrow = static_cast<float>(x);
    double y = 0;
    switch (op) {
        case Op::exp: y = format_ == fp64 ? math::exp(x) : double{math::exp(narrow)}; break;
        case Op::log: y = format_ == fp64 ? math::log(x) : double{math::log(narrow)}; break;
        case Op::sin: y = format_ == fp64 ? math::sin(x) : double{math::sin(narrow)}; break;
        case Op::cos: y = format_ == fp64 ? math::cos(x) : double{math::cos(narrow)}; break;
        default: y = double{math::tanh(narrow)}; break;
    }
    return decode64(format_, encode64(format_, y, mode_, Overflow::nonsaturate, next()));
}

double FormatSystem::apply(Op op, const std::vector<double>& x) {
    const auto run = [&](Operation operation) {
        const auto done_in = [&](const Format& format, Round mode, RandomBits random) {
            const auto code = [&](std::size_t i) { return i < x.size() ? code_of(format, x[i]) : 0; };
            return decode64(format, macheps::op(operation, format, code(0), code(1), code(2), mode, Overflow::nonsaturate, random).bits);
        };
        const bool has_others = is_mixed_ && format_.precision <= 51 && std::any_of(x.begin(), x.end(), [&](double each) {
            return std::isfinite(each) && decode64(format_, code_of(format_, each)) != each;
        });
        if (!has_others) return done_in(format_, mode_, next());
        // Rounded to odd with two digits more than the format's at least, a result rounds once more as the exact one would.
        return decode64(format_, encode64(format_, done_in(fp64, Round::to_odd, {}), mode_, Overflow::nonsaturate, next()));
    };
    // What is exact of a number of this format, and rounded of another's.
    const auto exact = [&](double value) { return is_mixed_ ? cast(value) : value; };
    const auto coded = [&](double value) { return is_mixed_ ? cast(value) : decode64(format_, code_of(format_, value)); };
    const double a = x[0];
    switch (op) {
        case Op::add: return flushed(run(Operation::add));
        case Op::sub: return flushed(run(Operation::sub));
        case Op::mul: return flushed(run(Operation::mul));
        case Op::div: return flushed(run(Operation::div));
        case Op::fma: return flushed(run(Operation::fma));
        case Op::sqrt: return flushed(run(Operation::sqrt));
        case Op::neg: return coded(-a);
        case Op::fabs: return exact(std::fabs(a));
        case Op::fmin: return exact(a != a || x[1] < a ? x[1] : a);
        case Op::fmax: return exact(a != a || a < x[1] ? x[1] : a);
        case Op::fdim: return a != a || x[1] != x[1] ? a + x[1] : a > x[1] ? flushed(run(Operation::sub)) : 0;
        case Op::copysign: return coded(std::copysign(a, x[1]));
        case Op::floor: return coded(std::floor(a));
        case Op::ceil: return coded(std::ceil(a));
        case Op::trunc: return coded(std::trunc(a));
        case Op::round: return coded(std::round(a));
        case Op::nearbyint: return coded(std::nearbyint(a));
        default: return flushed(functions_ == Functions::correct ? correct(op, x) : own(op, a));
    }
}

double FormatSystem::cast(double x) {
    return flushed(decode64(format_, encode64(format_, x, mode_, Overflow::nonsaturate, next())));
}

void FormatSystem::enter(const RoundingContext& context) {
    outside_.push_back({format_, mode_, literal_mode_});
    is_mixed_ = true;
    format_ = context.format.value_or(format_);
    mode_ = context.round.value_or(mode_);
    literal_mode_ = context.round.value_or(literal_mode_);
}

void FormatSystem::leave() {
    format_ = outside_.back().format;
    mode_ = outside_.back().mode;
    literal_mode_ = outside_.back().literal_mode;
    outside_.pop_back();
}

bool FormatSystem::compare(Op op, double a, double b) const {
    switch (op) {
        case Op::less: return a < b;
        case Op::less_equal: return a <= b;
        case Op::greater: return a > b;
        case Op::greater_equal: return a >= b;
        case Op::equal: return a == b;
        default: return a != b;
    }
}

bool FormatSystem::test(Op op, double x) const {
    switch (op) {
        case Op::is_nan: return x != x;
        case Op::is_inf: return std::isinf(x);
        case Op::is_finite: return std::isfinite(x);
        default: return std::signbit(x);
    }
}

std::optional<FormulaReference> reference_value(const Expression& expression, const Format& format, const std::vector<double>& inputs) {
    IntervalSystem interval;
    std::vector<Span> spans;
    for (const double x : inputs) spans.push_back({x, x});
    const auto made = [&](double value, double near) {
        return FormulaReference{.code = code_of(format, value), .near = near, .is_nan = value != value};
    };
    const Span span = Walk(interval, expression).value(spans);
    if (!interval.has_failed()) {
        const RandomBits none{};
        if (const auto value = rounded_span(format, span, Round::nearest_even, none)) {
            return made(*value, span.lo + (std::isinf(span.hi) ? 0 : (span.hi - span.lo) / 2));
        }
    }
    std::optional<FormulaReference> before;
    for (int precision = 0; precision < 3; ++precision) {
        const WideResult wide = wide_value(expression, inputs, precision);
        const std::uint64_t bits =
            detail::encode_unpacked(format, wide.value, Round::nearest_even, Overflow::nonsaturate, {}) << format.padding;
        const FormulaReference now = made(decode64(format, bits), wide.near);
        if (before && before->is_nan == now.is_nan && (now.is_nan || before->code == now.code)) return now;
        before = now;
    }
    return std::nullopt;
}

}  // namespace macheps::analysis
