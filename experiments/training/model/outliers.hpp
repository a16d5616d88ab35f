// SPDX-License-Identifier: Apache-2.0
// Outliers: a few channels of a model get values as large as in a pretrained model. The function that the model
// computes is unchanged.
#pragma once
#include "experiments/training/model/config.hpp"

#include <vector>

namespace macheps::training {

/// Returns a factor for each channel that enters `mlp.down`: a power of two for two channels, 1 for all others. The
/// model multiplies the channels by the factors and the weights of `mlp.down` by their inverses, so no bit of an fp32
/// or bf16 value changes except by overflow or underflow. The parameters are stored without the factors. Adam's steps
/// do not grow with the weights, so a model that stored the factors would train differently.
///
/// `outliers` sets the size of the two channels: with the initial weights, their rms is at least `outliers` times 2^5.
/// The largest forward value of a small model without stress is below 2^5. 2^11 is therefore the smallest power of two
/// for which the product, 2^16, exceeds the range of fp16.
std::vector<float> outlier_factors(const ModelConfig& config, double outliers);

}  // namespace macheps::training
