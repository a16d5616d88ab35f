// SPDX-License-Identifier: Apache-2.0
// IEEE 754 addition and multiplication of exact numbers. Rounding is a separate step. A fused multiply-add is therefore
// a product, a sum and one rounding.
#pragma once
#include "tests/machine/exact.hpp"

namespace macheps::machine_oracle {

/// A value with IEEE's zeros, infinities and NaN.
struct Real {
    Kind kind = Kind::finite;
    bool negative = false;
    Exact value;
    [[nodiscard]] bool is_zero() const { return kind == Kind::finite && value.m == 0; }
};

[[nodiscard]] inline Real real(const Number& x) { return {x.kind, x.negative, x.value}; }

/// Returns x + y. Infinities of different signs give NaN. An exact zero is +0 unless both terms are -0.
[[nodiscard]] inline Real ieee_sum(const Real& x, const Real& y) {
    if (x.kind == Kind::nan || y.kind == Kind::nan) return {Kind::nan, false, {}};
    if (x.kind == Kind::infinite && y.kind == Kind::infinite && x.negative != y.negative) return {Kind::nan, false, {}};
    if (x.kind == Kind::infinite) return x;
    if (y.kind == Kind::infinite) return y;
    const Exact total = sum(x.value, y.value);
    const bool negative = total.m != 0 ? total.m < 0 : x.is_zero() && y.is_zero() && x.negative && y.negative;
    return {Kind::finite, negative, total};
}

/// Returns x y. inf * 0 is NaN. The product of two signs is the sign of the result, even if the result is zero.
[[nodiscard]] inline Real ieee_product(const Real& x, const Real& y) {
    const bool negative = x.negative != y.negative, infinite = x.kind == Kind::infinite || y.kind == Kind::infinite;
    if (x.kind == Kind::nan || y.kind == Kind::nan) return {Kind::nan, false, {}};
    if (infinite) return {x.is_zero() || y.is_zero() ? Kind::nan : Kind::infinite, negative, {}};
    return {Kind::finite, negative, product(x.value, y.value)};
}

/// Returns the code of x, rounded once. `nan` is the code of a NaN.
[[nodiscard]] inline std::uint64_t ieee_code(const Real& x, const Type& type, Rounding mode, int precision,
                                             std::uint64_t nan) {
    if (x.kind == Kind::nan) return nan;
    if (x.kind == Kind::infinite) return infinity(type, x.negative);
    if (x.value.m != 0) return rounded(x.value, type, mode, precision);
    return x.negative ? std::uint64_t{1} << (type.bits - 1) : 0;
}

}  // namespace macheps::machine_oracle
