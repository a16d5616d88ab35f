// SPDX-License-Identifier: Apache-2.0
// The engine's kernel for the Adam of a policy. Each row of `adam_kernels` has one, except `plain`, which is
// Backend::adamw.
#pragma once
#include "emulation/adam.hpp"
#include "experiments/training/run/options.hpp"

namespace macheps::training {

/// Returns true if a policy's Adam is not Backend::adamw: it has another kernel, or its decay is added to the gradient.
bool has_kernel(const policy::TrainingRecipe& recipe, const TrainOptions& options);

/// Returns the argument of Backend::adam for a row of `adam_kernels`. `plain` has the operations of `single`.
adam::Kernel engine_kernel(const policy::AdamKernel& kernel);

/// Returns the base of the powers in the bias corrections. Some kernels receive their betas as fp32.
double power_base(const policy::TrainingRecipe& recipe, double beta);

}  // namespace macheps::training
