// SPDX-License-Identifier: Apache-2.0
// Options of a training run, apart from the policy.
#pragma once
#include "experiments/policy/training.hpp"

#include <cstdint>

namespace macheps::training {

/// Returns the number of moments that the optimiser keeps for every parameter.
constexpr int moments(policy::OptimizerKind kind) { return kind == policy::OptimizerKind::sgd ? 1 : 2; }

/// Upper bound of numbers of steps, and of intervals in steps.
inline constexpr std::int64_t max_steps = std::int64_t{1} << 40;

inline constexpr std::int64_t max_ranks = 1024;

struct TrainOptions {
    std::int64_t steps = 300;
    std::int64_t batch = 16;
    std::int64_t micro_batches = 1;  ///< gradient accumulation: parts of a step, of `batch` samples each
    std::int64_t ranks = 1;          ///< data parallel: each rank takes batch / ranks samples of a micro-batch
    bool recompute = false;          ///< gradient checkpointing: every block's forward pass is done twice
    policy::OptimizerKind optimizer = policy::OptimizerKind::adamw;
    double lr = 1e-3, min_lr = 1e-4;
    std::int64_t warmup = 20;
    double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;  ///< weight decay applies to matrices only
    double momentum = 0.9;                                           ///< sgd
    double clip = 1.0;                                               ///< maximum gradient norm; 0: no clipping
    /// Factor of every token's loss in the backward pass. The gradients are divided by it, together with the loss
    /// scale, before clipping. In the backward pass, gradients are thus as small as those of a mean over a batch that
    /// is 1 / token_weight times as large.
    double token_weight = 1;
    std::int64_t eval_every = 50, eval_batches = 8;
    std::int64_t probe_every = 25;       ///< steps between sampled steps; 0: no casts are counted at all
    std::int64_t histogram_every = 150;  ///< exponents are kept in sampled steps at multiples of this; 0: none

    bool operator==(const TrainOptions&) const = default;
};

/// Throws FieldError for numbers that no training accepts.
void validate(const TrainOptions& options);

/// Returns the options of a run under a policy with this recipe. Settings of the policy replace options of the run. The
/// number of samples in a step does not change. They are divided into as many micro-batches as the policy asks for, or
/// into the next smaller number that divides the samples of each rank. If the run itself asks for several
/// micro-batches, they stay. If the policy sets the learning rate, `min_lr` keeps its ratio to it.
TrainOptions options_under(const policy::TrainingRecipe& recipe, const TrainOptions& options);

/// Returns the learning rate: linear warm-up, then half a cosine down to min_lr at the last step. fp64, no libm.
double learning_rate(const TrainOptions& options, std::int64_t step);

}  // namespace macheps::training
