// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/initialise.hpp"

#include "core/math64.hpp"
#include "core/rng.hpp"

namespace macheps::training {

namespace {

/// Two independent standard normal numbers, kept in polar coordinates.
struct NormalPair {
    double radius, angle;

    NormalPair(std::uint64_t seed, std::uint32_t stream, std::uint64_t pair) {
        const PhiloxBlock block = random_block({.seed = seed, .step = 0, .site = stream}, pair);
        // Returns a uniform random number of 53 bits. It lies in (0, 1] if `offset` is 0.5, and in [0, 1) if `offset`
        // is 0.
        const auto uniform = [](std::uint32_t high, std::uint32_t low, double offset) {
            return (static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) + offset) * 0x1p-53;
        };
        radius = sqrt(-2.0 * math::log(uniform(block.word[0], block.word[1], 0.5)));
        angle = 6.283185307179586 * uniform(block.word[2], block.word[3], 0.0);
    }

    float first() const { return static_cast<float>(radius * math::cos(angle)); }
    float second() const { return static_cast<float>(radius * math::sin(angle)); }
};

}  // namespace

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
    for (std::size_t i = 0; i < values.size(); i += 2) {
        const NormalPair pair(seed, stream, i / 2);
        values[i] = deviation * pair.first();
        if (i + 1 < values.size()) values[i + 1] = deviation * pair.second();
    }
    return values;
}

}  // namespace macheps::training
