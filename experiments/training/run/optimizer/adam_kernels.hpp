// SPDX-License-Identifier: Apache-2.0
// Which of the engines' kernels of Adam a policy asks for: the rows of `adam_kernels` but for `plain`, which is
// Backend::adamw.
#pragma once
#include "emulation/adam.hpp"
#include "experiments/training/run/options.hpp"

namespace macheps::training {

/// True where a policy's Adam is not Backend::adamw: another kernel, or decay that is added to the gradient.
bool has_kernel(const policy::TrainingRecipe& recipe, const TrainOptions& options);

/// What Backend::adam takes for a row of `adam_kernels`; `plain` has the lines of `single`.
adam::Kernel engine_kernel(const policy::AdamKernel& kernel);

/// Whose powers the bias corrections are made of: some kernels get their betas as fp32.
double power_base(const policy::TrainingRecipe& recipe, double beta);

}  // namespace macheps::training
