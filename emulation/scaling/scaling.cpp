// SPDX-License-Identifier: Apache-2.0
#include "emulation/scaling/scaling.hpp"

#include <algorithm>
#include <array>

namespace macheps {

ScaledResult group_scales(const ScaledCast& how, std::span<const std::uint32_t> largest, std::span<float> encode,
                          std::span<float> decode) {
    ScaledResult result;
    definition::GroupScale tensor;
    if (how.rule->tensor != nullptr) {
        const std::uint32_t top = largest.empty() ? 0 : *std::max_element(largest.begin(), largest.end());
        const float amax = bit_cast<float>(top);
        tensor = how.rule->tensor(amax);
        result.tensor = {tensor.decode, amax, how.rule->product};
    }
    // The loop computes the same as definition::group_scale. Values that all groups share are computed here, once.
    const Format& format = how.cast.format;
    definition::ScaleGroup group{.amax = 0,
                                 .max = macheps::decode(format, format.max_finite_code() << format.padding),
                                 .element = format,
                                 .tensor = tensor};
    // A rule may take as long as a hundred multiplications. Many groups of bf16 values have the same largest magnitude,
    // so scales are cached.
    struct Known {
        std::uint32_t largest = 0xffffffff;  // not the bits of a magnitude
        definition::GroupScale scale{};
    };
    constexpr int places_log2 = 10;  // most magnitudes lie in a few binades, in each of which bf16 has 128 numbers
    std::array<Known, 1 << places_log2> known{};
    for (std::size_t i = 0; i < largest.size(); ++i) {
        Known& place = known[largest[i] * 0x9e3779b1u >> (32 - places_log2)];
        if (place.largest != largest[i]) {
            group.amax = definition::canonical(bit_cast<float>(largest[i]));
            place = {largest[i], how.rule->group(group)};
        }
        const definition::GroupScale& scale = place.scale;
        encode[i] = scale.encode;
        decode[i] = scale.decode;
        const float whole = scale.decode * result.tensor.decode;
        result.decode_min = i == 0 || whole < result.decode_min ? whole : result.decode_min;
        result.decode_max = i == 0 || whole > result.decode_max ? whole : result.decode_max;
    }
    return result;
}

OperandScales operand_scales(const ScaledCast& how, std::int64_t across, const float* decode) {
    // If one scale covers the whole range of an index, the stride along this index is 0.
    const Granularity& block = *how.granularity;
    return {.data = decode,
            .outer_block = max_of(block.outer, std::int64_t{1}),
            .k_block = max_of(block.k, std::int64_t{1}),
            .outer_stride = block.outer == 0 ? 0
                            : how.k_is_last  ? across
                                             : 1,
            .k_stride = block.k == 0    ? 0
                        : how.k_is_last ? 1
                                        : across};
}

}  // namespace macheps
