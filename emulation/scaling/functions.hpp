// SPDX-License-Identifier: Apache-2.0
// From the largest magnitude of a group to its scale: one function per published rule. Host and device; fp32, each
// operation rounded, unless a function says otherwise. `encode` scales multiply before the cast, `decode` scales after;
// `max` is the largest finite value of the element format. Sources: NVIDIA/TransformerEngine common/recipe,
// common/util, common/cast/nvfp4; pytorch/ao float8, prototype/mx_formats; deepseek-ai/DeepGEMM utils/math.py; OCP
// MX 1.0.
#pragma once
#include "core/codec.hpp"

namespace macheps::scale_function {

inline constexpr float largest_fp32 = 0x1.fffffep127f;
/// Largest magnitude of e2m1 times that of e4m3: what an NVFP4 tensor's largest element is brought to.
inline constexpr float nvfp4_range = 6.0f * 448.0f;

MACHEPS_HD constexpr bool is_finite(float x) { return (bit_cast<std::uint32_t>(x) & 0x7f800000u) != 0x7f800000u; }
/// The power of two at or below x > 0: its fraction cleared. A subnormal becomes 0.
MACHEPS_HD constexpr float floor_power(float x) { return bit_cast<float>(bit_cast<std::uint32_t>(x) & 0x7f800000u); }
MACHEPS_HD constexpr float at_most_largest(float x) { return x > largest_fp32 ? largest_fp32 : x; }

// --- one fp32 encode scale

/// Transformer Engine, delayed scaling, fused kernel: (max 2^-margin) / amax; `old` where amax is 0, Inf or NaN; the
/// largest fp32 number on overflow.
MACHEPS_HD constexpr float te_delayed(float amax, float max, int margin, float old) {
    if (!(amax > 0) || !is_finite(amax)) return old;
    return at_most_largest((max * static_cast<float>(Format::power_of_two(-margin))) / amax);
}

/// The same, unfused: torch evaluates max / amax as fl(1 / amax) max, and then divides by 2^margin.
MACHEPS_HD constexpr float te_delayed_unfused(float amax, float max, int margin, float old) {
    if (!(amax > 0) || !is_finite(amax)) return old;
    return at_most_largest(((1.0f / amax) * max) / static_cast<float>(Format::power_of_two(margin)));
}

/// Transformer Engine, current scaling: max / amax, amax at least `eps`; 1 where that is 0, Inf or NaN; on overflow
/// `overflow` (per tensor the largest fp32 number, per block that of the input's type). With `power` the fraction is
/// then cleared.
MACHEPS_HD constexpr float te_current(float amax, float max, float eps = 0, bool power = false,
                                      float overflow = largest_fp32) {
    const float a = amax < eps ? eps : amax;
    if (!(a > 0) || !is_finite(a)) return 1;
    float s = max / a;
    if (!is_finite(s)) s = overflow;
    return power ? floor_power(s) : s;
}

/// exp2(floor(log2 s)) with the logarithm rounded to fp32, s > 0 and normal: the power of two at or below s, but the one
/// above where log2 s rounds up to it. With s = 2^k (1 - d), log2 s = k - d / ln 2 (d stays below 2^-18, where the next
/// term of the series decides nothing) rounds to k where d / ln 2 is less than half the distance from k to the number
/// below it; and that is the distance of an odd multiple of an ulp, never a tie.
MACHEPS_HD constexpr float floor_power_by_log2(float s) {
    const std::uint32_t field = bit_cast<std::uint32_t>(s) >> 23;
    // For no k is that more than 44 ulps below the power.
    if ((bit_cast<std::uint32_t>(s) & 0x7fffffu) < 0x800000u - 64) return floor_power(s);
    const int k = static_cast<int>(field) + 1 - 127;
    const double size = k < 0 ? -k : k;
    if (size == 0 || field >= 254) return floor_power(s);  // near 0 the logarithms are all told apart
    int exponent = 0;                                      // of the number k
    while (Format::power_of_two(exponent + 1) <= size) ++exponent;
    // Below a positive power of two the numbers of fp32 lie twice as close.
    const bool is_close = k > 0 && Format::power_of_two(exponent) == size;
    const double half = Format::power_of_two(exponent - (is_close ? 25 : 24));
    const double power = Format::power_of_two(k), d = (power - double{s}) / power;
    return d * 1.4426950408889634 < half ? static_cast<float>(power) : floor_power(s);
}

/// torchao float8: max / max(amax, 1e-12) in fp64, rounded once to fp32. NaN propagates. With `power` the power of two
/// at or below, as torch computes it: by a logarithm in fp32.
MACHEPS_HD constexpr float ao_fp8(float amax, float max, bool power = false) {
    const double floor = 1e-12, size = double{amax};
    const auto s = static_cast<float>(double{max} / (size < floor ? floor : size));
    return power && s == s ? floor_power_by_log2(s) : s;
}

// --- one fp32 decode scale

/// DeepGEMM: max(amax, floor) / max, for the element range 448 of e4m3; elements are multiplied by fl32(1 / decode).
/// With `power` the power of two at or above, exponent field 1 to 254: Inf and NaN give 2^127.
MACHEPS_HD constexpr float deepgemm(float amax, float max, float floor = 1e-4f, bool power = false) {
    const float d = (amax < floor ? floor : amax) / max;
    if (!power) return d;
    const auto bits = bit_cast<std::uint32_t>(d);
    const std::uint32_t field = (bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1u : 0u);
    return bit_cast<float>(min_of(max_of(field, 1u), 254u) << 23);
}

// --- one byte of e8m0: decode scale 2^(byte - 127), 0xff NaN

/// floor(log2 of the largest element).
MACHEPS_HD constexpr int element_exponent(float max) {
    return static_cast<int>(bit_cast<std::uint32_t>(max) >> 23) - 127;
}
MACHEPS_HD constexpr std::uint32_t clamped_byte(int exponent_field) {
    return static_cast<std::uint32_t>(min_of(max_of(exponent_field, 0), 255));
}

/// The power of two at or above amax / max, never saturating: byte of fl32(amax fl32(1 / max)) rounded up.
MACHEPS_HD constexpr std::uint32_t rounded_up_byte(float amax, float max) {
    const auto bits = bit_cast<std::uint32_t>(amax * (1.0f / max));
    const std::uint32_t field = bits >> 23, fraction = bits & 0x7fffffu;
    if (field == 0) return fraction > 0x400000u ? 1 : 0;
    return field + (fraction != 0 ? 1u : 0u);
}

/// Transformer Engine MXFP8 (RCEIL, saturating conversion): Inf gives 254, NaN 255.
MACHEPS_HD constexpr std::uint32_t te_mxfp8(float amax, float max) {
    if (amax != amax) return 255;
    if (!is_finite(amax)) return 254;
    return min_of(rounded_up_byte(amax, max), 254u);
}

/// torchao RCEIL: the same, but Inf gives 255.
MACHEPS_HD constexpr std::uint32_t ao_rceil(float amax, float max) {
    return is_finite(amax) ? rounded_up_byte(amax, max) : 255;
}

/// OCP MX 1.0, torchao FLOOR: floor(log2 amax) - floor(log2 max). Non-finite gives 255.
MACHEPS_HD constexpr std::uint32_t ao_floor(float amax, float max) {
    if (!is_finite(amax)) return 255;
    return clamped_byte(static_cast<int>(bit_cast<std::uint32_t>(amax) >> 23) - element_exponent(max));
}

/// torchao CEIL: ceil(log2 amax) - floor(log2 max), a fraction that is not 0 counting as one more.
MACHEPS_HD constexpr std::uint32_t ao_ceil(float amax, float max) {
    if (!is_finite(amax)) return 255;
    const auto bits = bit_cast<std::uint32_t>(amax);
    return clamped_byte(static_cast<int>(bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1 : 0) - element_exponent(max));
}

/// torchao EVEN: amax rounded half up at the element's fraction bits first, then FLOOR.
MACHEPS_HD constexpr std::uint32_t ao_even(float amax, float max, int fraction_bits) {
    if (!is_finite(amax)) return 255;
    const std::uint32_t bits = bit_cast<std::uint32_t>(amax) + (1u << (22 - fraction_bits));
    return ao_floor(bit_cast<float>(bits & 0x7f800000u), max);
}

/// 2^(byte - 127), and 2^(127 - byte); NaN for 255.
MACHEPS_HD constexpr float e8m0_decode(std::uint32_t byte) {
    if (byte == 255) return bit_cast<float>(0x7fc00000u);
    return static_cast<float>(Format::power_of_two(static_cast<int>(byte) - 127));
}
MACHEPS_HD constexpr float e8m0_encode(std::uint32_t byte) {
    return byte == 255 ? bit_cast<float>(0x7fc00000u) : e8m0_decode(254 - byte);
}

// --- NVFP4: a scale of the tensor and one of e4m3 for each block of 16

/// A block's scale as a number of e4m3, and what its elements are multiplied by.
struct BlockScale {
    float block, encode;
};

MACHEPS_HD constexpr float to_e4m3(float x) {
    constexpr Format e4m3{.bits = 8, .precision = 4, .exponent_bias = 7, .specials = Specials::nan_only};
    return quantize(e4m3, x, Round::nearest_even, Overflow::saturate);
}

/// Transformer Engine: encode scale of the tensor, min(2688 / amax, largest fp32); 1 where amax is 0 or Inf.
MACHEPS_HD constexpr float te_nvfp4_tensor(float amax) {
    const float s = at_most_largest(nvfp4_range / amax);
    return amax == 0 || s == 0 ? 1.0f : s;
}
/// block = e4m3(amax fl32(tensor fl32(1/6))), encode = min(1 / fl32(block fl32(1 / tensor)), largest fp32). The block's
/// scale may be 0; its elements then decode to 0.
MACHEPS_HD constexpr BlockScale te_nvfp4_block(float amax, float tensor) {
    const float block = to_e4m3(at_most_largest(amax * (tensor * (1.0f / 6.0f))));
    return {block, at_most_largest(1.0f / (block * (1.0f / tensor)))};
}
/// Factor of a product of two such tensors: one product of their amaxes, times fl32(1 / 2688^2). A scale of either
/// takes no part in it.
MACHEPS_HD constexpr float te_nvfp4_product(float amax_a, float amax_b) {
    return (amax_a * amax_b) * static_cast<float>(1.0 / (2688.0 * 2688.0));
}

/// torchao: decode scale of the tensor, amax / 2688.
MACHEPS_HD constexpr float ao_nvfp4_tensor(float amax) { return amax / nvfp4_range; }
/// block = e4m3((amax / 6) / tensor), clamped to [2^-6, 448]; encode = fl32(1 / tensor) / block.
MACHEPS_HD constexpr BlockScale ao_nvfp4_block(float amax, float tensor) {
    const float wanted = (amax / 6.0f) / tensor, least = 0x1p-6f;
    const float block = to_e4m3(wanted < least ? least : wanted > 448.0f ? 448.0f : wanted);
    return {block, (1.0f / tensor) / block};
}

}  // namespace macheps::scale_function
