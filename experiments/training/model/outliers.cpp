// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/outliers.hpp"

#include "core/format.hpp"
#include "core/math64.hpp"

#include <cmath>

namespace macheps::training {

std::vector<float> outlier_factors(const ModelConfig& config, double outliers) {
    constexpr double plain_reach = 0x1p5, deviation = 0.02;  // `deviation`: of the initial weights (initialise.hpp)
    // The output of a norm has an rms of 1. A linear layer that reads it has an output with an rms of deviation *
    // sqrt(width). Near zero, GELU and SiLU halve their input. In a llama, the result is then multiplied by the output
    // of `mlp.up`.
    const double linear = deviation * sqrt(static_cast<double>(config.width));
    const double plain_rms = config.kind == ModelKind::llama ? linear * linear / 2 : linear / 2;
    int exponent = 0;
    const double fraction = std::frexp(outliers * plain_reach / plain_rms, &exponent);
    const auto factor = static_cast<float>(Format::power_of_two(fraction == 0.5 ? exponent - 1 : exponent));
    const auto hidden = static_cast<std::size_t>(config.hidden_width());
    std::vector<float> factors(hidden, 1.0f);
    factors[0] = factors[hidden / 2] = factor;
    return factors;
}

}  // namespace macheps::training
