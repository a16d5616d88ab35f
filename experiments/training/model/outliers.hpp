// SPDX-License-Identifier: Apache-2.0
// Outliers: makes the values of a few channels of a model as large as the outliers in pretrained models. The function
// that the model computes does not change.
#pragma once
#include "experiments/training/model/config.hpp"

#include <vector>

namespace macheps::training {

/// Returns one factor for each input channel of `mlp.down`: a power of two for two channels, 1 for all others. The
/// model multiplies the channels by these factors and the weights of `mlp.down` by the inverse factors. No bit of an
/// fp32 or bf16 value therefore changes, except by overflow or underflow. The stored parameters do not include the
/// factors. Adam's steps do not grow with the weights, so a model with the factors in its stored weights would train
/// differently.
///
/// `outliers` sets the size of the two channels: with the initial weights, their rms is at least `outliers` times 2^5.
/// In a small model without outlier factors, all forward values are below 2^5. The smallest power of two at which the
/// two channels exceed the range of fp16 is 2^11, because 2^11 times 2^5 is 2^16.
std::vector<float> outlier_factors(const ModelConfig& config, double outliers);

}  // namespace macheps::training
