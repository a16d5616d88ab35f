// SPDX-License-Identifier: Apache-2.0
// Evaluator: the loss on held-out batches, under a run's policy and in fp32.
#pragma once
#include "experiments/training/run/step.hpp"

#include <cstdint>
#include <vector>

namespace macheps::training {

class Evaluator {
  public:
    /// On the first `batches` held-out batches, which are the same for every policy and seed.
    Evaluator(Backend& backend, const RunSetup& setup, std::int64_t batches);

    /// Means over the batches, before step `step` of the run that `trained` is in. No cast of an evaluation is counted or
    /// outlives it, and its random words are its own, so that no bit of training depends on it.
    reports::EvalRow evaluate(std::int64_t step, Step& trained);

    /// The model that evaluates in fp32, for others between two evaluations: each makes its weights anew.
    Transformer& fp32_model() { return fp32_model_; }

  private:
    double mean_loss(Transformer& model, std::int64_t step) const;

    Backend& backend_;
    const RunSetup setup_;
    Transformer fp32_model_;
    std::vector<TokenTensor> tokens_, targets_;
    double entropy_floor_ = 0;
};

}  // namespace macheps::training
