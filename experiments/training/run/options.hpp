// SPDX-License-Identifier: Apache-2.0
// Options of a training run, apart from the policy.
#pragma once
#include "experiments/policy/training.hpp"

#include <cstdint>

namespace macheps::training {

/// Returns the number of moments that the optimiser keeps for every parameter.
constexpr int moments(policy::OptimizerKind kind) { return kind == policy::OptimizerKind::sgd ? 1 : 2; }

/// Upper bound for the number of steps and for intervals in steps.
inline constexpr std::int64_t max_steps = std::int64_t{1} << 40;

inline constexpr std::int64_t max_ranks = 1024;

struct TrainOptions {
    std::int64_t steps = 300;
    std::int64_t batch = 16;
    std::int64_t micro_batches = 1;  ///< gradient accumulation: number of micro-batches in a step, `batch` samples each
    std::int64_t ranks = 1;          ///< data parallel: each rank takes batch / ranks samples of a micro-batch
    bool recompute = false;          ///< gradient checkpointing: each block's forward pass runs twice
    policy::OptimizerKind optimizer = policy::OptimizerKind::adamw;
    double lr = 1e-3, min_lr = 1e-4;
    std::int64_t warmup = 20;
    double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;  ///< weight decay applies to matrices only
    double momentum = 0.9;                                           ///< only for SGD
    double clip = 1.0;                                               ///< maximum gradient norm; 0: no clipping
    /// In the backward pass, the loss of every token is multiplied by this factor. Before clipping, the gradients are
    /// divided by this factor and by the loss scale. In the backward pass, gradients are therefore as small as with the
    /// mean over a batch that is 1 / token_weight times as large.
    double token_weight = 1;
    std::int64_t eval_every = 50, eval_batches = 8;
    std::int64_t probe_every = 25;       ///< interval of sampled steps; 0: casts are not even counted
    std::int64_t histogram_every = 150;  ///< sampled steps at multiples of this keep exponents; 0: none do

    bool operator==(const TrainOptions&) const = default;
};

/// Throws FieldError if an option is out of range.
void validate(const TrainOptions& options);

/// Returns the options of a run under a policy with this recipe. Settings of the policy replace options of the run. The
/// number of samples in a step does not change. They are divided into the number of micro-batches that the policy asks
/// for, or into the next smaller number that divides the samples of each rank. A run that itself asks for several
/// micro-batches keeps them. If the policy sets the learning rate, `min_lr` changes by the same ratio.
TrainOptions options_under(const policy::TrainingRecipe& recipe, const TrainOptions& options);

/// Returns the learning rate of a step: linear warm-up, then half a cosine down to min_lr at the last step. Computed in
/// fp64 without libm.
double learning_rate(const TrainOptions& options, std::int64_t step);

}  // namespace macheps::training
