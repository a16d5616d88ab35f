// SPDX-License-Identifier: Apache-2.0
// Maps the Adam variants of policies to kernels of the engine. Each row of policy::adam_kernels has a kernel, except
// `plain`, which is Backend::adamw.
#pragma once
#include "emulation/adam.hpp"
#include "experiments/training/run/options.hpp"

namespace macheps::training {

/// Returns true if a policy's Adam runs Backend::adam instead of Backend::adamw. This is the case if the policy selects
/// a kernel other than `plain`, or if the decay is added to the gradient (optimiser `adam`).
bool has_kernel(const policy::TrainingRecipe& recipe, const TrainOptions& options);

/// Returns the kernel for Backend::adam. For the row `plain`, this is adam::Single, which has the same operations as
/// Backend::adamw.
adam::Kernel engine_kernel(const policy::AdamKernel& kernel);

/// Returns the base of the powers in the bias corrections. Some kernels receive their betas as fp32.
double power_base(const policy::TrainingRecipe& recipe, double beta);

}  // namespace macheps::training
