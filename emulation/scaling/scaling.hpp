// SPDX-License-Identifier: Apache-2.0
// Scales an operand of a matmul: one cast with a scale for each group of elements. The rows of
// emulation/scaling/rules.hpp define which elements share a scale and how it is computed.
#pragma once
#include "emulation/definitions.hpp"
#include "emulation/scaling/rules.hpp"

#include <span>

namespace macheps {

/// Number of rows and columns of groups in a tensor.
struct ScaleGrid {
    std::int64_t rows = 0, columns = 0;
};
constexpr ScaleGrid scale_grid(const Granularity& block, bool k_is_last, std::int64_t rows, std::int64_t columns) {
    const std::int64_t down = k_is_last ? block.outer : block.k, across = k_is_last ? block.k : block.outer;
    return {down == 0 ? 1 : (rows + down - 1) / down, across == 0 ? 1 : (columns + across - 1) / across};
}

/// Options of a scaled cast: out = cast(fl32(x * encode)), where encode is the scale of the group of x.
/// cast.encode_scale is not used.
struct ScaledCast {
    Cast cast{};
    const Granularity* granularity = find_granularity("tensor");
    const ScaleRule* rule = find_scale_rule("ao_fp8");
    bool k_is_last = true;  ///< whether the contraction index k is the last axis of the tensor
};

/// Decode scale of a whole tensor, in addition to the scales of its groups.
struct TensorScale {
    float decode = 1;
    float amax = 0;                                          ///< largest magnitude of the tensor; `product` reads it
    float (*product)(float amax_a, float amax_b) = nullptr;  ///< ScaleRule::product

    constexpr bool operator==(const TensorScale&) const = default;
};

/// Returns the factor by which a product of the tensors a and b is multiplied to decode it.
inline float product_scale(const TensorScale& a, const TensorScale& b) {
    return a.product != nullptr && a.product == b.product ? a.product(a.amax, b.amax) : a.decode * b.decode;
}

/// Results of a scaled cast other than the codes.
struct ScaledResult {
    /// Decode scales of the groups (the e4m3 numbers for NVFP4). They are stored in the tensor that the caller passed
    /// for scales. Their layout fits an operand of a matmul, according to ScaledCast::k_is_last.
    OperandScales scales{};
    TensorScale tensor{};
    /// Smallest and largest factor by which the codes of a group have to be multiplied to get values back.
    float decode_min = 1, decode_max = 1;
};

namespace definition {

/// Returns the scales of a group. They depend on its largest magnitude and, for ScaleKind::nvfp4, on the tensor's
/// scales.
inline GroupScale group_scale(const Format& format, const ScaleRule& rule, float amax, GroupScale tensor = {}) {
    const float max = decode(format, format.max_finite_code() << format.padding);
    return rule.group({.amax = amax, .max = max, .element = format, .tensor = tensor});
}

/// Returns the larger of `amax` and |x|. If x is NaN, returns NaN, or `amax` if the rule ignores NaN.
inline float join_amax(const ScaleRule& rule, float amax, float x) {
    const float size = x < 0 ? -x : x;
    if (x != x) return rule.ignores_nan ? amax : canonical(x);
    return size > amax ? size : amax;
}

}  // namespace definition

/// Computes the scales encode[g] and decode[g] of all groups from the bits of their largest magnitudes. Does not set
/// `scales` in the result.
ScaledResult group_scales(const ScaledCast& how, std::span<const std::uint32_t> largest, std::span<float> encode,
                          std::span<float> decode);

/// Returns the decode scales of a tensor, which has `across` groups per row, in the layout that a matmul reads.
OperandScales operand_scales(const ScaledCast& how, std::int64_t across, const float* decode);

}  // namespace macheps
