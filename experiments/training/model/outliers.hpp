// SPDX-License-Identifier: Apache-2.0
// Outliers: a few channels of a model get values as large as in a pretrained model. The function that the model computes is unchanged.
#pragma once
#include "experiments/training/model/config.hpp"

#include <vector>

namespace macheps::training {

/// Factors of the channels that enter `mlp.down`: powers of two, 1 for all but two of them. The model multiplies its values by
/// them and the weights of `mlp.down` by their inverses, so that no bit of fp32 or bf16 changes unless it overflows or
/// underflows. The parameters are stored without the factors: Adam's steps do not grow with the weights, and stored with them
/// the model would train in another way.
///
/// `outliers` says how large the two channels are: their rms with the first weights is at least `outliers` times 2^5. The
/// largest forward value of a small model without a stress lies below 2^5, so that 2^11 is the least power of two for which
/// this product, 2^16, is beyond the range of fp16.
std::vector<float> outlier_factors(const ModelConfig& config, double outliers);

}  // namespace macheps::training
