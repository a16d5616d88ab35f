// SPDX-License-Identifier: Apache-2.0
// Rounds a number held in a wider machine type to a format, to nearest even. The code has no branches, so the compiler
// can vectorise it. The results have the same bits as encode followed by decode.
#pragma once
#include "core/codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace macheps::study {

/// Result of an overflow: either the result that the format defines, or Inf in every format. Later additions and
/// multiplications cannot turn an Inf into a finite number.
enum class Beyond : std::uint8_t { as_format, infinity };

/// Rounds numbers of type `Real` to a format of p = `precision` digits. `Real` must be able to hold every number of the
/// format. It must also hold the power of two above the format's largest number, multiplied by 2^(digits(Real) - p).
/// The type float suffices for formats with up to 5 exponent bits and 11 digits. All other formats with up to 25 digits
/// need double. Sums, products, quotients and square roots of numbers of the format, computed in Real and rounded here,
/// are correctly rounded, because Real has at least 2p + 2 digits (Figueroa 1995).
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

    /// Returns whether the format is fp16, for which processors have rounding instructions.
    bool is_half() const {
        return least_ == bits(Real(0x1p-14)) && largest_ == bits(Real(65504)) &&
               lift_ == static_cast<Real>(1ull << (digits - 11)) && beyond_ == infinity;
    }

    /// Constants with which a kernel outside this class can do the same rounding. This requires that an overflow gives
    /// Inf or NaN and that zeros keep their sign (has_constants).
    struct Constants {
        Real least = 0, largest = 0, beyond = 0;  ///< `beyond`: Inf or NaN
        Real lift = 0;
    };
    bool has_constants() const { return beyond_ >= infinity && bits(zero_) == sign; }
    Constants constants() const { return {real(least_), real(largest_), real(beyond_), lift_}; }

    [[gnu::always_inline]] Real operator()(Real x) const { return rounded<false>(x); }

    /// Returns x rounded to the format. Computes x + 2^s - 2^s, where 2^s is large enough that one ulp of the sum
    /// equals one ulp of the format at x. If `masks` is true, values are selected with bit masks. Otherwise they are
    /// selected with conditional expressions. For AVX2, GCC 12 turns these into branches and does not vectorise the
    /// loop around them. For AVX-512, they are faster than bit masks, because the processor has mask registers.
    template <bool masks>
    [[gnu::always_inline]] Real rounded(Real x) const {
        const auto chosen = [](bool condition, Bits yes, Bits no) __attribute__((always_inline)) {
            if constexpr (masks) return static_cast<Bits>(no ^ ((no ^ yes) & -static_cast<Bits>(condition)));
            return condition ? yes : no;
        };
        const Bits magnitude = bits(x) & ~sign;
        Bits place = magnitude & infinity;    // 2^floor(log2 |x|); 0 if x is subnormal, Inf if x is Inf or NaN
        if constexpr (masks && !is_double) {  // AVX2 has integer min and max for 32 bits
            place = std::min(std::max(place, least_), most_);
        } else {
            place = chosen(place < least_, least_, place);
            place = chosen(place > most_, most_, place);
        }
        const Real shift = real(place) * lift_;
        Bits near = bits((real(magnitude) + shift) - shift);
        near = chosen(near > largest_, beyond_, near);
        // `zero_` is -0 if the format has -0, and +0 otherwise. Adding -0 changes nothing. Adding +0 turns -0 into +0.
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

    Bits least_, largest_, most_, beyond_, nan_;  ///< bits of positive numbers, which compare like the numbers
    Real lift_, zero_;
};

/// Rounds floats to a format that is fp32 cut to at most 11 significand digits (bf16, tf32). The numbers of the format,
/// including subnormals and Inf, are the fp32 numbers whose last bits are zero. Rounding is therefore a single addition
/// to the bits. If the format has more than 8 digits, a product that is subnormal in fp32 would be rounded twice. With
/// `lifts`, such products are computed 2^64 times larger to avoid the first rounding.
template <bool lifts>
class PrefixRounder {
  public:
    explicit PrefixRounder(const Format& f)
        : cut_(24 - f.precision),
          below_half_((1u << (cut_ - 1)) - 1),
          keep_(~0u << cut_),
          grid_(static_cast<float>(Format::power_of_two(f.emin() + 1 - f.precision + 64 + 23))),
          wide_(f) {}

    /// Returns the number of significand bits that fp32 has and the format does not have.
    int cut() const { return cut_; }

    /// Rounds x, the sum or difference of two numbers of the format, already rounded to fp32. The rounding to fp32 does
    /// not change the final result. If the result is subnormal, the rounding to fp32 is exact.
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
    float grid_;  ///< power of two whose ulp in fp32 is 2^64 times the format's smallest positive number
    Rounder<double> wide_;
};

// The functions below round a number, a product and a quotient to the format of a rounder. If the rounder has its own
// member function for this, they call it.

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

/// Returns whether the algorithms of this folder can round to the format. They can round to fp64, and to every format
/// with a sign, an exponent and a fraction that has at most 25 digits and at most 8 exponent bits.
constexpr bool is_rounded_here(const Format& f) {
    return f.encoding == Encoding::binary && (f == fp64 || (f.precision <= 25 && f.exponent_bits() <= 8));
}
constexpr bool fits_float(const Format& f) { return f.precision <= 11 && f.exponent_bits() <= 5; }
/// Returns whether the format is fp32 cut to at most 11 significand digits, as PrefixRounder requires.
constexpr bool is_prefix_of_fp32(const Format& f) {
    return f.encoding == Encoding::binary && f.precision <= 11 && f.exponent_bits() == 8 && f.emin() == -126 &&
           f.has_inf();
}

}  // namespace macheps::study
