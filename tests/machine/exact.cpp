// SPDX-License-Identifier: Apache-2.0
#include "tests/machine/exact.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace macheps::machine_oracle {

Exact sum(const Exact& x, const Exact& y) {
    if (x.m == 0) return y;
    if (y.m == 0) return x;
    const int q = std::min(x.q, y.q);
    return {Integer(x.m << (x.q - q)) + Integer(y.m << (y.q - q)), q};
}

Exact product(const Exact& x, const Exact& y) { return {x.m * y.m, x.q + y.q}; }

int leading_exponent(const Exact& x) { return x.q + static_cast<int>(msb(Integer(abs(x.m)))); }

Integer cut(const Exact& x, int q) {
    if (x.m == 0 || q <= x.q) return x.m == 0 ? Integer(0) : Integer(x.m << (x.q - q));
    const Integer magnitude = Integer(abs(x.m)) >> (q - x.q);
    return x.m < 0 ? Integer(-magnitude) : magnitude;
}

Integer floored(const Exact& x, int q) {
    const Integer whole = cut(x, q);
    const bool exact = q <= x.q || Integer(whole << (q - x.q)) == x.m;
    return x.m < 0 && !exact ? Integer(whole - 1) : whole;
}

int Type::max_field() const {
    const int sign = specials == Specials::e8m0 ? 0 : 1;
    return (1 << (bits - ignored - sign - (precision - 1))) - 1;
}

int Type::emax() const {
    return max_field() - bias - (specials == Specials::ieee || specials == Specials::e8m0 ? 1 : 0);
}

const Type& find_type(std::string_view name) {
    static constexpr Type types[] = {
        {"f64", 64, 53, 1023, Specials::ieee},     {"f32", 32, 24, 127, Specials::ieee},
        {"tf32", 32, 11, 127, Specials::ieee, 13}, {"xf32", 32, 11, 127, Specials::ieee, 13},
        {"f16", 16, 11, 15, Specials::ieee},       {"bf16", 16, 8, 127, Specials::ieee},
        {"e5m2", 8, 3, 15, Specials::ieee},        {"e4m3", 8, 4, 7, Specials::e4m3fn},
        {"bf8", 8, 3, 16, Specials::fnuz},         {"fp8", 8, 4, 8, Specials::fnuz},
        {"e3m2", 6, 3, 3, Specials::none},         {"e2m3", 6, 4, 1, Specials::none},
        {"e2m1", 4, 2, 1, Specials::none},         {"ue8m0", 8, 1, 127, Specials::e8m0},
        {"ue4m3", 8, 4, 7, Specials::ue4m3},       {"s32", 32, 32, 0, Specials::integer},
        {"s8", 8, 8, 0, Specials::integer},        {"u8", 8, 8, 1, Specials::integer},
        {"s4", 4, 4, 0, Specials::integer},        {"u4", 4, 4, 1, Specials::integer},
    };
    for (const Type& type : types)
        if (type.name == name) return type;
    throw std::invalid_argument("machine oracle: no type '" + std::string(name) + "'");
}

bool Number::is_subnormal(const Type& type) const {
    return kind == Kind::finite && significand != 0 && significand >> (type.precision - 1) == 0;
}

Number decode(const Type& type, std::uint64_t code) {
    Number x;
    const auto finish = [&x](int q) {
        x.value = {x.negative ? Integer(-Integer(x.significand)) : Integer(x.significand), q};
        return x;
    };
    if (type.specials == Specials::integer) {
        const std::uint64_t sign_bit = std::uint64_t{1} << (type.bits - 1);
        x.negative = type.bias == 0 && (code & sign_bit) != 0;
        x.significand = x.negative ? 2 * sign_bit - code : code;
        return finish(0);
    }
    if (type.specials == Specials::e8m0) {
        x.kind = code == 0xff ? Kind::nan : Kind::finite;
        x.significand = 1;
        x.exponent = static_cast<int>(code) - 127;
        return finish(x.exponent);
    }
    const int fraction_bits = type.precision - 1;
    code >>= type.ignored;
    const std::uint64_t magnitude = code & ~(std::uint64_t{1} << (type.bits - type.ignored - 1));
    const int field = static_cast<int>(magnitude >> fraction_bits);
    const std::uint64_t fraction = magnitude & ((std::uint64_t{1} << fraction_bits) - 1);
    x.negative = magnitude != code;
    switch (type.specials) {
        case Specials::ieee:
            if (field == type.max_field()) x.kind = fraction != 0 ? Kind::nan : Kind::infinite;
            break;
        case Specials::e4m3fn:
            if (magnitude == 0x7f) x.kind = Kind::nan;
            break;
        case Specials::ue4m3:
            x.negative = false;
            if (magnitude == 0x7f) x.kind = Kind::nan;
            break;
        case Specials::fnuz:
            if (code == 0x80) x.kind = Kind::nan;
            break;
        default:
            break;
    }
    if (x.kind != Kind::finite) return x;
    x.exponent = std::max(field, 1) - type.bias;
    x.significand = field == 0 ? fraction : fraction + (std::uint64_t{1} << fraction_bits);
    return finish(x.exponent - fraction_bits);
}

std::uint64_t infinity(const Type& type, bool negative) {
    const std::uint64_t magnitude = static_cast<std::uint64_t>(type.max_field()) << (type.precision - 1);
    return magnitude | (negative ? std::uint64_t{1} << (type.bits - 1) : 0);
}

std::uint64_t rounded(const Exact& x, const Type& type, Rounding mode, int precision) {
    if (x.m == 0) return 0;
    const Integer magnitude = abs(x.m);
    const std::uint64_t sign = x.m < 0 ? std::uint64_t{1} << (type.bits - 1) : 0;
    int quantum = std::max(leading_exponent(x), type.emin()) - (precision - 1);
    Integer kept = cut({magnitude, x.q}, quantum);
    if (mode == Rounding::nearest_even && quantum > x.q) {
        const Integer rest = magnitude - Integer(kept << (quantum - x.q)), half = Integer(1) << (quantum - x.q - 1);
        if (rest > half || (rest == half && bit_test(kept, 0))) ++kept;
    }
    if (kept == Integer(1) << precision) {  // carried into the next binade
        kept >>= 1;
        ++quantum;
    }
    const std::uint64_t digits = static_cast<std::uint64_t>(kept), one = std::uint64_t{1} << (precision - 1);
    const int unread = type.precision - precision;
    if (digits < one) return sign | digits << unread;
    const int field = quantum + precision - 1 + type.bias;
    if (field >= type.max_field()) return infinity(type, sign != 0);
    return sign | static_cast<std::uint64_t>(field) << (type.precision - 1) | (digits - one) << unread;
}

}  // namespace macheps::machine_oracle
