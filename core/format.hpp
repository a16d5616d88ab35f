// SPDX-License-Identifier: Apache-2.0
// Number formats as constexpr data. Sources: IEEE 754-2019, OCP OFP8 1.0, OCP MX 1.0, jax-ml/ml_dtypes.
#pragma once
#include "core/hd.hpp"

namespace macheps {

/// Meaning of the codes above the largest finite value.
enum class Specials : std::uint8_t {
    inf_and_nan,  ///< IEEE 754: the top exponent holds Inf and NaNs
    nan_only,     ///< `fn`: no Inf; the only NaN is the code of all ones (also in e8m0fnu)
    fnuz,         ///< no Inf, no -0; the code of -0 is the NaN
    none,         ///< every code is a finite number
};

enum class Encoding : std::uint8_t {
    binary,        ///< sign, exponent, fraction
    power_of_two,  ///< only an exponent: no sign, no zero (e8m0fnu)
    fixed_point,   ///< two's complement times 2^-(precision - 1) (MXINT8)
};

struct Format {
    int bits;       ///< width with the sign, without padding
    int precision;  ///< bits of the significand, including the leading one
    int exponent_bias;
    Specials specials = Specials::inf_and_nan;
    Encoding encoding = Encoding::binary;
    int padding = 0;  ///< number of zero bits that follow the code in its container (tf32: 13 of 32)

    constexpr bool operator==(const Format&) const = default;

    MACHEPS_HD constexpr bool has_sign() const { return encoding != Encoding::power_of_two; }
    MACHEPS_HD constexpr bool has_inf() const { return specials == Specials::inf_and_nan; }
    MACHEPS_HD constexpr bool has_nan() const { return specials != Specials::none; }
    MACHEPS_HD constexpr bool has_zero() const { return encoding != Encoding::power_of_two; }
    MACHEPS_HD constexpr bool has_negative_zero() const {
        return encoding == Encoding::binary && specials != Specials::fnuz;
    }
    /// Returns true if a finite value can overflow to Inf or NaN. A format without Inf and NaN always saturates.
    MACHEPS_HD constexpr bool can_overflow() const { return specials != Specials::none; }

    MACHEPS_HD constexpr int container_bits() const { return bits + padding; }
    MACHEPS_HD constexpr int fraction_bits() const { return precision - 1; }
    MACHEPS_HD constexpr int exponent_bits() const {
        return encoding == Encoding::power_of_two ? bits : bits - 1 - fraction_bits();
    }
    MACHEPS_HD constexpr int emin() const {
        return encoding == Encoding::power_of_two ? -exponent_bias : 1 - exponent_bias;
    }

    // The following functions return codes of magnitudes without padding, unless the comment of a function says
    // otherwise.
    MACHEPS_HD constexpr std::uint64_t sign_bit() const { return has_sign() ? std::uint64_t{1} << (bits - 1) : 0; }
    MACHEPS_HD constexpr std::uint64_t magnitude_mask() const {
        return (std::uint64_t{1} << (has_sign() ? bits - 1 : bits)) - 1;
    }
    MACHEPS_HD constexpr std::uint64_t max_finite_code() const {
        switch (specials) {
            case Specials::inf_and_nan:
                return inf_code() - 1;
            case Specials::nan_only:
                return magnitude_mask() - 1;
            default:
                return magnitude_mask();
        }
    }
    /// Returns the code of +Inf. Meaningful only if has_inf().
    MACHEPS_HD constexpr std::uint64_t inf_code() const {
        return ((std::uint64_t{1} << exponent_bits()) - 1) << fraction_bits();
    }
    /// Returns the code of the canonical quiet NaN with a clear sign (fnuz: the only NaN). If the format has no NaN,
    /// returns the code of the largest finite value, as CUDA does.
    MACHEPS_HD constexpr std::uint64_t nan_code() const {
        switch (specials) {
            case Specials::inf_and_nan:
                return inf_code() | (std::uint64_t{1} << (fraction_bits() - 1));
            case Specials::nan_only:
                return magnitude_mask();
            case Specials::fnuz:
                return sign_bit();
            default:
                return max_finite_code();
        }
    }
    /// Returns the code of the result of an overflow that does not saturate.
    MACHEPS_HD constexpr std::uint64_t overflow_code() const { return has_inf() ? inf_code() : nan_code(); }
    /// Returns the code of the smallest normal magnitude. Smaller nonzero codes are subnormal.
    MACHEPS_HD constexpr std::uint64_t min_normal_code() const {
        return encoding == Encoding::binary ? std::uint64_t{1} << fraction_bits() : 0;
    }

    /// Returns 2^exponent exactly, for all exponents in the range of fp64 (including subnormals).
    MACHEPS_HD static constexpr double power_of_two(int exponent) {
        return exponent >= -1022 ? bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52)
                                 : bit_cast<double>(std::uint64_t{1} << (exponent + 1074));
    }
    MACHEPS_HD constexpr double unit_roundoff() const { return power_of_two(-precision); }
    MACHEPS_HD constexpr double machine_epsilon() const { return power_of_two(1 - precision); }
};

inline constexpr Format fp64{.bits = 64, .precision = 53, .exponent_bias = 1023};
inline constexpr Format fp32{.bits = 32, .precision = 24, .exponent_bias = 127};
inline constexpr Format tf32{.bits = 19, .precision = 11, .exponent_bias = 127, .padding = 13};
inline constexpr Format fp16{.bits = 16, .precision = 11, .exponent_bias = 15};
inline constexpr Format bf16{.bits = 16, .precision = 8, .exponent_bias = 127};
inline constexpr Format e4m3fn{.bits = 8, .precision = 4, .exponent_bias = 7, .specials = Specials::nan_only};
inline constexpr Format e5m2{.bits = 8, .precision = 3, .exponent_bias = 15};
inline constexpr Format e4m3fnuz{.bits = 8, .precision = 4, .exponent_bias = 8, .specials = Specials::fnuz};
inline constexpr Format e5m2fnuz{.bits = 8, .precision = 3, .exponent_bias = 16, .specials = Specials::fnuz};
inline constexpr Format e4m3b11fnuz{.bits = 8, .precision = 4, .exponent_bias = 11, .specials = Specials::fnuz};
inline constexpr Format e3m4{.bits = 8, .precision = 5, .exponent_bias = 3};
inline constexpr Format e4m3ieee{.bits = 8, .precision = 4, .exponent_bias = 7};
inline constexpr Format e8m0fnu{.bits = 8,
                                .precision = 1,
                                .exponent_bias = 127,
                                .specials = Specials::nan_only,
                                .encoding = Encoding::power_of_two};
inline constexpr Format e2m3fn{.bits = 6, .precision = 4, .exponent_bias = 1, .specials = Specials::none};
inline constexpr Format e3m2fn{.bits = 6, .precision = 3, .exponent_bias = 3, .specials = Specials::none};
inline constexpr Format e2m1fn{.bits = 4, .precision = 2, .exponent_bias = 1, .specials = Specials::none};
/// The integer element of OCP MX: two's complement times 2^-6. `precision` counts the bits below the sign. The bias of
/// 1 makes emin() zero, so that the quantum is 2^-6 for all values.
inline constexpr Format mxint8{
    .bits = 8, .precision = 7, .exponent_bias = 1, .specials = Specials::none, .encoding = Encoding::fixed_point};

static_assert(fp16.max_finite_code() == 0x7bff && fp16.emin() == -14 && fp16.nan_code() == 0x7e00);
static_assert(e4m3fn.max_finite_code() == 0x7e && e4m3fn.overflow_code() == 0x7f);
static_assert(e4m3fnuz.max_finite_code() == 0x7f && e4m3fnuz.nan_code() == 0x80);
static_assert(tf32.max_finite_code() << tf32.padding == 0x7f7fe000);
static_assert(e8m0fnu.max_finite_code() == 0xfe && e2m1fn.max_finite_code() == 7);

}  // namespace macheps
