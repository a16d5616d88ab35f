// SPDX-License-Identifier: Apache-2.0
// A step of Adam as the kernels of torch, Apex and DeepSpeed round it: the rows of `adam_kernels` but for `plain`, which the engines have.
#pragma once
#include "emulation/backend.hpp"
#include "experiments/train/options.hpp"

namespace macheps {

/// One step for one tensor. `bias_correction1` is 1 - beta1^t.
struct AdamStep {
    const AdamKernel* kernel = nullptr;
    double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
    double bias_correction1 = 1, bias_correction2 = 1;
    bool adds_decay_to_gradient = false;  ///< Adam with L2, not AdamW
    Format arithmetic = fp32;             ///< what every primitive of `single` rounds to
    Cast value_cast{}, moment1_cast{}, moment2_cast{};
};

/// p, m and v after the step, each rounded by its cast; adds to `stats` what it did, where the wanted update is the new value before that
/// rounding, less the old one. On the host, element by element, so that every engine gives the same bits.
/// Shapes: all the same.
void step_adam(Backend& backend, View p, ConstView g, View m, View v, const AdamStep& step, UpdateStats& stats);

/// True where a policy's Adam is none of the engines': another kernel, or decay that is added to the gradient.
bool has_kernel(const TrainingRecipe& recipe, const TrainOptions& options);

/// Whose powers the bias corrections are made of: some kernels get their betas as fp32.
double power_base(const TrainingRecipe& recipe, double beta);

}  // namespace macheps
