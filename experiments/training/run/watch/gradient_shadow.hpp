// SPDX-License-Identifier: Apache-2.0
// GradientShadow: the gradients of one step, and the values at its sites, beside those that fp32 gives with the same weights
// and the same batches.
#pragma once
#include "experiments/training/run/step.hpp"
#include "experiments/training/run/watch/fp32_values.hpp"

#include <optional>
#include <string>

namespace macheps::training {

/// g: the policy's gradient, unscaled, before clipping; g32: fp32's.
struct GradientFidelity {
    double cosine = 0;              ///< <g, g32> / (|g| |g32|) over all parameters; 0 where g is 0
    double proj = 0;                ///< <g, g32> / <g32, g32>: below 1 where small parts are lost
    double snr_db = 0;              ///< 20 log10(|g32| / |g - g32|)
    double least_cosine = 1;        ///< of the parameters' gradients
    std::string least_parameter{};  ///< whose that is, the first of several
};

/// Follows one step: attach it to the step, run, release. It has a model of its own to work on, and touches nothing of the run's.
class GradientShadow final : public StepWatcher {
  public:
    /// `fp32_model` is of the run's sizes, and of nobody's while the step runs: its weights become the best copies of `trained`'s.
    GradientShadow(Backend& backend, const RunSetup& setup, Transformer& fp32_model, Step& trained);

    void on_batch(std::int64_t step, std::int64_t micro_batch, const Batch& batch) override;
    void on_gradients(Transformer& model) override;
    /// Nothing before the backward pass is over, or where a gradient is not finite or fp32's is 0.
    const std::optional<GradientFidelity>& result() const { return result_; }
    /// Of the micro-batches so far.
    const SiteDivergence& divergence() const { return divergence_; }

  private:
    void take(const Slot& slot, ConstView values, float decode_scale) override;

    Backend& backend_;
    const RunSetup& setup_;
    Transformer& fp32_;
    TokenTensor tokens_, targets_;
    float unscale_;  ///< undoes loss scale and token weight
    Fp32Values values_;
    SiteDivergence divergence_{};
    std::optional<GradientFidelity> result_{};
};

}  // namespace macheps::training
