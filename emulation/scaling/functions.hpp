// SPDX-License-Identifier: Apache-2.0
// Computes the scale of a group from its largest magnitude, with one function per published rule. Host and device.
// Arithmetic is in fp32 with each operation rounded, unless a function says otherwise. `encode` scales multiply before
// the cast, `decode` scales after it. `max` is the largest finite value of the element format. Sources:
// NVIDIA/TransformerEngine common/recipe, common/util, common/cast/nvfp4; pytorch/ao float8, prototype/mx_formats;
// deepseek-ai/DeepGEMM utils/math.py; OCP MX 1.0.
#pragma once
#include "core/codec.hpp"

namespace macheps::scale_function {

inline constexpr float largest_fp32 = 0x1.fffffep127f;
/// Largest magnitude of e2m1 times that of e4m3. The largest element of an NVFP4 tensor is scaled to this value.
inline constexpr float nvfp4_range = 6.0f * 448.0f;

MACHEPS_HD constexpr bool is_finite(float x) { return (bit_cast<std::uint32_t>(x) & 0x7f800000u) != 0x7f800000u; }
/// Returns the power of two at or below x > 0, by clearing the fraction. A subnormal becomes 0.
MACHEPS_HD constexpr float floor_power(float x) { return bit_cast<float>(bit_cast<std::uint32_t>(x) & 0x7f800000u); }
MACHEPS_HD constexpr float at_most_largest(float x) { return x > largest_fp32 ? largest_fp32 : x; }

// --- one fp32 encode scale

/// Returns the scale of Transformer Engine's delayed scaling, fused kernel: (max 2^-margin) / amax; `old` if amax is 0,
/// Inf or NaN; the largest fp32 number on overflow.
MACHEPS_HD constexpr float te_delayed(float amax, float max, int margin, float old) {
    if (!(amax > 0) || !is_finite(amax)) return old;
    return at_most_largest((max * static_cast<float>(Format::power_of_two(-margin))) / amax);
}

/// Returns the same scale, unfused: torch evaluates max / amax as fl(1 / amax) max, and then divides by 2^margin.
MACHEPS_HD constexpr float te_delayed_unfused(float amax, float max, int margin, float old) {
    if (!(amax > 0) || !is_finite(amax)) return old;
    return at_most_largest(((1.0f / amax) * max) / static_cast<float>(Format::power_of_two(margin)));
}

/// Returns the scale of Transformer Engine's current scaling: max / a, where a = max(amax, eps). If a is 0, Inf or NaN,
/// the scale is 1. On overflow it is `overflow` (per tensor the largest fp32 number, per block that of the input's
/// type). If `power` is true, the fraction is cleared at the end.
MACHEPS_HD constexpr float te_current(float amax, float max, float eps = 0, bool power = false,
                                      float overflow = largest_fp32) {
    const float a = amax < eps ? eps : amax;
    if (!(a > 0) || !is_finite(a)) return 1;
    float s = max / a;
    if (!is_finite(s)) s = overflow;
    return power ? floor_power(s) : s;
}

/// Returns exp2(floor(log2 s)) with the logarithm rounded to fp32, for a normal s > 0. This is the power of two at or
/// below s, or the one above if log2 s rounds up to its exponent. Proof: with s = 2^k (1 - d), log2 s = k - d / ln 2.
/// (d stays below 2^-18, so the next term of the series changes no decision.) It rounds to k if d / ln 2 is less than
/// half the distance from k to the next lower fp32 number. A tie cannot occur, because log2 s is irrational.
MACHEPS_HD constexpr float floor_power_by_log2(float s) {
    const std::uint32_t field = bit_cast<std::uint32_t>(s) >> 23;
    // For every k, the logarithm rounds up only for s at most 44 ulps below the power.
    if ((bit_cast<std::uint32_t>(s) & 0x7fffffu) < 0x800000u - 64) return floor_power(s);
    const int k = static_cast<int>(field) + 1 - 127;
    const double size = k < 0 ? -k : k;
    if (size == 0 || field >= 254) return floor_power(s);  // near 0, fp32 distinguishes all these logarithms
    int exponent = 0;                                      // of the number k
    while (Format::power_of_two(exponent + 1) <= size) ++exponent;
    // fp32 numbers just below a positive power of two are twice as close to each other.
    const bool is_close = k > 0 && Format::power_of_two(exponent) == size;
    const double half = Format::power_of_two(exponent - (is_close ? 25 : 24));
    const double power = Format::power_of_two(k), d = (power - double{s}) / power;
    return d * 1.4426950408889634 < half ? static_cast<float>(power) : floor_power(s);
}

/// Returns the scale of torchao float8: max / max(amax, 1e-12) in fp64, rounded once to fp32. NaN propagates. If
/// `power` is true, returns the power of two at or below it as torch computes it: by a logarithm in fp32.
MACHEPS_HD constexpr float ao_fp8(float amax, float max, bool power = false) {
    const double floor = 1e-12, size = double{amax};
    const auto s = static_cast<float>(double{max} / (size < floor ? floor : size));
    return power && s == s ? floor_power_by_log2(s) : s;
}

// --- one fp32 decode scale

/// Returns the scale of DeepGEMM: max(amax, floor) / max, where max is 448 for e4m3.
/// Elements are multiplied by fl32(1 / decode).
/// If `power` is true, returns the power of two at or above it, with exponent field 1 to 254; Inf and NaN give 2^127.
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

/// Returns the byte of the power of two at or above fl32(amax fl32(1 / max)). No element saturates with this scale.
MACHEPS_HD constexpr std::uint32_t rounded_up_byte(float amax, float max) {
    const auto bits = bit_cast<std::uint32_t>(amax * (1.0f / max));
    const std::uint32_t field = bits >> 23, fraction = bits & 0x7fffffu;
    if (field == 0) return fraction > 0x400000u ? 1 : 0;
    return field + (fraction != 0 ? 1u : 0u);
}

/// Returns the byte of Transformer Engine's MXFP8 scale (RCEIL, saturating conversion): Inf gives 254, NaN 255.
MACHEPS_HD constexpr std::uint32_t te_mxfp8(float amax, float max) {
    if (amax != amax) return 255;
    if (!is_finite(amax)) return 254;
    return min_of(rounded_up_byte(amax, max), 254u);
}

/// Returns the byte of torchao's RCEIL scale: the same, but Inf gives 255.
MACHEPS_HD constexpr std::uint32_t ao_rceil(float amax, float max) {
    return is_finite(amax) ? rounded_up_byte(amax, max) : 255;
}

/// Returns the byte of OCP MX 1.0 and torchao FLOOR: floor(log2 amax) - floor(log2 max). A non-finite amax gives 255.
MACHEPS_HD constexpr std::uint32_t ao_floor(float amax, float max) {
    if (!is_finite(amax)) return 255;
    return clamped_byte(static_cast<int>(bit_cast<std::uint32_t>(amax) >> 23) - element_exponent(max));
}

/// Returns the byte of torchao CEIL: ceil(log2 amax) - floor(log2 max). A nonzero fraction of amax adds 1 to its
/// exponent.
MACHEPS_HD constexpr std::uint32_t ao_ceil(float amax, float max) {
    if (!is_finite(amax)) return 255;
    const auto bits = bit_cast<std::uint32_t>(amax);
    return clamped_byte(static_cast<int>(bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1 : 0) - element_exponent(max));
}

/// Returns the byte of torchao EVEN: amax is first rounded half up to the element's fraction bits, then FLOOR applies.
MACHEPS_HD constexpr std::uint32_t ao_even(float amax, float max, int fraction_bits) {
    if (!is_finite(amax)) return 255;
    const std::uint32_t bits = bit_cast<std::uint32_t>(amax) + (1u << (22 - fraction_bits));
    return ao_floor(bit_cast<float>(bits & 0x7f800000u), max);
}

/// Returns 2^(byte - 127), or NaN for 255. e8m0_encode returns 2^(127 - byte), or NaN for 255.
MACHEPS_HD constexpr float e8m0_decode(std::uint32_t byte) {
    if (byte == 255) return bit_cast<float>(0x7fc00000u);
    return static_cast<float>(Format::power_of_two(static_cast<int>(byte) - 127));
}
MACHEPS_HD constexpr float e8m0_encode(std::uint32_t byte) {
    return byte == 255 ? bit_cast<float>(0x7fc00000u) : e8m0_decode(254 - byte);
}

// --- NVFP4: a scale of the tensor and one of e4m3 for each block of 16

/// Scale of a block: `block` is the stored number of e4m3, and `encode` multiplies the elements.
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
/// Returns block = e4m3(amax fl32(tensor fl32(1/6))), encode = min(1 / fl32(block fl32(1 / tensor)), largest fp32). The
/// block's scale may be 0; its elements then decode to 0.
MACHEPS_HD constexpr BlockScale te_nvfp4_block(float amax, float tensor) {
    const float block = to_e4m3(at_most_largest(amax * (tensor * (1.0f / 6.0f))));
    return {block, at_most_largest(1.0f / (block * (1.0f / tensor)))};
}
/// Returns the factor of a product of two such tensors: the product of their amaxes times fl32(1 / 2688^2). The
/// tensors' scales are not used.
MACHEPS_HD constexpr float te_nvfp4_product(float amax_a, float amax_b) {
    return (amax_a * amax_b) * static_cast<float>(1.0 / (2688.0 * 2688.0));
}

/// Returns torchao's decode scale of the tensor, amax / 2688.
MACHEPS_HD constexpr float ao_nvfp4_tensor(float amax) { return amax / nvfp4_range; }
/// Returns block = e4m3((amax / 6) / tensor), clamped to [2^-6, 448], and encode = fl32(1 / tensor) / block.
MACHEPS_HD constexpr BlockScale ao_nvfp4_block(float amax, float tensor) {
    const float wanted = (amax / 6.0f) / tensor, least = 0x1p-6f;
    const float block = to_e4m3(wanted < least ? least : wanted > 448.0f ? 448.0f : wanted);
    return {block, (1.0f / tensor) / block};
}

}  // namespace macheps::scale_function
