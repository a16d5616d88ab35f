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
    /// The backward pass multiplies the loss of every token by this factor. Its gradients are therefore as small as
    /// with a batch that is 1 / token_weight times as large. Before clipping, the gradients are divided by this factor
    /// and by the loss scale.
    double token_weight = 1;
    std::int64_t eval_every = 50, eval_batches = 8;
    std::int64_t probe_every = 25;       ///< steps between sampled steps; 0: casts are not even counted
    std::int64_t histogram_every = 150;  ///< steps at multiples of this keep histograms if sampled; 0: none do

    bool operator==(const TrainOptions&) const = default;
};

/// Throws FieldError if an option is out of range.
void validate(const TrainOptions& options);

/// Returns the options of a run under the policy whose training settings are `recipe`. These settings replace the run's
/// options. The number of samples in a step does not change. If the policy asks for micro-batches and the run has only
/// one, the samples are divided into that number of micro-batches, or into the next smaller number that divides the
/// samples of each rank. If the policy sets the learning rate, `min_lr` changes by the same ratio.
TrainOptions options_under(const policy::TrainingRecipe& recipe, const TrainOptions& options);

/// Returns the learning rate of a step: linear warm-up, then half a cosine down to min_lr at the last step. Computed in
/// fp64 without libm.
double learning_rate(const TrainOptions& options, std::int64_t step);

}  // namespace macheps::training
