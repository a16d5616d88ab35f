// SPDX-License-Identifier: Apache-2.0
// Float<F>: a C++ scalar in any format, correctly rounded to nearest even. Overflow gives Inf or NaN, as in IEEE 754.
#pragma once
#include "core/arithmetic.hpp"
#include "core/math.hpp"
#include "core/math64.hpp"
#include "core/ulp.hpp"

#include <compare>
#include <concepts>
#include <functional>
#include <limits>
#include <type_traits>

namespace macheps {

namespace detail {

template <int bits>
using Container = std::conditional_t<
    bits <= 8, std::uint8_t,
    std::conditional_t<bits <= 16, std::uint16_t, std::conditional_t<bits <= 32, std::uint32_t, std::uint64_t>>>;

/// How an operation of a format is computed. `through_fp64` computes it in fp64 and rounds the result to the p bits of
/// the format. For + - * / sqrt, this is correct if 53 >= 2p + 2 (Figueroa 1995). For fma, this is correct if no
/// inexact fp64 sum of the format is a tie, halfway between two of its numbers (tests/core/float_test.cpp).
enum class Way : std::uint8_t { exact_integers, through_fp64, fp32_itself, fp64_itself };

MACHEPS_HD constexpr Way way_of(Format f, bool fused) {
    if (f == fp64) return Way::fp64_itself;
    if (f == fp32) return Way::fp32_itself;
    if (f.encoding != Encoding::binary) return Way::exact_integers;
    // For fma, the exponent range matters. In bf16 and tf32, product and addend may differ so much in magnitude that
    // their sum is inexact in fp64 and is rounded to a tie.
    if (fused && f.exponent_bits() > 5) return Way::exact_integers;
    return Way::through_fp64;
}

}  // namespace detail

/// A number of format F in its smallest unsigned container. No operation traps, and every NaN that an operation
/// computes is the canonical quiet NaN. Formats without Inf or NaN behave as in op() of core/arithmetic.hpp.
/// Conversions round once, to nearest even. For other rounding modes and for exception flags, call op() with bits().
template <Format F>
class Float {
  public:
    using Bits = detail::Container<F.container_bits()>;
    static constexpr Format format = F;

    constexpr Float() = default;
    MACHEPS_HD constexpr explicit Float(double x) : bits_(rounded(x)) {}
    MACHEPS_HD constexpr explicit Float(float x) : bits_(rounded(x)) {}
    /// Implicit, so that generic code can write `x == 0`, `tolerance = 0` and `2 * x`.
    template <std::integral Integer>
    MACHEPS_HD constexpr Float(Integer n) : bits_(rounded_integer(n)) {}
    template <Format G>
    MACHEPS_HD constexpr explicit Float(Float<G> x) : bits_(rounded(static_cast<double>(x))) {}

    /// Returns the number whose container is `bits`. Padding bits are cleared.
    MACHEPS_HD static constexpr Float from_bits(std::uint64_t bits) {
        Float x;
        x.bits_ = static_cast<Bits>(bits & ((F.sign_bit() | F.magnitude_mask()) << F.padding));
        return x;
    }
    MACHEPS_HD constexpr Bits bits() const { return bits_; }

    /// Converts to double. The result is exact for every format.
    MACHEPS_HD constexpr explicit operator double() const { return decode64(F, bits_); }
    /// Converts to float. The result is exact for every format except fp64.
    MACHEPS_HD constexpr explicit operator float() const { return decode(F, bits_); }
    /// Converts to an integer by rounding toward zero, as C++ does. A value out of range gives the nearer end of the
    /// range, and a NaN gives 0.
    template <std::integral Integer>
    requires(!std::same_as<Integer, bool>) MACHEPS_HD constexpr explicit operator Integer() const {
        const double x = decode64(F, bits_);
        using Limits = std::numeric_limits<Integer>;
        if (x != x) return 0;
        if (x <= static_cast<double>(Limits::min())) return Limits::min();
        if (x >= static_cast<double>(Limits::max())) return Limits::max();
        return static_cast<Integer>(x);
    }
    MACHEPS_HD constexpr explicit operator bool() const { return decode64(F, bits_) != 0; }

    MACHEPS_HD friend constexpr Float operator+(Float a, Float b) { return binary<Operation::add>(a, b); }
    MACHEPS_HD friend constexpr Float operator-(Float a, Float b) { return binary<Operation::sub>(a, b); }
    MACHEPS_HD friend constexpr Float operator*(Float a, Float b) { return binary<Operation::mul>(a, b); }
    MACHEPS_HD friend constexpr Float operator/(Float a, Float b) { return binary<Operation::div>(a, b); }
    MACHEPS_HD constexpr Float& operator+=(Float b) { return *this = *this + b; }
    MACHEPS_HD constexpr Float& operator-=(Float b) { return *this = *this - b; }
    MACHEPS_HD constexpr Float& operator*=(Float b) { return *this = *this * b; }
    MACHEPS_HD constexpr Float& operator/=(Float b) { return *this = *this / b; }
    MACHEPS_HD friend constexpr Float operator+(Float a) { return a; }
    /// Flips the sign bit, even of a NaN. The zero and the NaN of fnuz formats do not change. Numbers of e8m0fnu do not
    /// change either, because this format has no sign bit.
    MACHEPS_HD friend constexpr Float operator-(Float a) {
        if constexpr (F.encoding == Encoding::power_of_two) {
            return a;
        } else if constexpr (F.has_negative_zero()) {
            return from_bits(a.bits_ ^ (F.sign_bit() << F.padding));
        } else {
            return Float(-static_cast<double>(a));
        }
    }

    /// Compares values: -0 equals +0, and a NaN is unordered.
    MACHEPS_HD friend constexpr bool operator==(Float a, Float b) { return double(a) == double(b); }
    friend constexpr std::partial_ordering operator<=>(Float a, Float b) { return double(a) <=> double(b); }

    /// Returns a b + c with one rounding.
    MACHEPS_HD friend constexpr Float fma(Float a, Float b, Float c) {
        constexpr detail::Way way = detail::way_of(F, true);
        if (!__builtin_is_constant_evaluated()) {
            if constexpr (way == detail::Way::through_fp64 || way == detail::Way::fp64_itself) {
                return canonical(macheps::fma(double(a), double(b), double(c)));
            } else if constexpr (way == detail::Way::fp32_itself) {
                return canonical(macheps::fma(float(a), float(b), float(c)));
            }
        }
        return from_bits(op(Operation::fma, F, a.bits_, b.bits_, c.bits_, Round::nearest_even).bits);
    }
    MACHEPS_HD friend constexpr Float sqrt(Float a) {
        constexpr detail::Way way = detail::way_of(F, false);
        if (!__builtin_is_constant_evaluated()) {
            if constexpr (way == detail::Way::through_fp64 || way == detail::Way::fp64_itself) {
                return canonical(macheps::sqrt(double(a)));
            } else if constexpr (way == detail::Way::fp32_itself) {
                return canonical(macheps::sqrt(float(a)));
            }
        }
        return from_bits(op(Operation::sqrt, F, a.bits_, 0, 0, Round::nearest_even).bits);
    }

    MACHEPS_HD friend constexpr bool isnan(Float a) { return double(a) != double(a); }
    MACHEPS_HD friend constexpr bool isinf(Float a) { return kind(a) == Unpacked::Kind::infinite; }
    MACHEPS_HD friend constexpr bool isfinite(Float a) { return kind(a) == Unpacked::Kind::finite; }
    MACHEPS_HD friend constexpr bool signbit(Float a) { return (a.bits_ >> F.padding & F.sign_bit()) != 0; }
    MACHEPS_HD friend constexpr Float abs(Float a) { return signbit(a) && !isnan(a) ? -a : clear_nan_sign(a); }
    MACHEPS_HD friend constexpr Float fabs(Float a) { return abs(a); }
    MACHEPS_HD friend constexpr Float copysign(Float a, Float sign) { return signbit(a) == signbit(sign) ? a : -a; }
    /// Return the smaller or the larger operand. As in C, a NaN operand is ignored.
    MACHEPS_HD friend constexpr Float fmin(Float a, Float b) { return isnan(a) || b < a ? b : a; }
    MACHEPS_HD friend constexpr Float fmax(Float a, Float b) { return isnan(a) || a < b ? b : a; }
    /// Returns the next value towards `to`, like macheps::nextafter on codes.
    MACHEPS_HD friend constexpr Float nextafter(Float a, Float to) {
        return from_bits(macheps::nextafter(F, a.bits_, to.bits_));
    }
    // Round to an integral value. The result is exact unless it overflows (see round_to_integral).
    friend Float floor(Float a) { return Float(__builtin_floor(double(a))); }
    friend Float ceil(Float a) { return Float(__builtin_ceil(double(a))); }
    friend Float trunc(Float a) { return Float(__builtin_trunc(double(a))); }
    friend Float round(Float a) { return Float(__builtin_round(double(a))); }
    friend Float rint(Float a) { return Float(__builtin_rint(double(a))); }
    /// Returns a - n b exactly, where n is a / b rounded toward zero to an integer. The result has the sign of a.
    friend Float fmod(Float a, Float b) { return canonical(__builtin_fmod(double(a), double(b))); }
    friend Float ldexp(Float a, int exponent) { return Float(__builtin_ldexp(double(a), exponent)); }
    friend Float frexp(Float a, int* exponent) { return Float(__builtin_frexp(double(a), exponent)); }

    // These functions call core/math.hpp in fp32 (errors: docs/math.md), or core/math64.hpp for fp64, and round the
    // result once to F. The results are faithful, not correctly rounded.
    friend Float exp(Float a) {
        if constexpr (F == fp64)
            return Float(math::exp(double(a)));
        else
            return Float(math::exp(float(a)));
    }
    friend Float log(Float a) {
        if constexpr (F == fp64)
            return Float(math::log(double(a)));
        else
            return Float(math::log(float(a)));
    }
    friend Float sin(Float a) {
        if constexpr (F == fp64)
            return Float(math::sin(double(a)));
        else
            return Float(math::sin(float(a)));
    }
    friend Float cos(Float a) {
        if constexpr (F == fp64)
            return Float(math::cos(double(a)));
        else
            return Float(math::cos(float(a)));
    }
    friend Float tanh(Float a) requires(F != fp64) { return Float(math::tanh(float(a))); }
    friend Float erf(Float a) requires(F != fp64) { return Float(math::erf(float(a))); }

  private:
    MACHEPS_HD static constexpr Unpacked::Kind kind(Float a) { return unpack(decode64(F, a.bits_)).kind; }
    template <class Source>
    MACHEPS_HD static constexpr Bits rounded(Source x) {
        return static_cast<Bits>(encode64(F, x, Round::nearest_even, Overflow::nonsaturate));
    }
    template <class Integer>
    MACHEPS_HD static constexpr Bits rounded_integer(Integer n) {
        const bool negative = n < 0;
        const auto size = negative ? std::uint64_t{0} - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
        const Unpacked number{Unpacked::Kind::finite, negative, size, 0};
        return static_cast<Bits>(detail::encode_unpacked(F, number, Round::nearest_even, Overflow::nonsaturate, {})
                                 << F.padding);
    }
    template <class Source>
    MACHEPS_HD static constexpr Float canonical(Source x) {
        return x != x ? from_bits(F.nan_code() << F.padding) : Float(x);
    }
    MACHEPS_HD static constexpr Float clear_nan_sign(Float a) {
        return isnan(a) ? from_bits(F.nan_code() << F.padding) : a;
    }
    template <Operation operation, class Number>
    MACHEPS_HD static constexpr Number apply(Number a, Number b) {
        if constexpr (operation == Operation::add) return a + b;
        if constexpr (operation == Operation::sub) return a - b;
        if constexpr (operation == Operation::mul) return a * b;
        if constexpr (operation == Operation::div) return a / b;
    }
    template <Operation operation>
    MACHEPS_HD static constexpr Float binary(Float a, Float b) {
        constexpr detail::Way way = detail::way_of(F, false);
        // In a constant expression, the native operations must not divide by zero or compute a NaN from numbers.
        // Constant evaluation therefore uses op().
        if (!__builtin_is_constant_evaluated()) {
            if constexpr (way == detail::Way::through_fp64 || way == detail::Way::fp64_itself) {
                return canonical(apply<operation>(double(a), double(b)));
            } else if constexpr (way == detail::Way::fp32_itself) {
                return canonical(apply<operation>(float(a), float(b)));
            }
        }
        return from_bits(op(operation, F, a.bits_, b.bits_, 0, Round::nearest_even).bits);
    }

    Bits bits_ = 0;
};

namespace detail {

/// Returns floor(x log10 2) for |x| < 2000.
constexpr int floor_log10_of_power(int x) {
    const int product = x * 30103;
    return product >= 0 ? product / 100000 : -((-product + 99999) / 100000);
}

}  // namespace detail

}  // namespace macheps

template <macheps::Format F>
struct std::numeric_limits<macheps::Float<F>> {
    using Number = macheps::Float<F>;
    static constexpr bool is_specialized = true, is_signed = F.has_sign(), is_integer = false, is_exact = false;
    static constexpr bool has_infinity = F.has_inf(), has_quiet_NaN = F.has_nan();
    static constexpr bool has_signaling_NaN = F.specials == macheps::Specials::inf_and_nan;
    static constexpr std::float_denorm_style has_denorm =
        F.encoding == macheps::Encoding::binary ? std::denorm_present : std::denorm_absent;
    static constexpr bool has_denorm_loss = false, traps = false, tinyness_before = false;
    static constexpr bool is_iec559 = F.specials == macheps::Specials::inf_and_nan, is_bounded = true,
                          is_modulo = false;
    static constexpr std::float_round_style round_style = std::round_to_nearest;
    static constexpr int digits = F.precision, radix = 2;
    static constexpr int digits10 = macheps::digits10(F), max_digits10 = macheps::max_digits10(F);

    static constexpr Number max() { return Number::from_bits(F.max_finite_code() << F.padding); }
    static constexpr Number lowest() {
        if constexpr (!F.has_sign())
            return min();
        else
            return -max();
    }
    /// Returns the smallest positive normal number.
    static constexpr Number min() { return Number(macheps::Format::power_of_two(F.emin())); }
    static constexpr Number denorm_min() {
        return F.encoding == macheps::Encoding::binary ? Number::from_bits(std::uint64_t{1} << F.padding) : min();
    }
    static constexpr Number epsilon() { return Number(F.machine_epsilon()); }
    static constexpr Number round_error() { return Number(0.5); }
    static constexpr Number infinity() {
        return has_infinity ? Number::from_bits(F.inf_code() << F.padding) : Number();
    }
    static constexpr Number quiet_NaN() {
        return has_quiet_NaN ? Number::from_bits(F.nan_code() << F.padding) : Number();
    }
    static constexpr Number signaling_NaN() {
        return has_signaling_NaN ? Number::from_bits((F.inf_code() | 1) << F.padding) : Number();
    }

    static constexpr int max_exponent =
        macheps::unpack(static_cast<double>(max())).exponent +
        macheps::detail::bit_length(macheps::unpack(static_cast<double>(max())).significand);
    static constexpr int min_exponent = F.emin() + 1;
    static constexpr int max_exponent10 = macheps::detail::floor_log10_of_power(max_exponent);
    static constexpr int min_exponent10 = -macheps::detail::floor_log10_of_power(-F.emin());
};

/// Equal numbers have equal hashes, including both zeros. All NaNs have the same hash.
template <macheps::Format F>
struct std::hash<macheps::Float<F>> {
    std::size_t operator()(macheps::Float<F> x) const {
        if (isnan(x)) x = std::numeric_limits<macheps::Float<F>>::quiet_NaN();
        return std::hash<std::uint64_t>{}(static_cast<double>(x) == 0 ? 0 : x.bits());
    }
};
