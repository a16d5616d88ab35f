// SPDX-License-Identifier: Apache-2.0
// Conventions of real implementations where IEEE 754 and OCP leave a choice: NaN codes, infinities, overflow, special
// cases of e8m0. A Profile describes one implementation as data for the generic codec. Host code finds the profiles by
// name in profile_table.hpp.
#pragma once
#include "core/codec.hpp"

namespace macheps {

/// A set of formats to which a convention of a Profile applies.
enum class Reach : std::uint8_t {
    no_format,
    e4m3fn_alone,
    eight_bits,         ///< formats of at most 8 bits
    signed_eight_bits,  ///< formats of at most 8 bits that have a sign, which excludes e8m0fnu
    all_but_fp16,
    every_format,
};

/// The code that a NaN is converted to.
enum class NanCodes : std::uint8_t {
    quiet,  ///< the canonical quiet NaN with the input's sign
    /// All ones with a clear sign. Only cvt.rna to tf32 keeps the sign and the high bits of the payload (see
    /// nan_code_of).
    nvidia,
    /// Like `nvidia`, except that two conversions from fp64 keep more of the NaN: e4m3fn keeps the sign, and e5m2 keeps
    /// the sign and the high bits of the payload.
    cuda_host,
    ml_dtypes,  ///< as quiet; but fp6 and fp4, which have no NaN, give a zero of the opposite sign
    torch,      ///< as quiet; but bf16 loses the sign, and in e5m2 all bits except the sign are ones
    payload,    ///< a quiet NaN with the sign and the high bits of the payload of the input
};

/// How e8m0fnu, which has no sign and no zero, converts negative numbers, zero and magnitudes below 2^-127.
enum class ScaleDomain : std::uint8_t {
    magnitude,        ///< |x| is converted; zero and magnitudes below 2^-127 give the smallest scale
    in_range_or_nan,  ///< |x| is converted; zero and magnitudes below 2^-127 give NaN
    positive_or_nan,  ///< negative numbers and zero give NaN
    positive_or_min,  ///< negative numbers and zero give the smallest scale
};

/// How e8m0fnu rounds magnitudes below 2^-126. In fp32, these are subnormals, which have no hidden bit.
enum class ScaleLeast : std::uint8_t {
    exact,        ///< as in every other binade: the tie between 2^-127 and 2^-126 is 1.5 * 2^-127
    nearest_up,   ///< rounding to nearest gives 2^-126 for everything strictly between 2^-127 and 2^-126
    fp32_fields,  ///< as nearest_up, and Round::up gives 2^-126 for every nonzero fp32 subnormal, even 2^-127 and below
};

/// The conventions of one implementation. Formats that the implementation lacks follow the generic rules.
struct Profile {
    Reach saturates = Reach::no_format;           ///< a finite overflow becomes the largest finite value
    Reach saturates_infinity = Reach::no_format;  ///< an infinity becomes the largest finite value
    bool fnuz_infinity_is_nan = false;            ///< exception: in fnuz formats, an infinity becomes NaN
    bool truncation_overflows = false;            ///< toward_zero overflows if |x| >= the maximum plus one step
    Reach fp64_via_fp32 = Reach::no_format;       ///< fp64 is rounded to fp32 first: two roundings
    bool flushes_subnormals = false;              ///< magnitudes below 2^-126 are read as signed zeros
    NanCodes nan = NanCodes::quiet;
    ScaleDomain scale_domain = ScaleDomain::magnitude;
    ScaleLeast scale_least = ScaleLeast::exact;
    Round scale_round = Round::nearest_even;  ///< default rounding mode of conversions to e8m0fnu

    /// Returns the rounding mode of a conversion to `f` if the caller names none.
    MACHEPS_HD constexpr Round default_round(Format f) const {
        return f.encoding == Encoding::power_of_two ? scale_round : Round::nearest_even;
    }

    constexpr bool operator==(const Profile&) const = default;
};

namespace detail {

// Returns whether `f` is the format `known`. Device code may not refer to constants at namespace scope, such as fp16,
// but it may use their values as template arguments.
template <Format known>
MACHEPS_HD constexpr bool is(Format f) {
    constexpr Format copy = known;
    return f == copy;
}

MACHEPS_HD constexpr bool within(Reach reach, Format f) {
    switch (reach) {
        case Reach::no_format:
            return false;
        case Reach::e4m3fn_alone:
            return is<e4m3fn>(f);
        case Reach::eight_bits:
            return f.bits <= 8;
        case Reach::signed_eight_bits:
            return f.bits <= 8 && f.has_sign();
        case Reach::all_but_fp16:
            return !is<fp16>(f);
        default:
            return true;
    }
}

/// Returns the code of a NaN, without padding. `payload` is the fraction of the source, with its quiet bit at bit 63.
MACHEPS_HD constexpr std::uint64_t nan_code_of(NanCodes rule, Format f, bool negative, std::uint64_t payload,
                                               bool from_fp64, Round mode, bool saturates) {
    const std::uint64_t sign = negative ? f.sign_bit() : 0;
    const bool signed_nan = f.specials == Specials::inf_and_nan || f.specials == Specials::nan_only;
    const std::uint64_t quiet = (signed_nan ? sign : 0) | f.nan_code();
    if (!signed_nan) {
        if (rule == NanCodes::ml_dtypes && f.specials == Specials::none) return sign ^ f.sign_bit();
        return quiet;  // fnuz has one NaN; a format without NaN uses the largest finite value
    }
    if (f.bits == 64 && rule != NanCodes::payload) return quiet;
    switch (rule) {
        case NanCodes::torch:
            return is<bf16>(f) ? f.nan_code() : is<e5m2>(f) ? sign | f.magnitude_mask() : quiet;
        case NanCodes::cuda_host:
            if (from_fp64 && is<e4m3fn>(f)) return quiet;
            if (from_fp64 && is<e5m2>(f)) return quiet | payload >> 62;
            [[fallthrough]];
        case NanCodes::nvidia:
            // cvt.rna.tf32 clears the low bits of a NaN, so a NaN whose payload is only in these bits becomes Inf. With
            // .satfinite, the instructions that ptxas generates subtract one unit in the last place from every result
            // that is not finite, from a NaN as well as from Inf.
            if (is<tf32>(f) && mode == Round::nearest_away) {
                const std::uint64_t masked = sign | f.inf_code() | payload >> 54;
                return rule == NanCodes::nvidia && saturates ? masked - 1 : masked;
            }
            return f.magnitude_mask();
        case NanCodes::payload:
            return quiet | payload >> (64 - f.fraction_bits());
        default:
            return quiet;
    }
}

/// Returns the e8m0fnu code of `x`, which is not NaN, if the profile and the generic codec differ for `x`. Returns
/// `none` otherwise.
MACHEPS_HD constexpr std::uint64_t scale_exception(Profile profile, Format f, Unpacked x, Round mode,
                                                   std::uint64_t none) {
    const bool infinite = x.kind == Unpacked::Kind::infinite, is_zero = !infinite && x.significand == 0;
    if (x.negative || is_zero) {
        if (profile.scale_domain == ScaleDomain::positive_or_nan) return f.nan_code();
        if (profile.scale_domain == ScaleDomain::positive_or_min) return 0;
    }
    if (infinite) return none;
    const int exponent = is_zero ? f.emin() - 1 : bit_length(x.significand) - 1 + x.exponent;
    if (profile.scale_domain == ScaleDomain::in_range_or_nan && exponent < f.emin()) return f.nan_code();
    if (profile.scale_least == ScaleLeast::exact || is_zero || exponent > f.emin()) return none;
    const bool nearest = mode == Round::nearest_even || mode == Round::nearest_away;
    const bool is_power = (x.significand & (x.significand - 1)) == 0;
    if (nearest && exponent == f.emin() && !is_power) return 1;
    return profile.scale_least == ScaleLeast::fp32_fields && mode == Round::up ? 1 : none;
}

MACHEPS_HD constexpr std::uint64_t payload_of(float x) { return std::uint64_t{bit_cast<std::uint32_t>(x)} << 41; }
MACHEPS_HD constexpr std::uint64_t payload_of(double x) { return bit_cast<std::uint64_t>(x) << 12; }

}  // namespace detail

/// Returns the code of `x` in `f` that the implementation described by `profile` gives. Like the generic encode64, it
/// has a result for every input.
template <class Source>
MACHEPS_HD constexpr std::uint64_t encode64(Profile profile, Format f, Source x, Round mode, RandomBits random = {}) {
    require_random_bits(mode, random);
    constexpr bool from_fp64 = sizeof(Source) == 8;
    const Unpacked parts = unpack(x);
    if (from_fp64 && f.bits < 64 && detail::within(profile.fp64_via_fp32, f) && parts.kind == Unpacked::Kind::finite) {
        const auto single = encode(fp32, x, Round::nearest_even, Overflow::nonsaturate);
        return encode64(profile, f, bit_cast<float>(single), mode, random);
    }
    if (parts.kind == Unpacked::Kind::nan) {
        const bool saturates = detail::within(profile.saturates, f);
        return detail::nan_code_of(profile.nan, f, parts.negative, detail::payload_of(x), from_fp64, mode, saturates)
               << f.padding;
    }
    const bool infinite = parts.kind == Unpacked::Kind::infinite;
    if (profile.flushes_subnormals && !infinite && parts.significand != 0 &&
        detail::bit_length(parts.significand) - 1 + parts.exponent < -126) {
        return encode64(f, parts.negative ? -0.0f : 0.0f, mode, Overflow::nonsaturate, random);
    }
    if (f.encoding == Encoding::power_of_two) {
        constexpr std::uint64_t none = ~std::uint64_t{0};
        const std::uint64_t code = detail::scale_exception(profile, f, parts, mode, none);
        if (code != none) return code;
    }
    const bool kept_nan = profile.fnuz_infinity_is_nan && f.specials == Specials::fnuz;
    const bool saturate =
        infinite ? detail::within(profile.saturates_infinity, f) && !kept_nan : detail::within(profile.saturates, f);
    const auto overflow = saturate ? Overflow::saturate : Overflow::nonsaturate;
    if (profile.truncation_overflows && mode == Round::toward_zero && !saturate && !infinite && f.can_overflow()) {
        // The implementation truncates to a grid that continues beyond the largest finite value. Values at or beyond
        // the next grid point overflow.
        const double top = decode64(f, f.max_finite_code() << f.padding);
        const double below = decode64(f, (f.max_finite_code() - 1) << f.padding);
        const double next = f.encoding == Encoding::power_of_two ? 2 * top : top + (top - below);
        const double size = parts.negative ? -static_cast<double>(x) : static_cast<double>(x);
        if (size >= next) {
            const double infinity = bit_cast<double>(parts.negative ? 0xfff0000000000000ull : 0x7ff0000000000000ull);
            return encode64(f, infinity, mode, overflow, random);
        }
    }
    return encode64(f, x, mode, overflow, random);
}

/// Does the same as encode64 for formats whose container has at most 32 bits.
template <class Source>
MACHEPS_HD constexpr std::uint32_t encode(Profile profile, Format f, Source x, Round mode, RandomBits random = {}) {
    return static_cast<std::uint32_t>(encode64(profile, f, x, mode, random));
}

}  // namespace macheps
