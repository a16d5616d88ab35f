// SPDX-License-Identifier: Apache-2.0
// Unscales and clips gradients and updates weights: everything between a backward pass and the next forward pass.
#pragma once
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/training/model/transformer.hpp"
#include "experiments/training/run/checkpoint.hpp"
#include "experiments/training/run/optimizer/adam_kernels.hpp"
#include "experiments/training/run/options.hpp"

#include <vector>

namespace macheps::training {

struct StepOutcome {
    bool skipped = false;
    float grad_norm = 0;    ///< after unscaling, before clipping
    double lr = 0;          ///< learning rate of the step, even if it is skipped
    UpdateStats updates{};  ///< sums over all tensors; zero if the step is skipped
};

class Optimizer {
  public:
    Optimizer(Backend& backend, const policy::ResolvedPolicy& policy, const TrainOptions& options, Transformer& model,
              std::uint64_t seed);

    /// Runs one optimiser step on the accumulated gradients: checks them for Inf and NaN, unscales and clips them,
    /// updates the weights (or skips the update), and updates the scaler. Throws ScalerRaised if the scaler's framework
    /// ends the run; the weights are then unchanged.
    StepOutcome step(std::int64_t step_index, policy::LossScaler& scaler);

    /// Returns the weights in their best precision: the master copy if there is one.
    ConstView best_value(std::size_t parameter) const;

    /// Sets the members `state` and `optimizer` of a checkpoint: the values, masters and moments of the parameters, and
    /// the powers of the betas. If the learning rate depends on the number of steps that were not skipped, also saves
    /// this number.
    void save(Checkpoint& checkpoint) const;
    /// Restores what save() stored. The checkpoint must fit: see check_state().
    void load(const Checkpoint& checkpoint);

  private:
    template <class Visitor>
    void visit_state(Visitor&& tensor) const;
    struct State {
        ParameterState* parameter;
        Tensor master, moment1, moment2;
        Slot master_slot, update_slot, moment1_slot, moment2_slot;
        bool decays;
    };
    void unscale(policy::Unscaling by, std::int64_t step_index);
    float norm(const policy::ClipFormula& formula, bool widened) const;
    void clip(const policy::ClipFormula& formula, float norm, bool widened, std::int64_t step_index);
    float unscale_and_clip(policy::Unscaling by, std::int64_t step_index, bool skips);
    bool overflows(const ParameterState& parameter, bool in_sum) const;
    void scale_gradient(State& state, policy::Unscaling by, std::int64_t step_index, std::uint32_t stream);
    double rate(std::int64_t step_index) const;
    AdamW adamw_constants(double lr) const;
    Adam adam_constants(double lr) const;
    Cast keyed(const Slot& slot, std::int64_t step_index) const;
    void update(State& state, std::int64_t step_index, UpdateStats& total);

    Backend& backend_;
    const policy::ResolvedPolicy& policy_;
    TrainOptions options_;
    Transformer& model_;
    std::uint64_t seed_;
    double beta1_power_ = 1, beta2_power_ = 1;
    std::int64_t taken_ = 0;  ///< steps that were not skipped
    std::vector<State> states_;
};

/// Throws Error unless `checkpoint` holds the tensors of an optimiser with these options for the parameters of `model`,
/// and the state of the policy's loss scaler.
void check_state(const Checkpoint& checkpoint, const policy::SiteList& model, const TrainOptions& options,
                 const policy::ResolvedPolicy& policy);

}  // namespace macheps::training
