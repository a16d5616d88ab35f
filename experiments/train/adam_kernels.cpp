// SPDX-License-Identifier: Apache-2.0
#include "experiments/train/adam_kernels.hpp"

#include "core/math64.hpp"
#include "emulation/definitions.hpp"

#include <vector>

namespace macheps {

namespace {

using definition::canonical;

/// One element: what is read, and what comes of it before anything is stored.
struct Element {
    float p, g, m, v;
};

float as_fp32(double x) { return static_cast<float>(x); }

/// A step with what its kernels make of its numbers, once for a tensor.
struct Constants : AdamStep {
    explicit Constants(const AdamStep& step)
        : AdamStep(step),
          weight1(as_fp32(1.0 - beta1)),
          weight2(as_fp32(1.0 - beta2)),
          kept(as_fp32(1.0 - lr * weight_decay)),
          step_size(as_fp32(lr / bias_correction1)),
          fused_step_size(as_fp32(lr / double{as_fp32(bias_correction1)})),
          root_correction(as_fp32(macheps::sqrt(bias_correction2))) {}
    float weight1, weight2, kept, step_size, fused_step_size, root_correction;

    float rounded(float value) const {
        if (arithmetic == fp32) return canonical(value);
        return quantize(arithmetic, canonical(value), Round::nearest_even, Overflow::nonsaturate);
    }
};

/// torch/optim/adam.py, _single_tensor_adam, whose every line is a kernel that reads and gives numbers of the arithmetic; scalars are fp32.
/// foreach has the same lines.
Element single(Element x, const Constants& s) {
    if (s.weight_decay != 0 && s.adds_decay_to_gradient) x.g = s.rounded(x.g + as_fp32(s.weight_decay) * x.p);
    if (s.weight_decay != 0 && !s.adds_decay_to_gradient) x.p = s.rounded(x.p * s.kept);
    // lerp comes from the nearer end.
    x.m =
        s.weight1 < 0.5f ? s.rounded(x.m + s.weight1 * (x.g - x.m)) : s.rounded(x.g - (x.g - x.m) * (1.0f - s.weight1));
    x.v = s.rounded(as_fp32(s.beta2) * x.v);
    x.v = s.rounded(x.v + (s.weight2 * x.g) * x.g);
    const float root = s.rounded(macheps::sqrt(x.v));
    const float corrected = s.rounded(root / s.root_correction);
    const float denominator = s.rounded(corrected + as_fp32(s.eps));
    x.p = x.p - s.step_size * (x.m / denominator);
    return x;
}

/// The same lines as torch compiles them for a CPU: lerp and addcmul end in a fused multiply-add, and addcdiv divides last.
Element single_cpu(Element x, const Constants& s) {
    if (s.weight_decay != 0 && s.adds_decay_to_gradient) x.g = s.rounded(fma(as_fp32(s.weight_decay), x.p, x.g));
    if (s.weight_decay != 0 && !s.adds_decay_to_gradient) x.p = s.rounded(x.p * s.kept);
    x.m =
        s.weight1 < 0.5f ? s.rounded(fma(s.weight1, x.g - x.m, x.m)) : s.rounded(fma(s.weight1 - 1.0f, x.g - x.m, x.g));
    x.v = s.rounded(as_fp32(s.beta2) * x.v);
    x.v = s.rounded(fma(s.weight2 * x.g, x.g, x.v));
    const float root = s.rounded(macheps::sqrt(x.v));
    const float corrected = s.rounded(root / s.root_correction);
    const float denominator = s.rounded(corrected + as_fp32(s.eps));
    x.p = x.p - s.step_size * x.m / denominator;
    return x;
}

/// torch's adam_math: the hyperparameters are fp64, so that what they meet is; every assignment rounds to fp32.
Element fused(Element x, const Constants& s) {
    if (s.weight_decay != 0 && s.adds_decay_to_gradient) x.g = as_fp32(double{x.g} + double{x.p} * s.weight_decay);
    if (s.weight_decay != 0 && !s.adds_decay_to_gradient)
        x.p = as_fp32(double{x.p} - s.lr * s.weight_decay * double{x.p});
    x.m = as_fp32(s.beta1 * double{x.m} + (1.0 - s.beta1) * double{x.g});
    x.v = as_fp32(s.beta2 * double{x.v} + (1.0 - s.beta2) * double{x.g} * double{x.g});
    const float root = macheps::sqrt(x.v) / s.root_correction;
    const float denominator = as_fp32(double{root} + s.eps);
    x.p = x.p - s.fused_step_size * x.m / denominator;
    return x;
}

/// AdamFunctor of multi_tensor_adam.cu, where everything is fp32.
Element multi_tensor(Element x, const Constants& s) {
    const float beta1 = as_fp32(s.beta1), beta2 = as_fp32(s.beta2), decay = as_fp32(s.weight_decay);
    if (s.adds_decay_to_gradient) x.g = x.g + decay * x.p;
    x.m = beta1 * x.m + (1.0f - beta1) * x.g;
    x.v = beta2 * x.v + (1.0f - beta2) * x.g * x.g;
    const float mean = x.m / as_fp32(s.bias_correction1), square = x.v / as_fp32(s.bias_correction2);
    const float denominator = macheps::sqrt(square) + as_fp32(s.eps);
    float update = mean / denominator;
    if (!s.adds_decay_to_gradient) update = update + decay * x.p;
    x.p = x.p - as_fp32(s.lr) * update;
    return x;
}

struct KernelRow {
    std::string_view name;
    Element (*step)(Element, const Constants&);
    bool in_fp32 = false;  ///< whatever the arithmetic: rounding is left to the stores
};

// `plain` stands for the engines' own; decay that is added to the gradient is not among what they do.
constexpr KernelRow kernels[] = {{"plain", single},
                                 {"single", single},
                                 {"fused", fused},
                                 {"single-cpu", single_cpu},
                                 {"fused-cpu", single_cpu, true},
                                 {"multi-tensor", multi_tensor}};

constexpr bool names_agree() {
    for (std::size_t i = 0; i < std::size(kernels); ++i) {
        if (kernels[i].name != adam_kernels[i].name) return false;
    }
    return std::size(kernels) == std::size(adam_kernels);
}
static_assert(names_agree(), "each row of adam_kernels has its function here, in the same order");

std::vector<float> downloaded(Backend& backend, ConstView x) {
    std::vector<float> values(static_cast<std::size_t>(x.count()));
    backend.download(x, values);
    return values;
}

}  // namespace

void step_adam(Backend& backend, View p, ConstView g, View m, View v, const AdamStep& step, UpdateStats& stats) {
    for (const Cast* cast : {&step.value_cast, &step.moment1_cast, &step.moment2_cast})
        backend.draw("adam", *cast, p.count());
    std::vector<float> weights = downloaded(backend, p), first = downloaded(backend, m),
                       second = downloaded(backend, v);
    const std::vector<float> gradients = downloaded(backend, g);
    const KernelRow& kernel = kernels[step.kernel - adam_kernels];
    Constants constants(step);
    if (kernel.in_fp32) constants.arithmetic = fp32;
    definition::set_sums(stats, lane_sum<definition::UpdateSums>(p.count(), [&](std::int64_t index) {
                             const auto i = static_cast<std::size_t>(index);
                             const float before = weights[i];
                             const Element after = kernel.step({before, gradients[i], first[i], second[i]}, constants);
                             const auto at = static_cast<std::uint64_t>(index);
                             weights[i] = definition::store_as(step.value_cast, after.p, at);
                             first[i] = definition::store_as(step.moment1_cast, after.m, at);
                             second[i] = definition::store_as(step.moment2_cast, after.v, at);
                             return definition::observe(stats, before, weights[i], canonical(after.p - before));
                         }));
    backend.upload(weights, p);
    backend.upload(first, m);
    backend.upload(second, v);
}

bool has_kernel(const TrainingRecipe& recipe, const TrainOptions& options) {
    if (options.optimizer == OptimizerKind::sgd) return false;
    return recipe.adam_kernel().name != "plain" || options.optimizer == OptimizerKind::adam;
}

double power_base(const TrainingRecipe& recipe, double beta) {
    return recipe.adam_kernel().name == "multi-tensor" ? double{static_cast<float>(beta)} : beta;
}

}  // namespace macheps
