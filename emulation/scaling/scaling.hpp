// SPDX-License-Identifier: Apache-2.0
// Scaling: which elements of a matmul's operand share a scale, and how it is made of their largest magnitude.
#pragma once
#include "emulation/definitions.hpp"
#include "emulation/scaling/functions.hpp"

#include <span>

namespace macheps {

/// Elements that share a scale, along an operand's outer index (rows of a, columns of b) and the contraction.
enum class Granularity : std::uint8_t {
    none,
    tensor,
    row,          ///< of a: one scale per row, over all of k
    column,       ///< of b: one scale per column, over all of k
    block_1x128,  ///< 1 outer index x 128 terms
    block_128x128,
    mx_32,     ///< 1 x 32, scales of e8m0
    nvfp4_16,  ///< 1 x 16, scales of e4m3 beside one fp32 scale of the tensor
    nvfp4_16x16,
};

/// The functions of emulation/scaling/functions.hpp by name.
enum class ScaleRule : std::uint8_t {
    ao_fp8,
    ao_fp8_power,  ///< floored to a power of two
    te_current,
    te_block,  ///< floored to a power of two
    te_block_fp32,
    deepgemm,
    deepgemm_power,  ///< raised to a power of two
    te_mxfp8,
    ao_rceil,
    ao_floor,
    ao_ceil,
    ao_even,
    te_nvfp4,
    ao_nvfp4,
};

/// The block of a granularity; 0 stands for everything along that index.
struct ScaleBlock {
    std::int64_t outer = 0, k = 0;
};
MACHEPS_HD constexpr ScaleBlock scale_block(Granularity granularity) {
    switch (granularity) {
        case Granularity::row:
        case Granularity::column:
            return {1, 0};
        case Granularity::block_1x128:
            return {1, 128};
        case Granularity::block_128x128:
            return {128, 128};
        case Granularity::mx_32:
            return {1, 32};
        case Granularity::nvfp4_16:
            return {1, 16};
        case Granularity::nvfp4_16x16:
            return {16, 16};
        default:
            return {0, 0};
    }
}

MACHEPS_HD constexpr bool is_nvfp4(Granularity granularity) {
    return granularity == Granularity::nvfp4_16 || granularity == Granularity::nvfp4_16x16;
}

/// Groups of a tensor [rows, columns], as rows and columns of them.
struct ScaleGrid {
    std::int64_t rows = 0, columns = 0;
};
MACHEPS_HD constexpr ScaleGrid scale_grid(Granularity granularity, bool k_is_last, std::int64_t rows,
                                          std::int64_t columns) {
    const ScaleBlock block = scale_block(granularity);
    const std::int64_t down = k_is_last ? block.outer : block.k, across = k_is_last ? block.k : block.outer;
    return {down == 0 ? 1 : (rows + down - 1) / down, across == 0 ? 1 : (columns + across - 1) / across};
}

/// True when the rule makes scales of the kind that the granularity stores: bytes of e8m0, e4m3 beside fp32, or fp32.
MACHEPS_HD constexpr bool fits(ScaleRule rule, Granularity granularity) {
    const bool nvfp4 = rule == ScaleRule::te_nvfp4 || rule == ScaleRule::ao_nvfp4;
    const bool e8m0 = rule >= ScaleRule::te_mxfp8 && rule <= ScaleRule::ao_even;
    return nvfp4 == is_nvfp4(granularity) && e8m0 == (granularity == Granularity::mx_32);
}

/// The rule that a granularity has unless another is named: torchao's per tensor and per row, Transformer Engine's for
/// blocks.
MACHEPS_HD constexpr ScaleRule usual_rule(Granularity granularity) {
    switch (granularity) {
        case Granularity::row:
        case Granularity::column:
            return ScaleRule::ao_fp8_power;
        case Granularity::block_1x128:
        case Granularity::block_128x128:
            return ScaleRule::te_block;
        case Granularity::mx_32:
            return ScaleRule::te_mxfp8;
        case Granularity::nvfp4_16:
        case Granularity::nvfp4_16x16:
            return ScaleRule::te_nvfp4;
        default:
            return ScaleRule::ao_fp8;
    }
}

/// True where one scale serves whichever way the contraction runs.
MACHEPS_HD constexpr bool is_axis_free(Granularity granularity) {
    return granularity == Granularity::none || granularity == Granularity::tensor;
}

/// True when a NaN element does not show in the group's largest magnitude (fmaxf), and becomes a NaN code alone.
MACHEPS_HD constexpr bool ignores_nan(ScaleRule rule) {
    switch (rule) {
        case ScaleRule::te_current:
        case ScaleRule::te_block:
        case ScaleRule::te_block_fp32:
        case ScaleRule::te_mxfp8:
        case ScaleRule::te_nvfp4:
            return true;
        default:
            return false;
    }
}

/// out = cast of fl32(x * encode), encode being that of the group of x. cast.encode_scale is not read.
struct ScaledCast {
    Cast cast{};
    Granularity granularity = Granularity::tensor;
    ScaleRule rule = ScaleRule::ao_fp8;
    bool k_is_last = true;  ///< the contraction runs along the last axis of the tensor
};

/// What scaled_cast made beside the codes.
struct ScaledResult {
    /// Decode scales of the groups in the tensor that was given for them; for NVFP4 the numbers of e4m3. For an operand
    /// whose contraction runs as ScaledCast said.
    OperandScales scales{};
    float tensor_scale = 1;  ///< decode scale of the whole tensor, beside those of the groups
    /// Of all that a group's elements are multiplied by to get their values back.
    float decode_min = 1, decode_max = 1;
};

namespace definition {

struct GroupScale {
    float encode, decode;
};

/// The group's scales, from its largest magnitude and, for NVFP4, the tensor's own scale.
MACHEPS_HD inline GroupScale group_scale(const Format& format, ScaleRule rule, float amax, float tensor) {
    using namespace scale_function;
    const float max = decode(format, format.max_finite_code() << format.padding);
    const auto from_encode = [](float s) { return GroupScale{s, 1.0f / s}; };
    const auto from_byte = [](std::uint32_t byte) { return GroupScale{e8m0_encode(byte), e8m0_decode(byte)}; };
    const auto from_decode = [](float d) { return GroupScale{1.0f / d, d}; };
    const auto from_block = [](BlockScale b) { return GroupScale{b.encode, b.block}; };
    switch (rule) {
        case ScaleRule::ao_fp8:
            return from_encode(ao_fp8(amax, max));
        case ScaleRule::ao_fp8_power:
            return from_encode(ao_fp8(amax, max, true));
        case ScaleRule::te_current:
            return from_encode(te_current(amax, max));
        case ScaleRule::te_block:
            return from_encode(te_current(amax, max, 0, true));
        case ScaleRule::te_block_fp32:
            return from_encode(te_current(amax, max));
        case ScaleRule::deepgemm:
            return from_decode(deepgemm(amax, max));
        case ScaleRule::deepgemm_power:
            return from_decode(deepgemm(amax, max, 1e-4f, true));
        case ScaleRule::te_mxfp8:
            return from_byte(te_mxfp8(amax, max));
        case ScaleRule::ao_rceil:
            return from_byte(ao_rceil(amax, max));
        case ScaleRule::ao_floor:
            return from_byte(ao_floor(amax, max));
        case ScaleRule::ao_ceil:
            return from_byte(ao_ceil(amax, max));
        case ScaleRule::ao_even:
            return from_byte(ao_even(amax, max, format.fraction_bits()));
        case ScaleRule::te_nvfp4:
            return from_block(te_nvfp4_block(amax, tensor));
        case ScaleRule::ao_nvfp4:
            return from_block(ao_nvfp4_block(amax, tensor));
    }
    return {1, 1};
}

/// `amax` joined with |x|.
MACHEPS_HD inline float join_amax(ScaleRule rule, float amax, float x) {
    const float size = x < 0 ? -x : x;
    if (x != x) return ignores_nan(rule) ? amax : canonical(x);
    return size > amax ? size : amax;
}

}  // namespace definition

/// The scales of all groups, from the bits of their largest magnitudes: encode[g] and decode[g]. The result lacks
/// `scales`.
ScaledResult group_scales(const ScaledCast& how, std::span<const std::uint32_t> largest, std::span<float> encode,
                          std::span<float> decode);

/// Where the scales of a tensor lie whose groups are `across` in a row, for the matmul that reads it.
OperandScales operand_scales(const ScaledCast& how, std::int64_t across, const float* decode);

}  // namespace macheps
