// SPDX-License-Identifier: Apache-2.0
// What a training run is told, apart from the policy.
#pragma once
#include "experiments/policy/training.hpp"

#include <cstdint>

namespace macheps::training {

/// Moments that the optimiser keeps of every parameter.
constexpr int moments(policy::OptimizerKind kind) { return kind == policy::OptimizerKind::sgd ? 1 : 2; }

/// Steps, and counts of steps between one thing and the next.
inline constexpr std::int64_t most_steps = std::int64_t{1} << 40;

inline constexpr std::int64_t most_ranks = 1024;

struct TrainOptions {
    std::int64_t steps = 300;
    std::int64_t batch = 16;
    std::int64_t micro_batches = 1;  ///< gradient accumulation: each of `batch` samples
    std::int64_t ranks = 1;          ///< data parallel: each takes batch / ranks samples of a micro-batch
    bool recompute = false;          ///< gradient checkpointing: every block's forward pass is done twice
    policy::OptimizerKind optimizer = policy::OptimizerKind::adamw;
    double lr = 1e-3, min_lr = 1e-4;
    std::int64_t warmup = 20;
    double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;  ///< decay of matrices only
    double momentum = 0.9;                                           ///< sgd
    double clip = 1.0;                                               ///< largest gradient norm; 0: no clipping
    /// Every token's loss is weighted by this in the backward pass, and the gradients are divided by it in fp32 before
    /// clipping: what the mean over a batch 1 / token_weight times as large does to the size of gradients.
    double token_weight = 1;
    std::int64_t eval_every = 50, eval_batches = 8;
    std::int64_t probe_every = 25;       ///< steps between sampled steps; 0: no casts are counted at all
    std::int64_t histogram_every = 150;  ///< of the sampled steps, those whose exponents are kept

    bool operator==(const TrainOptions&) const = default;
};

/// Throws FieldError for numbers that no training takes.
void validate(const TrainOptions& options);

/// The options of a run under a policy that says this: its words go before the run's. The samples of a step are the run's: micro-batches
/// divide them, as many as the policy asks for or the nearest number below that divides `batch`. Where the run itself asks for several, they
/// stay. A policy's learning rate keeps the proportion of `min_lr`.
TrainOptions options_under(const policy::TrainingRecipe& recipe, const TrainOptions& options);

/// Linear warm-up, then half a cosine down to min_lr at the last step. fp64, no libm.
double learning_rate(const TrainOptions& options, std::int64_t step);

}  // namespace macheps::training
