// SPDX-License-Identifier: Apache-2.0
// Scaling a matmul's operand: one cast with a scale for each group of elements. Which elements share a scale and how it
// is made are rows of emulation/scaling/rules.hpp.
#pragma once
#include "emulation/definitions.hpp"
#include "emulation/scaling/rules.hpp"

#include <span>

namespace macheps {

/// Groups of a tensor [rows, columns], as rows and columns of them.
struct ScaleGrid {
    std::int64_t rows = 0, columns = 0;
};
constexpr ScaleGrid scale_grid(const Granularity& block, bool k_is_last, std::int64_t rows, std::int64_t columns) {
    const std::int64_t down = k_is_last ? block.outer : block.k, across = k_is_last ? block.k : block.outer;
    return {down == 0 ? 1 : (rows + down - 1) / down, across == 0 ? 1 : (columns + across - 1) / across};
}

/// out = cast of fl32(x * encode), encode being that of the group of x. cast.encode_scale is not read.
struct ScaledCast {
    Cast cast{};
    const Granularity* granularity = find_granularity("tensor");
    const ScaleRule* rule = find_scale_rule("ao_fp8");
    bool k_is_last = true;  ///< the contraction runs along the last axis of the tensor
};

/// Decode scale of a whole tensor, beside those of its groups.
struct TensorScale {
    float decode = 1;
    float amax = 0;                                          ///< of the tensor, where `product` reads it
    float (*product)(float amax_a, float amax_b) = nullptr;  ///< ScaleRule::product

    constexpr bool operator==(const TensorScale&) const = default;
};

/// What the product of two tensors is multiplied by.
inline float product_scale(const TensorScale& a, const TensorScale& b) {
    return a.product != nullptr && a.product == b.product ? a.product(a.amax, b.amax) : a.decode * b.decode;
}

/// What scaled_cast made beside the codes.
struct ScaledResult {
    /// Decode scales of the groups in the tensor that was given for them; for NVFP4 the numbers of e4m3. For an operand
    /// whose contraction runs as ScaledCast said.
    OperandScales scales{};
    TensorScale tensor{};
    /// Of all that a group's elements are multiplied by to get their values back.
    float decode_min = 1, decode_max = 1;
};

namespace definition {

/// The group's scales, from its largest magnitude and, for ScaleKind::nvfp4, those of the tensor.
inline GroupScale group_scale(const Format& format, const ScaleRule& rule, float amax, GroupScale tensor = {}) {
    const float max = decode(format, format.max_finite_code() << format.padding);
    return rule.group({.amax = amax, .max = max, .element = format, .tensor = tensor});
}

/// `amax` joined with |x|.
inline float join_amax(const ScaleRule& rule, float amax, float x) {
    const float size = x < 0 ? -x : x;
    if (x != x) return rule.ignores_nan ? amax : canonical(x);
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
