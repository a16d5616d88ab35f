// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/initialise.hpp"

#include "core/math64.hpp"
#include "core/rng.hpp"

namespace macheps {

float normal_number(std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
    const PhiloxBlock block = random_block({.seed = seed, .step = 0, .site = stream}, index >> 1);
    // One pair of normals per block; 53-bit uniforms in (0, 1) and [0, 1).
    const auto uniform = [](std::uint32_t high, std::uint32_t low, double offset) {
        return (static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) + offset) * 0x1p-53;
    };
    const double u = uniform(block.word[0], block.word[1], 0.5), v = uniform(block.word[2], block.word[3], 0.0);
    const double radius = sqrt(-2.0 * math::log(u)), angle = 6.283185307179586 * v;
    return static_cast<float>(radius * ((index & 1) == 0 ? math::cos(angle) : math::sin(angle)));
}

std::vector<float> initial_values(std::string_view parameter, const Shape& shape, std::int64_t layers,
                                  std::uint64_t seed) {
    const bool is_norm = parameter.find("norm") != std::string_view::npos;
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    if (parameter.ends_with(".bias") || is_norm) {
        for (float& value : values) value = is_norm && parameter.ends_with(".weight") ? 1.0f : 0.0f;
        return values;
    }
    const bool is_residual = parameter.ends_with("attn.proj.weight") || parameter.ends_with("mlp.down.weight");
    const float deviation = is_residual ? static_cast<float>(0.02 / sqrt(2.0 * static_cast<double>(layers))) : 0.02f;
    const std::uint32_t stream = site_id(parameter);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = deviation * normal_number(seed, stream, i);
    return values;
}

}  // namespace macheps
