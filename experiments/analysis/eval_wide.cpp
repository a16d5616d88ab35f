// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/eval_wide.hpp"

#include "experiments/analysis/eval_walk.hpp"

#include <boost/multiprecision/cpp_bin_float.hpp>

#include <cmath>
#include <exception>

namespace macheps::analysis {

namespace {

namespace mp = boost::multiprecision;

template <unsigned digits>
class WideSystem {
  public:
    using Number = mp::number<mp::cpp_bin_float<digits>, mp::et_off>;

    Number literal(const Node& node) const {
        if (node.kind == Node::Kind::constant) return constant(node.text);
        const std::size_t slash = node.text.find('/');
        if (slash != std::string::npos) return Number(node.text.substr(0, slash)) / Number(node.text.substr(slash + 1));
        if (node.text.find_first_of("xX") != std::string::npos) return hexadecimal(node.text);
        return Number(node.text.starts_with("+") ? node.text.substr(1) : node.text);
    }
    Number apply(Op op, const std::vector<Number>& x) const {
        try {
            return applied(op, x);
        } catch (const std::exception&) {  // Boost throws where a function has no value, or one beyond its range
            return std::numeric_limits<Number>::quiet_NaN();
        }
    }
    bool compare(Op op, const Number& a, const Number& b) const {
        switch (op) {
            case Op::less: return a < b;
            case Op::less_equal: return a <= b;
            case Op::greater: return a > b;
            case Op::greater_equal: return a >= b;
            case Op::equal: return a == b;
            default: return a != b;
        }
    }
    bool test(Op op, const Number& x) const {
        switch (op) {
            case Op::is_nan: return mp::isnan(x);
            case Op::is_inf: return mp::isinf(x);
            case Op::is_finite: return mp::isfinite(x);
            default: return mp::signbit(x) != 0;
        }
    }

  private:
    static Number constant(const std::string& name) {
        const Number one = 1, quarter = mp::atan(one);  // pi / 4
        if (name == "PI") return 4 * quarter;
        if (name == "PI_2") return 2 * quarter;
        if (name == "PI_4") return quarter;
        if (name == "M_1_PI") return 1 / (4 * quarter);
        if (name == "M_2_PI") return 1 / (2 * quarter);
        if (name == "M_2_SQRTPI") return 1 / mp::sqrt(quarter);
        if (name == "E") return mp::exp(one);
        if (name == "LN2") return mp::log(Number(2));
        if (name == "LN10") return mp::log(Number(10));
        if (name == "LOG2E") return 1 / mp::log(Number(2));
        if (name == "LOG10E") return 1 / mp::log(Number(10));
        if (name == "SQRT2") return mp::sqrt(Number(2));
        if (name == "SQRT1_2") return mp::sqrt(Number(0.5));
        return name == "INFINITY" ? std::numeric_limits<Number>::infinity() : std::numeric_limits<Number>::quiet_NaN();
    }
    static Number hexadecimal(const std::string& text) {
        Number out = 0;
        bool is_negative = false, has_point = false;
        int exponent = 0;
        for (std::size_t i = 0; i < text.size(); ++i) {
            const char c = text[i];
            if (c == '-') is_negative = true;
            if (c == '.') has_point = true;
            if (c == 'p' || c == 'P') {
                exponent += std::atoi(text.c_str() + i + 1);
                break;
            }
            if (std::isxdigit(static_cast<unsigned char>(c)) == 0) continue;
            out = 16 * out + (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
            if (has_point) exponent -= 4;
        }
        return mp::ldexp(is_negative ? Number(-out) : out, exponent);
    }
    static Number applied(Op op, const std::vector<Number>& x) {
        const Number& a = x[0];
        switch (op) {
            case Op::add: return a + x[1];
            case Op::sub: return a - x[1];
            case Op::mul: return a * x[1];
            case Op::div: return a / x[1];
            case Op::neg: return -a;
            case Op::fma: return a * x[1] + x[2];
            case Op::sqrt: return mp::sqrt(a);
            case Op::fabs: return mp::fabs(a);
            case Op::fmin: return mp::isnan(a) || x[1] < a ? x[1] : a;
            case Op::fmax: return mp::isnan(a) || a < x[1] ? x[1] : a;
            case Op::fdim: return a > x[1] ? Number(a - x[1]) : Number(0);
            case Op::copysign: return mp::signbit(a) == mp::signbit(x[1]) ? a : Number(-a);
            case Op::floor: return mp::floor(a);
            case Op::ceil: return mp::ceil(a);
            case Op::trunc: return mp::trunc(a);
            case Op::round: return mp::round(a);
            case Op::nearbyint: return to_even(a);
            case Op::exp: return mp::exp(a);
            case Op::exp2: return mp::pow(Number(2), a);
            case Op::expm1: return mp::expm1(a);
            case Op::log: return mp::log(a);
            case Op::log2: return mp::log(a) / mp::log(Number(2));
            case Op::log10: return mp::log10(a);
            case Op::log1p: return mp::log1p(a);
            case Op::sin: return mp::sin(a);
            case Op::cos: return mp::cos(a);
            case Op::tan: return mp::tan(a);
            case Op::asin: return mp::asin(a);
            case Op::acos: return mp::acos(a);
            case Op::atan: return mp::atan(a);
            case Op::sinh: return mp::sinh(a);
            case Op::cosh: return mp::cosh(a);
            case Op::tanh: return mp::tanh(a);
            case Op::asinh: return mp::asinh(a);
            case Op::acosh: return mp::acosh(a);
            case Op::atanh: return mp::atanh(a);
            case Op::cbrt: return a == 0 ? a : a < 0 ? Number(-mp::exp(mp::log(Number(-a)) / 3)) : Number(mp::exp(mp::log(a) / 3));
            case Op::pow: return mp::pow(a, x[1]);
            case Op::atan2: return mp::atan2(a, x[1]);
            case Op::hypot: return mp::sqrt(Number(a * a + x[1] * x[1]));
            case Op::fmod: return mp::fmod(a, x[1]);
            default: return std::numeric_limits<Number>::quiet_NaN();
        }
    }
    static Number to_even(const Number& x) {
        const Number low = mp::floor(x), rest = x - low;
        const bool is_even = mp::floor(low / 2) * 2 == low;
        return rest > 0.5 || (rest == 0.5 && !is_even) ? Number(low + 1) : low;
    }
};

template <unsigned digits>
WideResult result_of(const typename WideSystem<digits>::Number& x) {
    using Number = typename WideSystem<digits>::Number;
    WideResult out;
    if (mp::isnan(x)) {
        out.near = NAN;
        return out;
    }
    out.near = static_cast<double>(x);
    const bool is_negative = mp::signbit(x) != 0;
    if (mp::isinf(x)) {
        out.value = {Unpacked::Kind::infinite, is_negative, 0, 0};
        return out;
    }
    if (x == 0) {
        out.value = {Unpacked::Kind::finite, is_negative, 0, 0};
        return out;
    }
    // Powers of ten of the precision: what a few dozen roundings may have cost.
    static const Number small = mp::pow(Number(10), 8 - static_cast<int>(digits));
    if (std::isfinite(out.near) && std::fabs(out.near) > 1e-290 && mp::fabs(Number(x - out.near)) <= small * mp::fabs(x)) {
        out.value = unpack(out.near);
        return out;
    }
    int exponent = 0;
    const Number fraction = mp::ldexp(mp::frexp(Number(mp::fabs(x)), &exponent), 63), whole = mp::floor(fraction);
    out.value = {Unpacked::Kind::finite, is_negative, static_cast<std::uint64_t>(whole) | (whole == fraction ? 0u : 1u), 0};
    // Beyond the range of every format nothing but the sign and the side counts.
    out.value.exponent = exponent > 100000 ? 100000 : exponent < -100000 ? -100000 : exponent - 63;
    return out;
}

template <unsigned digits>
WideResult value_with(const Expression& expression, const std::vector<double>& inputs) {
    WideSystem<digits> system;
    std::vector<typename WideSystem<digits>::Number> numbers(inputs.begin(), inputs.end());
    return result_of<digits>(Walk(system, expression).value(numbers));
}
template <unsigned digits>
WideResult call_with(Op op, const std::vector<double>& arguments) {
    std::vector<typename WideSystem<digits>::Number> numbers(arguments.begin(), arguments.end());
    return result_of<digits>(WideSystem<digits>{}.apply(op, numbers));
}
template <unsigned digits>
WideResult literal_with(const Node& node) {
    return result_of<digits>(WideSystem<digits>{}.literal(node));
}

}  // namespace

WideResult wide_value(const Expression& expression, const std::vector<double>& inputs, int precision) {
    if (precision == 0) return value_with<50>(expression, inputs);
    return precision == 1 ? value_with<150>(expression, inputs) : value_with<500>(expression, inputs);
}
WideResult wide_call(Op op, const std::vector<double>& arguments, int precision) {
    if (precision == 0) return call_with<50>(op, arguments);
    return precision == 1 ? call_with<150>(op, arguments) : call_with<500>(op, arguments);
}
WideResult wide_literal(const Node& node, int precision) {
    if (precision == 0) return literal_with<50>(node);
    return precision == 1 ? literal_with<150>(node) : literal_with<500>(node);
}

}  // namespace macheps::analysis
