// SPDX-License-Identifier: Apache-2.0
// Rounds a number held in a wider machine type to a format, to nearest even. There are no branches, so that the
// compiler can vectorise the code. The results have the same bits as encode followed by decode.
#pragma once
#include "core/codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace macheps::study {

/// Result of an overflow: the one that the format defines, or Inf in every format. No later addition or multiplication
/// hides an Inf.
enum class Beyond : std::uint8_t { as_format, infinity };

/// `Real` must hold every number of the format, and 2^(digits(Real) - precision) times the binade above its largest
/// number. That is float for formats with up to 5 exponent bits and 11 digits, and double for all others of up to 25
/// digits. Sums, products, quotients and square roots of such numbers, computed in Real and rounded here, are correctly
/// rounded, because Real has at least 2p + 2 digits (Figueroa 1995).
template <class Real>
class Rounder {
  public:
    explicit Rounder(const Format& f, Beyond beyond = Beyond::as_format)
        : least_(bits(static_cast<Real>(Format::power_of_two(f.emin())))),
          largest_(bits(static_cast<Real>(decode64(f, f.max_finite_code() << f.padding)))),
          most_((largest_ & infinity) + (infinity & -infinity)),
          beyond_(beyond == Beyond::infinity ? infinity
                  : f.can_overflow()         ? bits(static_cast<Real>(decode64(f, f.overflow_code() << f.padding)))
                                             : largest_),
          nan_(beyond == Beyond::infinity ? bits(std::numeric_limits<Real>::quiet_NaN())
                                          : bits(static_cast<Real>(decode64(f, f.nan_code() << f.padding)))),
          lift_(static_cast<Real>(Format::power_of_two(digits - f.precision))),
          zero_(f.has_negative_zero() ? -Real{0} : Real{0}) {}

    /// Returns whether the format is fp16, for which processors have rounding instructions. Compares the smallest
    /// normal number, the largest number, the number of digits and the result of an overflow.
    bool is_half() const {
        return least_ == bits(Real(0x1p-14)) && largest_ == bits(Real(65504)) &&
               lift_ == static_cast<Real>(1ull << (digits - 11)) && beyond_ == infinity;
    }

    /// Constants for kernels outside this class. Sufficient if an overflow gives Inf or NaN and zeros keep their sign.
    struct Constants {
        Real least = 0, largest = 0, beyond = 0;  ///< `beyond`: Inf or NaN
        Real lift = 0;
    };
    bool has_constants() const { return beyond_ >= infinity && bits(zero_) == sign; }
    Constants constants() const { return {real(least_), real(largest_), real(beyond_), lift_}; }

    [[gnu::always_inline]] Real operator()(Real x) const { return rounded<false>(x); }

    /// Returns x + 2^s - 2^s, where 2^s is so large that the last place of the sum is that of the format at x. With
    /// `masks`, values are selected by bit masks. GCC 12 turns conditional expressions into branches and then does not
    /// vectorise the loop around them, except for AVX-512, whose mask registers select faster than bit masks.
    template <bool masks>
    [[gnu::always_inline]] Real rounded(Real x) const {
        const auto chosen = [](bool condition, Bits yes, Bits no) __attribute__((always_inline)) {
            if constexpr (masks) return static_cast<Bits>(no ^ ((no ^ yes) & -static_cast<Bits>(condition)));
            return condition ? yes : no;
        };
        const Bits magnitude = bits(x) & ~sign;
        Bits place = magnitude & infinity;    // 2^floor(log2 |x|); 0 if x is subnormal, Inf if it is Inf or NaN
        if constexpr (masks && !is_double) {  // AVX2 has these for 32 bits
            place = std::min(std::max(place, least_), most_);
        } else {
            place = chosen(place < least_, least_, place);
            place = chosen(place > most_, most_, place);
        }
        const Real shift = real(place) * lift_;
        Bits near = bits((real(magnitude) + shift) - shift);
        near = chosen(near > largest_, beyond_, near);
        // -0 + -0 is -0. In a format without -0, adding +0 turns -0 into +0.
        const Bits result = bits(real(near | (bits(x) & sign)) + zero_);
        return real(chosen(magnitude > infinity, nan_, result));
    }

  private:
    static constexpr bool is_double = std::is_same_v<Real, double>;
    static constexpr int digits = is_double ? 53 : 24;
    using Bits = std::conditional_t<is_double, std::int64_t, std::int32_t>;
    static constexpr Bits sign = std::numeric_limits<Bits>::min();
    static constexpr Bits infinity = static_cast<Bits>(is_double ? 0x7ff0000000000000ll : 0x7f800000ll);

    [[gnu::always_inline]] static Bits bits(Real x) { return bit_cast<Bits>(x); }
    [[gnu::always_inline]] static Real real(Bits x) { return bit_cast<Real>(x); }

    Bits least_, largest_, most_, beyond_, nan_;  ///< bits of positive numbers; they compare as the numbers do
    Real lift_, zero_;
};

/// Rounds to a format that is fp32 with fewer digits, at most 11 (bf16, tf32), held as float. The numbers of the
/// format, including subnormal ones and Inf, are the fp32 numbers whose last bits are zero. Rounding is therefore a
/// single addition to the bits. With more than 8 digits, a product that is subnormal in fp32 would be rounded twice.
/// `lifts` computes such products 2^64 times larger.
template <bool lifts>
class PrefixRounder {
  public:
    explicit PrefixRounder(const Format& f)
        : cut_(24 - f.precision),
          below_half_((1u << (cut_ - 1)) - 1),
          keep_(~0u << cut_),
          grid_(static_cast<float>(Format::power_of_two(f.emin() + 1 - f.precision + 64 + 23))),
          wide_(f) {}

    /// Returns how many of the significand bits of fp32 the format lacks.
    int cut() const { return cut_; }

    /// Rounds a sum or difference of two numbers of the format that fp32 has already rounded. That first rounding is
    /// innocuous, and exact if the result is subnormal.
    [[gnu::always_inline]] float operator()(float x) const {
        const auto all = bit_cast<std::uint32_t>(x);
        return bit_cast<float>((all + below_half_ + (all >> cut_ & 1)) & keep_);
    }
    [[gnu::always_inline]] float product(float a, float b) const {
        const float p = a * b;
        if constexpr (!lifts) return (*this)(p);
        const auto magnitude = bit_cast<std::int32_t>(p) & ~sign;
        const float lifted = (std::fabs(a) * 0x1p64f) * std::fabs(b);
        const auto tiny =
            bit_cast<std::int32_t>(((lifted + grid_) - grid_) * 0x1p-64f) | (bit_cast<std::int32_t>(p) & sign);
        const auto usual = bit_cast<std::int32_t>((*this)(p));
        const std::int32_t is_tiny =
            -static_cast<std::int32_t>(magnitude < min_normal) & -static_cast<std::int32_t>(magnitude > 0);
        return bit_cast<float>(usual ^ ((usual ^ tiny) & is_tiny));
    }
    [[gnu::always_inline]] float quotient(float a, float b) const { return number(double{a} / double{b}); }
    [[gnu::always_inline]] float number(double x) const { return static_cast<float>(wide_(x)); }

  private:
    static constexpr std::int32_t sign = std::numeric_limits<std::int32_t>::min(), min_normal = 0x00800000;
    int cut_;
    std::uint32_t below_half_, keep_;
    float grid_;  ///< its last place is the format's smallest number times 2^64
    Rounder<double> wide_;
};

// Round a number, a product and a quotient to a format.

template <class Real, class Round>
[[gnu::always_inline]] inline Real rounded_number(const Round& round, double x) {
    if constexpr (requires { round.number(x); }) {
        return round.number(x);
    } else {
        return round(static_cast<Real>(x));
    }
}
template <class Round, class Real>
[[gnu::always_inline]] inline Real rounded_product(const Round& round, Real a, Real b) {
    if constexpr (requires { round.product(a, b); }) {
        return round.product(a, b);
    } else {
        return round(a * b);
    }
}
template <class Round, class Real>
[[gnu::always_inline]] inline Real rounded_quotient(const Round& round, Real a, Real b) {
    if constexpr (requires { round.quotient(a, b); }) {
        return round.quotient(a, b);
    } else {
        return round(a / b);
    }
}

/// Returns whether the algorithms of this folder can round to the format: it is fp64, or it has sign, exponent and
/// fraction, at most 25 digits and at most 8 exponent bits.
constexpr bool is_rounded_here(const Format& f) {
    return f.encoding == Encoding::binary && (f == fp64 || (f.precision <= 25 && f.exponent_bits() <= 8));
}
constexpr bool fits_float(const Format& f) { return f.precision <= 11 && f.exponent_bits() <= 5; }
/// Returns whether the format is fp32 with at most 11 digits, as PrefixRounder requires.
constexpr bool is_prefix_of_fp32(const Format& f) {
    return f.encoding == Encoding::binary && f.precision <= 11 && f.exponent_bits() == 8 && f.emin() == -126 &&
           f.has_inf();
}

}  // namespace macheps::study
