// SPDX-License-Identifier: Apache-2.0
// Encodes numbers to codes and decodes codes, with integer operations only. CPU and GPU compile the same source.
#pragma once
#include "core/format.hpp"
#include "core/rounding.hpp"

namespace macheps {

/// The parts of a number. A finite number is (-1)^negative * significand * 2^exponent.
struct Unpacked {
    enum class Kind : std::uint8_t { finite, infinite, nan } kind;
    bool negative;
    std::uint64_t significand;  ///< 0 for zero; not normalised
    int exponent;               ///< from -2^30 to 2^30
};

MACHEPS_HD constexpr Unpacked unpack(float x) {
    const auto u = bit_cast<std::uint32_t>(x);
    const std::uint32_t field = (u >> 23) & 0xff, fraction = u & 0x7fffffu;
    const bool negative = (u >> 31) != 0;
    if (field == 0xff) return {fraction != 0 ? Unpacked::Kind::nan : Unpacked::Kind::infinite, negative, 0, 0};
    return {Unpacked::Kind::finite, negative, fraction | (field != 0 ? 0x800000u : 0u),
            static_cast<int>(max_of(field, 1u)) - 150};
}

MACHEPS_HD constexpr Unpacked unpack(double x) {
    const auto u = bit_cast<std::uint64_t>(x);
    const std::uint64_t field = (u >> 52) & 0x7ff, fraction = u & 0xfffffffffffffull;
    const bool negative = (u >> 63) != 0;
    if (field == 0x7ff) return {fraction != 0 ? Unpacked::Kind::nan : Unpacked::Kind::infinite, negative, 0, 0};
    return {Unpacked::Kind::finite, negative, fraction | (field != 0 ? std::uint64_t{1} << 52 : 0),
            static_cast<int>(max_of(field, std::uint64_t{1})) - 1075};
}

namespace detail {

MACHEPS_HD constexpr int bit_length(std::uint64_t x) { return 64 - countl_zero(x); }

/// Rounds to e8m0fnu. The sign is ignored. Zero gives the smallest scale, as in CUDA and PyTorch. Round::nearest_even
/// rounds a tie up, because the lower neighbour is odd: its significand is 1, as in every number of e8m0fnu. Unlike
/// this function, PyTorch and ml_dtypes round up everything between the two smallest scales (ScaleLeast in
/// profile.hpp).
MACHEPS_HD constexpr std::uint64_t encode_power_of_two(Format f, Unpacked x, Round mode, Overflow overflow,
                                                       RandomBits random) {
    const std::uint64_t limit = overflow == Overflow::saturate ? f.max_finite_code() : f.nan_code();
    if (x.kind == Unpacked::Kind::nan) return f.nan_code();
    if (x.kind == Unpacked::Kind::infinite) return limit;
    if (x.significand == 0) return 0;
    const int length = bit_length(x.significand), exponent = length - 1 + x.exponent;
    if (exponent < f.emin()) return 0;
    if (exponent > 127) return rounds_inward(mode, false) ? f.max_finite_code() : limit;
    const std::uint64_t floor_code = static_cast<std::uint64_t>(exponent + f.exponent_bias);
    const std::uint64_t fraction = x.significand ^ (std::uint64_t{1} << (length - 1));
    std::uint64_t code = floor_code;
    if (fraction != 0) {
        switch (mode) {
            case Round::nearest_even:
            case Round::nearest_away:
                code += (fraction >> (length - 2)) != 0 ? 1 : 0;
                break;
            case Round::up:
                code += 1;
                break;
            case Round::to_odd:
                code |= 1;
                break;
            case Round::stochastic:
                code += round_shift(fraction, length - 1, mode, false, random);
                break;
            default:
                break;
        }
    }
    if (code <= f.max_finite_code()) return code;
    return rounds_inward(mode, false) ? f.max_finite_code() : limit;
}

/// Rounds to MXINT8. Always saturates. The range is symmetric: like microxcaling, the function never returns the code
/// 0x80.
MACHEPS_HD constexpr std::uint64_t encode_fixed_point(Format f, Unpacked x, Round mode, RandomBits random) {
    const std::uint64_t top = f.max_finite_code();
    std::uint64_t magnitude = top;
    if (x.kind == Unpacked::Kind::finite) {
        const int drop = -x.exponent - (f.precision - 1);
        // Magnitudes of 2 and above saturate. Excluding them here also keeps the left shift in round_shift in range.
        const bool large = x.significand != 0 && bit_length(x.significand) + x.exponent > 1;
        if (!large) magnitude = min_of(round_shift(x.significand, drop, mode, x.negative, random), top);
    }
    const bool negative = x.negative && x.kind != Unpacked::Kind::nan;
    return (negative ? ~magnitude + 1 : magnitude) & ((std::uint64_t{1} << f.bits) - 1);
}

MACHEPS_HD constexpr std::uint64_t encode_unpacked(Format f, Unpacked x, Round mode, Overflow overflow,
                                                   RandomBits random) {
    require_random_bits(mode, random);
    if (f.encoding == Encoding::power_of_two) return encode_power_of_two(f, x, mode, overflow, random);
    if (f.encoding == Encoding::fixed_point) return encode_fixed_point(f, x, mode, random);

    const std::uint64_t sign = x.negative ? f.sign_bit() : 0;
    if (x.kind == Unpacked::Kind::nan) {
        return (f.specials == Specials::inf_and_nan || f.specials == Specials::nan_only ? sign : 0) | f.nan_code();
    }
    std::uint64_t code = f.max_finite_code() + 1;  // for an infinity: above the largest finite code
    bool inward = false;
    if (x.kind == Unpacked::Kind::finite) {
        // The last place of the result has the exponent `quantum`. The last quantum - x.exponent bits of the source are
        // below this place.
        const int top = x.significand != 0 ? bit_length(x.significand) - 1 + x.exponent : f.emin();
        const int quantum = max_of(top, f.emin()) - f.fraction_bits();
        const std::uint64_t ulps = round_shift(x.significand, quantum - x.exponent, mode, x.negative, random);
        // The leading one of `ulps` adds 1 to the exponent field, and a carry from rounding propagates into that field.
        // An exponent that does not fit into the field is replaced by the smallest exponent that does not fit, because
        // every code with that exponent exceeds the largest finite code.
        const int field = min_of(max_of(top, f.emin()) - f.emin(), 1 << f.exponent_bits());
        code = ulps + (static_cast<std::uint64_t>(field) << f.fraction_bits());
        inward = rounds_inward(mode, x.negative);  // rounding inward keeps a finite value finite
    }
    if (code <= f.max_finite_code()) return code == 0 && !f.has_negative_zero() ? 0 : sign | code;
    if (overflow == Overflow::saturate || inward || !f.can_overflow()) return sign | f.max_finite_code();
    return sign | f.overflow_code();  // fnuz: the code of the NaN is the sign bit, so both signs give the NaN
}

}  // namespace detail

/// Rounds `x`, a float or double, to format `f` once. Returns the code, which is right-aligned except that f.padding
/// zero bits follow it. Every input has a result. A NaN gives the format's canonical quiet NaN with the sign of `x`, or
/// the largest finite value if the format has no NaN. `overflow` determines the result of an overflow. `random` is read
/// only by Round::stochastic, which requires it (require_random_bits). Source: IEEE 754-2019 4.3, OCP OFP8 1.0, OCP MX
/// 1.0.
template <class Source>
MACHEPS_HD constexpr std::uint64_t encode64(Format f, Source x, Round mode, Overflow overflow, RandomBits random = {}) {
    return detail::encode_unpacked(f, unpack(x), mode, overflow, random) << f.padding;
}

/// Does the same as encode64 for formats whose container has at most 32 bits.
template <class Source>
MACHEPS_HD constexpr std::uint32_t encode(Format f, Source x, Round mode, Overflow overflow, RandomBits random = {}) {
    return static_cast<std::uint32_t>(encode64(f, x, mode, overflow, random));
}

/// Returns the value of a code. The result is exact for every format. Bits of the container outside the code are
/// ignored. A NaN becomes quiet, keeps its sign (fnuz: positive) and loses its payload.
MACHEPS_HD constexpr double decode64(Format f, std::uint64_t container) {
    const std::uint64_t code = (container >> f.padding) & (f.sign_bit() | f.magnitude_mask());
    if (f.encoding == Encoding::fixed_point) {
        const auto value = static_cast<std::int32_t>(code ^ f.sign_bit()) - static_cast<std::int32_t>(f.sign_bit());
        return value * Format::power_of_two(1 - f.precision);
    }
    if (f.encoding == Encoding::power_of_two) {
        if (code > f.max_finite_code()) return bit_cast<double>(std::uint64_t{0x7ff8000000000000});
        return Format::power_of_two(static_cast<int>(code) - f.exponent_bias);
    }
    const std::uint64_t magnitude = code & f.magnitude_mask(),
                        sign = (code & f.sign_bit()) != 0 ? std::uint64_t{1} << 63 : 0;
    if (f.specials == Specials::fnuz && code == f.sign_bit())
        return bit_cast<double>(std::uint64_t{0x7ff8000000000000});
    if (magnitude > f.max_finite_code()) {
        const bool infinite = f.has_inf() && magnitude == f.inf_code();
        return bit_cast<double>(sign |
                                (infinite ? std::uint64_t{0x7ff0000000000000} : std::uint64_t{0x7ff8000000000000}));
    }
    const std::uint64_t fraction = magnitude & (f.min_normal_code() - 1), field = magnitude >> f.fraction_bits();
    if (f.bits == 64) return bit_cast<double>(sign | magnitude);
    if (field == 0 && fraction == 0) return bit_cast<double>(sign);
    // A subnormal is normalised: its leading one becomes the hidden bit. The exponent range of fp64 is wide enough for
    // every narrower format.
    const int lead = field != 0 ? f.fraction_bits() : detail::bit_length(fraction) - 1;
    const std::uint64_t significand = field != 0 ? fraction | f.min_normal_code() : fraction;
    const int exponent = static_cast<int>(max_of(field, std::uint64_t{1})) - f.exponent_bias - f.fraction_bits() + lead;
    const std::uint64_t aligned = (significand << (52 - lead)) & 0xfffffffffffffull;
    return bit_cast<double>(sign | static_cast<std::uint64_t>(exponent + 1023) << 52 | aligned);
}

/// Returns the value of a code as fp32. The result is exact for every format except fp64, which is rounded to nearest
/// even.
MACHEPS_HD constexpr float decode(Format f, std::uint64_t container) {
    const auto bits = encode(fp32, decode64(f, container), Round::nearest_even, Overflow::nonsaturate);
    return bit_cast<float>(bits);
}

/// Rounds `x` to `f` and returns the value of the result.
MACHEPS_HD constexpr float quantize(Format f, float x, Round mode, Overflow overflow, RandomBits random = {}) {
    return decode(f, encode64(f, x, mode, overflow, random));
}

static_assert(encode(e4m3fn, 464.0f, Round::nearest_even, Overflow::nonsaturate) == 0x7e, "tie: 448 is even");
static_assert(encode(fp16, 0x1p-25f, Round::nearest_even, Overflow::nonsaturate) == 0);
static_assert(encode(fp16, 0x1.8p-25f, Round::nearest_even, Overflow::nonsaturate) == 1);
static_assert(encode(bf16, 0x1.010001p0, Round::nearest_even, Overflow::nonsaturate) == 0x3f81,
              "one rounding from fp64");
static_assert(decode(e2m1fn, 0xf) == -6.0f && decode(e5m2, 0x01) == 0x1p-16f);

}  // namespace macheps
