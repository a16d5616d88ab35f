// SPDX-License-Identifier: Apache-2.0
// GradientShadow: compares the gradients of one step, and the values at its sites, with those that fp32 gives for the
// same weights and the same batches.
#pragma once
#include "experiments/training/run/step.hpp"
#include "experiments/training/run/watch/fp32_values.hpp"

#include <optional>
#include <string>

namespace macheps::training {

/// Comparison of g, the policy's gradient (unscaled, before clipping), with g32, fp32's gradient.
struct GradientFidelity {
    double cosine = 0;            ///< <g, g32> / (|g| |g32|) over all parameters; 0 if g is 0
    double proj = 0;              ///< <g, g32> / <g32, g32>: below 1 if small parts are lost
    double snr_db = 0;            ///< 20 log10(|g32| / |g - g32|)
    double min_cosine = 1;        ///< smallest cosine of a single parameter's gradient
    std::string min_parameter{};  ///< the parameter with that cosine; the first of several
};

/// Follows one step: attach it to the step, run the step, release it. It works on a separate model and changes nothing
/// in the run.
class GradientShadow final : public StepWatcher {
  public:
    /// `fp32_model` has the sizes of the run, and nobody else uses it while the step runs. Its weights are overwritten
    /// with the best copies of `trained`'s weights.
    GradientShadow(Backend& backend, const RunSetup& setup, Transformer& fp32_model, Step& trained);

    void on_batch(std::int64_t step, std::int64_t micro_batch, const Batch& batch) override;
    void on_gradients(Transformer& model) override;
    /// Returns nothing before the backward pass is over, if a gradient is not finite, or if fp32's gradient is 0.
    const std::optional<GradientFidelity>& result() const { return result_; }
    /// Returns the divergence in the micro-batches so far.
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
