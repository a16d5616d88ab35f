// SPDX-License-Identifier: Apache-2.0
// fp32 functions of our own. They use only + - * / sqrt fma and integer operations, so that every engine returns the
// same bits.
#pragma once
#include "core/hd.hpp"
#include "core/math64.hpp"

namespace macheps {
namespace math {

// The operations that core/math.inl needs, for float.
MACHEPS_HD inline float select(bool mask, float a, float b) { return mask ? a : b; }
MACHEPS_HD inline std::int32_t select(bool mask, std::int32_t a, std::int32_t b) { return mask ? a : b; }
MACHEPS_HD inline bool any(bool mask) { return mask; }
MACHEPS_HD inline std::int32_t bits(float x) { return bit_cast<std::int32_t>(x); }
MACHEPS_HD inline float from_bits(std::int32_t x) { return bit_cast<float>(x); }
MACHEPS_HD inline float to_float(std::int32_t x) { return static_cast<float>(x); }
MACHEPS_HD inline float abs(float x) { return from_bits(bits(x) & 0x7fffffff); }

}  // namespace math

#define MACHEPS_MATH_FN MACHEPS_HD inline
#define MACHEPS_MATH_REAL float
#define MACHEPS_MATH_INT std::int32_t
#include "core/math.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL
#undef MACHEPS_MATH_INT

namespace math {
namespace detail {

/// Reduces a finite number x, with |x| of at least 2^20, by the method of Payne and Hanek. Let |x| = m 2^e with an
/// integer m. Only 96 bits of 2/pi affect |x| 2/pi modulo 4, so m is multiplied by these bits alone. The product keeps
/// 62 bits of fraction. They suffice, because no float is nearer than 2^-30 pi/2 to a multiple of pi/2.
MACHEPS_HD inline Reduced reduce_large(float x) {
    // The bits of 2/pi in words of 32 bits. The first bit has the weight 2^-1.
    constexpr std::uint32_t two_over_pi[7] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                              0xdb629599, 0x3c439041, 0xfe5163ab};
    const auto u = bit_cast<std::uint32_t>(x);
    const std::uint64_t m = (u & 0x7fffff) | 0x800000;
    // The window of 96 bits begins at the bit of 2/pi that has the weight 2^-(e - 1). `place` is the position of this
    // bit in a sequence that consists of 32 zeros and the bits of 2/pi, so position 32 has the weight 2^-1.
    const int place = static_cast<int>((u >> 23) & 0xff) - 150 + 30, word = place >> 5, shift = place & 31;
    std::uint64_t window[3] = {};
    for (int i = 0; i < 3; ++i) {
        const std::uint64_t high = word + i >= 1 ? two_over_pi[word + i - 1] : 0, low = two_over_pi[word + i];
        window[i] = ((high << 32 | low) >> (32 - shift)) & 0xffffffff;
    }
    // Only the low 96 bits of the product matter. The first 64 of them are kept: 2 bits of the quadrant and 62 bits of
    // the fraction.
    const std::uint64_t product = (m * window[0] << 32) + m * window[1] + (m * window[2] >> 32);
    const std::uint64_t quadrant = (product + (std::uint64_t{1} << 61)) >> 62;
    const auto fraction = static_cast<std::int64_t>(product - (quadrant << 62));
    const double r = static_cast<double>(fraction) * 0x1p-62 * 0x1.921fb54442d18p+0;
    // The sign of x was ignored so far. If x is negative, `r` and the quadrant are negated.
    const bool negative = (u >> 31) != 0;
    return {negative ? -r : r, 0, static_cast<int>(negative ? 4 - quadrant : quadrant) & 3};
}

MACHEPS_HD inline Reduced reduce(float x) {
    return x >= -0x1p20f && x <= 0x1p20f ? reduce_moderate(x) : reduce_large(x);
}

}  // namespace detail

/// Return the sine or the cosine of any float, computed in fp64. The result is the nearest float, except for
/// sin(+-0x1.33333p13), cos(+-0x1.3170fp63) and cos(+-0x1.2b9622p67). There, the exact value is less than 10^-9 ulp
/// from the midpoint of two floats, and fp64 rounds it to the midpoint. All 2^32 inputs were compared (docs/math.md).
/// +-Inf and NaN give the canonical NaN.
MACHEPS_HD inline float sin(float x) {
    if ((bits(x) & 0x7f800000) == 0x7f800000) return canonical_nan();
    if (x == 0) return x;  // keeps -0
    return static_cast<float>(detail::sin_quadrant(detail::reduce(x)));
}
MACHEPS_HD inline float cos(float x) {
    if ((bits(x) & 0x7f800000) == 0x7f800000) return canonical_nan();
    detail::Reduced reduced = detail::reduce(x);
    reduced.quadrant += 1;
    return static_cast<float>(detail::sin_quadrant(reduced));
}

}  // namespace math
}  // namespace macheps
