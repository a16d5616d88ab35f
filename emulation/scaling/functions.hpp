// SPDX-License-Identifier: Apache-2.0
// Scales of a group of elements, with one function per published rule. `amax` is the largest magnitude of the group,
// `max` the largest finite value of the element format. Elements are multiplied by an `encode` scale before the cast,
// and codes by a `decode` scale after it. Arithmetic is in fp32 with each operation rounded, unless the comment on a
// function says otherwise. Host and device. Sources: NVIDIA/TransformerEngine common/recipe, common/util,
// common/cast/nvfp4; pytorch/ao float8, prototype/mx_formats; deepseek-ai/DeepGEMM utils/math.py; OCP MX 1.0.
#pragma once
#include "core/codec.hpp"

namespace macheps::scale_function {

inline constexpr float largest_fp32 = 0x1.fffffep127f;
/// Product of the largest magnitudes of e2m1 and e4m3. The largest element of an NVFP4 tensor is scaled to this value.
inline constexpr float nvfp4_range = 6.0f * 448.0f;

MACHEPS_HD constexpr bool is_finite(float x) { return (bit_cast<std::uint32_t>(x) & 0x7f800000u) != 0x7f800000u; }
/// Returns the power of two at or below x > 0, by clearing the fraction. A subnormal becomes 0.
MACHEPS_HD constexpr float floor_power(float x) { return bit_cast<float>(bit_cast<std::uint32_t>(x) & 0x7f800000u); }
MACHEPS_HD constexpr float at_most_largest(float x) { return x > largest_fp32 ? largest_fp32 : x; }

// --- one fp32 encode scale

/// Returns the scale that Transformer Engine's fused kernel for delayed scaling computes: (max 2^-margin) / amax.
/// Returns `old` if amax is 0, Inf or NaN, and the largest fp32 number on overflow.
MACHEPS_HD constexpr float te_delayed(float amax, float max, int margin, float old) {
    if (!(amax > 0) || !is_finite(amax)) return old;
    return at_most_largest((max * static_cast<float>(Format::power_of_two(-margin))) / amax);
}

/// Returns the scale of te_delayed() as Transformer Engine computes it without the fused kernel: torch evaluates
/// max / amax as fl(1 / amax) max, and then divides by 2^margin.
MACHEPS_HD constexpr float te_delayed_unfused(float amax, float max, int margin, float old) {
    if (!(amax > 0) || !is_finite(amax)) return old;
    return at_most_largest(((1.0f / amax) * max) / static_cast<float>(Format::power_of_two(margin)));
}

/// Returns the scale of Transformer Engine's current scaling: max / a, where a = max(amax, eps). If a is 0, Inf or NaN,
/// the scale is 1. If the division overflows, the scale is `overflow`: the largest fp32 number for scales per tensor,
/// the largest number of the input's type for scales per block. If `power` is true, the scale is finally rounded down
/// to a power of two.
MACHEPS_HD constexpr float te_current(float amax, float max, float eps = 0, bool power = false,
                                      float overflow = largest_fp32) {
    const float a = amax < eps ? eps : amax;
    if (!(a > 0) || !is_finite(a)) return 1;
    float s = max / a;
    if (!is_finite(s)) s = overflow;
    return power ? floor_power(s) : s;
}

/// Returns exp2(floor(log2 s)) with the logarithm rounded to fp32, for a normal s > 0. This is the power of two at or
/// below s, with one exception: if log2 s rounds up to an integer k, the result is 2^k, which is above s. The exception
/// is found as follows. With s = 2^k (1 - d), the logarithm is k - d / ln 2. (d is below 2^-18, so the next term of the
/// series does not affect the comparison.) It rounds to k if d / ln 2 is less than half the distance from k to the next
/// lower fp32 number. A tie cannot occur, because log2 s is irrational.
MACHEPS_HD constexpr float floor_power_by_log2(float s) {
    const std::uint32_t field = bit_cast<std::uint32_t>(s) >> 23;
    // For every k, the logarithm rounds up only if s is at most 44 ulps below 2^k.
    if ((bit_cast<std::uint32_t>(s) & 0x7fffffu) < 0x800000u - 64) return floor_power(s);
    const int k = static_cast<int>(field) + 1 - 127;
    const double size = k < 0 ? -k : k;
    if (size == 0 || field >= 254) return floor_power(s);  // fp32 is so fine near 0 that no logarithm rounds to k = 0
    int exponent = 0;                                      // floor(log2 |k|)
    while (Format::power_of_two(exponent + 1) <= size) ++exponent;
    // Just below a positive power of two, fp32 numbers are half as far apart as above it.
    const bool is_close = k > 0 && Format::power_of_two(exponent) == size;
    const double half = Format::power_of_two(exponent - (is_close ? 25 : 24));
    const double power = Format::power_of_two(k), d = (power - double{s}) / power;
    return d * 1.4426950408889634 < half ? static_cast<float>(power) : floor_power(s);
}

/// Returns the scale of torchao float8: max / max(amax, 1e-12) in fp64, rounded once to fp32. NaN propagates. If
/// `power` is true, the scale is rounded down to a power of two as in torch, with an fp32 logarithm.
MACHEPS_HD constexpr float ao_fp8(float amax, float max, bool power = false) {
    const double floor = 1e-12, size = double{amax};
    const auto s = static_cast<float>(double{max} / (size < floor ? floor : size));
    return power && s == s ? floor_power_by_log2(s) : s;
}

// --- one fp32 decode scale

/// Returns the decode scale of DeepGEMM: max(amax, floor) / max, where max is 448 for e4m3. Elements are multiplied by
/// fl32(1 / scale). If `power` is true, the scale is rounded up to a power of two with exponent field 1 to 254. Inf and
/// NaN then give 2^127.
MACHEPS_HD constexpr float deepgemm(float amax, float max, float floor = 1e-4f, bool power = false) {
    const float d = (amax < floor ? floor : amax) / max;
    if (!power) return d;
    const auto bits = bit_cast<std::uint32_t>(d);
    const std::uint32_t field = (bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1u : 0u);
    return bit_cast<float>(min_of(max_of(field, 1u), 254u) << 23);
}

// --- one byte of e8m0: decode scale 2^(byte - 127), 0xff NaN

/// Returns floor(log2 max).
MACHEPS_HD constexpr int element_exponent(float max) {
    return static_cast<int>(bit_cast<std::uint32_t>(max) >> 23) - 127;
}
MACHEPS_HD constexpr std::uint32_t clamped_byte(int exponent_field) {
    return static_cast<std::uint32_t>(min_of(max_of(exponent_field, 0), 255));
}

/// Returns the byte of the smallest power of two that is not below fl32(amax fl32(1 / max)). No element saturates with
/// this scale.
MACHEPS_HD constexpr std::uint32_t rounded_up_byte(float amax, float max) {
    const auto bits = bit_cast<std::uint32_t>(amax * (1.0f / max));
    const std::uint32_t field = bits >> 23, fraction = bits & 0x7fffffu;
    if (field == 0) return fraction > 0x400000u ? 1 : 0;
    return field + (fraction != 0 ? 1u : 0u);
}

/// Returns the byte of Transformer Engine's MXFP8 scale (RCEIL, saturating conversion). If amax is Inf, the byte is
/// 254. If amax is NaN, it is 255.
MACHEPS_HD constexpr std::uint32_t te_mxfp8(float amax, float max) {
    if (amax != amax) return 255;
    if (!is_finite(amax)) return 254;
    return min_of(rounded_up_byte(amax, max), 254u);
}

/// Returns the byte of torchao's RCEIL scale. It differs from te_mxfp8() only if amax is Inf: the byte is then 255.
MACHEPS_HD constexpr std::uint32_t ao_rceil(float amax, float max) {
    return is_finite(amax) ? rounded_up_byte(amax, max) : 255;
}

/// Returns the byte of the scale of OCP MX 1.0, called FLOOR in torchao. The exponent of this scale is
/// floor(log2 amax) - floor(log2 max). If amax is Inf or NaN, the byte is 255.
MACHEPS_HD constexpr std::uint32_t ao_floor(float amax, float max) {
    if (!is_finite(amax)) return 255;
    return clamped_byte(static_cast<int>(bit_cast<std::uint32_t>(amax) >> 23) - element_exponent(max));
}

/// Returns the byte of torchao's CEIL scale, whose exponent is ceil(log2 amax) - floor(log2 max). If amax is not a
/// power of two, ceil(log2 amax) is the exponent of amax plus 1.
MACHEPS_HD constexpr std::uint32_t ao_ceil(float amax, float max) {
    if (!is_finite(amax)) return 255;
    const auto bits = bit_cast<std::uint32_t>(amax);
    return clamped_byte(static_cast<int>(bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1 : 0) - element_exponent(max));
}

/// Returns the byte of torchao's EVEN scale: amax is rounded half up to the fraction bits of the elements, and
/// ao_floor() is applied to the result.
MACHEPS_HD constexpr std::uint32_t ao_even(float amax, float max, int fraction_bits) {
    if (!is_finite(amax)) return 255;
    const std::uint32_t bits = bit_cast<std::uint32_t>(amax) + (1u << (22 - fraction_bits));
    return ao_floor(bit_cast<float>(bits & 0x7f800000u), max);
}

/// Returns 2^(byte - 127), or NaN if the byte is 255. e8m0_encode() returns 2^(127 - byte), or NaN if the byte is 255.
MACHEPS_HD constexpr float e8m0_decode(std::uint32_t byte) {
    if (byte == 255) return bit_cast<float>(0x7fc00000u);
    return static_cast<float>(Format::power_of_two(static_cast<int>(byte) - 127));
}
MACHEPS_HD constexpr float e8m0_encode(std::uint32_t byte) {
    return byte == 255 ? bit_cast<float>(0x7fc00000u) : e8m0_decode(254 - byte);
}

// --- NVFP4: one scale for the tensor, and one e4m3 scale for each block of 16

/// Scale of a block. `block` is the stored e4m3 number. Elements are multiplied by `encode` before the cast.
struct BlockScale {
    float block, encode;
};

MACHEPS_HD constexpr float to_e4m3(float x) {
    constexpr Format e4m3{.bits = 8, .precision = 4, .exponent_bias = 7, .specials = Specials::nan_only};
    return quantize(e4m3, x, Round::nearest_even, Overflow::saturate);
}

/// Returns Transformer Engine's encode scale of the tensor: min(2688 / amax, largest fp32), or 1 if amax is 0 or Inf.
MACHEPS_HD constexpr float te_nvfp4_tensor(float amax) {
    const float s = at_most_largest(nvfp4_range / amax);
    return amax == 0 || s == 0 ? 1.0f : s;
}
/// Returns Transformer Engine's scale of a block, where `tensor` is the encode scale of the tensor:
///   block = e4m3(amax fl32(tensor fl32(1/6)))
///   encode = min(1 / fl32(block fl32(1 / tensor)), largest fp32)
/// `block` may be 0. All elements of the block then decode to 0.
MACHEPS_HD constexpr BlockScale te_nvfp4_block(float amax, float tensor) {
    const float block = to_e4m3(at_most_largest(amax * (tensor * (1.0f / 6.0f))));
    return {block, at_most_largest(1.0f / (block * (1.0f / tensor)))};
}
/// Returns Transformer Engine's factor for a product of two NVFP4 tensors: the product of their amaxes times
/// fl32(1 / 2688^2). The scales of the tensors are not used.
MACHEPS_HD constexpr float te_nvfp4_product(float amax_a, float amax_b) {
    return (amax_a * amax_b) * static_cast<float>(1.0 / (2688.0 * 2688.0));
}

/// Returns torchao's decode scale of the tensor, amax / 2688.
MACHEPS_HD constexpr float ao_nvfp4_tensor(float amax) { return amax / nvfp4_range; }
/// Returns torchao's scale of a block: block = e4m3(x), where x is (amax / 6) / tensor clamped to [2^-6, 448], and
/// encode = fl32(1 / tensor) / block. `tensor` is the decode scale of the tensor.
MACHEPS_HD constexpr BlockScale ao_nvfp4_block(float amax, float tensor) {
    const float wanted = (amax / 6.0f) / tensor, least = 0x1p-6f;
    const float block = to_e4m3(wanted < least ? least : wanted > 448.0f ? 448.0f : wanted);
    return {block, (1.0f / tensor) / block};
}

}  // namespace macheps::scale_function
