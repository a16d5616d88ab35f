// SPDX-License-Identifier: Apache-2.0
// Evaluator: computes the loss on held-out batches, both under a run's policy and in fp32.
#pragma once
#include "experiments/training/run/step.hpp"

#include <cstdint>
#include <vector>

namespace macheps::training {

class Evaluator {
  public:
    /// Evaluates on the first `batches` held-out batches, which are the same for every policy and seed.
    Evaluator(Backend& backend, const RunSetup& setup, std::int64_t batches);

    /// Returns the mean losses over the batches. `trained` holds the model of the run, which is about to do step
    /// `step`. The evaluation changes no bit of training: its casts are not counted and not reused, and its random
    /// words are separate.
    reports::EvalRow evaluate(std::int64_t step, Step& trained);

    /// Returns the model for evaluations in fp32. Other code may use it between two evaluations, because each
    /// evaluation overwrites its weights.
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
