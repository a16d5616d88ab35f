// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/eval/format.hpp"

#include "core/arithmetic.hpp"
#include "core/math.hpp"
#include "core/math64.hpp"
#include "experiments/study/eval/enclosure.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::study {

namespace {

std::uint64_t code_of(const Format& f, double x) { return encode64(f, x, Round::nearest_even, Overflow::nonsaturate); }

/// Returns whether an exact value is known to be zero. `compute` returns this value, rounded to fp64 in the given mode.
template <class Compute>
bool is_known_zero(const Compute& compute) {
    return compute(Round::up) == 0.0 && compute(Round::down) == 0.0;
}

}  // namespace

double FormatSystem::flushed(double x) const {
    return flushes_ && std::fabs(x) < Format::power_of_two(format_.emin()) ? std::copysign(0.0, x) : x;
}

/// Flushes the rounded result of an operation, and records the cause of a zero (see has_underflowed).
double FormatSystem::finished(double rounded, bool is_exact_zero, const std::vector<double>& operands) {
    const double result = flushed(rounded);
    if (result != 0) return result;
    if (!is_exact_zero) {
        has_underflowed_ = true;
    } else if (std::none_of(operands.begin(), operands.end(), [](double x) { return x == 0; })) {
        has_underflowed_ = false;
    }
    return result;
}

double FormatSystem::literal(const Node& node) {
    // Constants use no random words. They are rounded to nearest unless a context sets a mode.
    const RandomBits random{0x80000000u, 32};
    const double value = flushed(known(enclosed_literal(node, format_, literal_mode_, random)));
    if (value == 0 && !is_known_zero([&](Round mode) { return enclosed_literal(node, fp64, mode, random); }))
        has_underflowed_ = true;
    return value;
}

double FormatSystem::known(std::optional<double> value) {
    is_unresolved_ = is_unresolved_ || !value;
    return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

bool has_own_function(Op op, const Format&) {
    return !is_elementary(op) || op == Op::exp || op == Op::log || op == Op::sin || op == Op::cos || op == Op::tanh;
}

/// Computes the function with core/math64.hpp if the format is fp64, and otherwise in fp32 with core/math.hpp. Then
/// rounds the result to the format.
double FormatSystem::own(Op op, double x) {
    const auto narrow = static_cast<float>(x);
    double y = 0;
    switch (op) {
        case Op::exp:
            y = format_ == fp64 ? math::exp(x) : double{math::exp(narrow)};
            break;
        case Op::log:
            y = format_ == fp64 ? math::log(x) : double{math::log(narrow)};
            break;
        case Op::sin:
            y = format_ == fp64 ? math::sin(x) : double{math::sin(narrow)};
            break;
        case Op::cos:
            y = format_ == fp64 ? math::cos(x) : double{math::cos(narrow)};
            break;
        default:
            y = double{math::tanh(narrow)};
            break;
    }
    return decode64(format_, encode64(format_, y, mode_, Overflow::nonsaturate, next()));
}

double FormatSystem::apply(Op op, const std::vector<double>& x) {
    const auto run = [&](Operation operation) {
        const auto done_in = [&](const Format& format, Round mode, RandomBits random) {
            const auto code = [&](std::size_t i) { return i < x.size() ? code_of(format, x[i]) : 0; };
            return macheps::op(operation, format, code(0), code(1), code(2), mode, Overflow::nonsaturate, random);
        };
        const bool has_others =
            is_mixed_ && format_.precision <= 51 && std::any_of(x.begin(), x.end(), [&](double each) {
                return std::isfinite(each) && decode64(format_, code_of(format_, each)) != each;
            });
        if (!has_others) {
            const Rounded done = done_in(format_, mode_, next());
            const double rounded = decode64(format_, done.bits);
            return finished(rounded, rounded == 0 && !done.flags.inexact, x);
        }
        // The result is rounded to odd in fp64 and then rounded to the format. Because fp64 has at least two more bits
        // than the format, this equals a single rounding of the exact result.
        const double odd = decode64(fp64, done_in(fp64, Round::to_odd, {}).bits);
        return finished(decode64(format_, encode64(format_, odd, mode_, Overflow::nonsaturate, next())), odd == 0, x);
    };
    // Used for operations whose result is one of their operands, possibly with another sign. The result is rounded only
    // if the operand may have another format.
    const auto exact = [&](double value) { return is_mixed_ ? cast(value) : value; };
    const auto coded = [&](double value) {
        const double same = decode64(format_, code_of(format_, value));
        // An integer above the operand may not fit the format. For example, 15.5 becomes 16 in a format whose largest
        // number is 15.5.
        return is_mixed_ || (std::isfinite(value) && same != value) ? cast(value) : same;
    };
    const double a = x[0];
    switch (op) {
        case Op::add:
            return run(Operation::add);
        case Op::sub:
            return run(Operation::sub);
        case Op::mul:
            return run(Operation::mul);
        case Op::div:
            return run(Operation::div);
        case Op::fma:
            return run(Operation::fma);
        case Op::sqrt:
            return run(Operation::sqrt);
        case Op::neg:
            return coded(-a);
        case Op::fabs:
            return exact(std::fabs(a));
        case Op::fmin:
            return exact(a != a || x[1] < a ? x[1] : a);
        case Op::fmax:
            return exact(a != a || a < x[1] ? x[1] : a);
        case Op::fdim:
            return a != a || x[1] != x[1] ? a + x[1] : a > x[1] ? run(Operation::sub) : 0;
        case Op::copysign:
            return coded(std::copysign(a, x[1]));
        case Op::floor:
            return coded(std::floor(a));
        case Op::ceil:
            return coded(std::ceil(a));
        case Op::trunc:
            return coded(std::trunc(a));
        case Op::round:
            return coded(std::round(a));
        case Op::nearbyint:
            return coded(std::nearbyint(a));
        default:
            return function(op, x);
    }
}

double FormatSystem::function(Op op, const std::vector<double>& x) {
    const double value =
        functions_ == Functions::correct ? known(enclosed_call(op, x, format_, mode_, next())) : own(op, x[0]);
    const auto is_exact_zero = [&] {
        return is_known_zero([&](Round mode) { return enclosed_call(op, x, fp64, mode, {}); });
    };
    return finished(value, flushed(value) == 0 && is_exact_zero(), x);
}

double FormatSystem::cast(double x) {
    return finished(decode64(format_, encode64(format_, x, mode_, Overflow::nonsaturate, next())), x == 0, {x});
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
        case Op::less:
            return a < b;
        case Op::less_equal:
            return a <= b;
        case Op::greater:
            return a > b;
        case Op::greater_equal:
            return a >= b;
        case Op::equal:
            return a == b;
        default:
            return a != b;
    }
}

bool FormatSystem::test(Op op, double x) const {
    switch (op) {
        case Op::is_nan:
            return x != x;
        case Op::is_inf:
            return std::isinf(x);
        case Op::is_finite:
            return std::isfinite(x);
        case Op::is_normal:
            return std::isfinite(x) && std::fabs(x) >= Format::power_of_two(format_.emin());
        default:
            return std::signbit(x);
    }
}

}  // namespace macheps::study
