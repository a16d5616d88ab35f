// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/optimizer/adam_kernels.hpp"

namespace macheps::training {

namespace {

// Returns true if adam::kernels and policy::adam_kernels list the same kernels in the same order. The first row of
// policy::adam_kernels, `plain`, has no kernel: it means Backend::adamw, which cannot add the decay to the gradient.
constexpr bool names_agree() {
    for (std::size_t i = 0; i < adam::kernels.size(); ++i) {
        if (adam::kernels[i].name != policy::adam_kernels[i + 1].name) return false;
    }
    return adam::kernels.size() + 1 == std::size(policy::adam_kernels) && policy::adam_kernels[0].name == "plain";
}
static_assert(names_agree(),
              "each row of adam_kernels but the first has its kernel in emulation/adam.inl, in the same order");

}  // namespace

adam::Kernel engine_kernel(const policy::AdamKernel& kernel) {
    const auto place = static_cast<std::size_t>(&kernel - policy::adam_kernels);
    return adam::kernels[place == 0 ? 0 : place - 1];
}

bool has_kernel(const policy::TrainingRecipe& recipe, const TrainOptions& options) {
    if (options.optimizer == policy::OptimizerKind::sgd) return false;
    return recipe.adam_kernel().name != "plain" || options.optimizer == policy::OptimizerKind::adam;
}

double power_base(const policy::TrainingRecipe& recipe, double beta) {
    return recipe.adam_kernel().name == "multi-tensor" ? double{static_cast<float>(beta)} : beta;
}

}  // namespace macheps::training
