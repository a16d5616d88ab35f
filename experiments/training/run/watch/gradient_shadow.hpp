// SPDX-License-Identifier: Apache-2.0
// GradientShadow: compares the gradients of one step, and the values at its sites, with fp32 results for the same
// weights and the same batches.
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
    std::string min_parameter{};  ///< the first parameter with this cosine
};

/// Compares one step with fp32. Attach this object to a Step, run the step, and release it. The fp32 computation uses a
/// separate model, so it does not affect the run.
class GradientShadow final : public StepWatcher {
  public:
    /// `fp32_model` must have the sizes of the run and must not be used elsewhere during the step. Its weights are
    /// overwritten with the weights of `trained`, taken from the master copies if there are any.
    GradientShadow(Backend& backend, const RunSetup& setup, Transformer& fp32_model, Step& trained);

    void on_batch(std::int64_t step, std::int64_t micro_batch, const Batch& batch) override;
    void on_gradients(Transformer& model) override;
    /// Returns nothing before the backward pass is complete, if a gradient is not finite, or if the fp32 gradient is 0.
    const std::optional<GradientFidelity>& result() const { return result_; }
    /// Returns the divergence in all micro-batches of the step so far.
    const SiteDivergence& divergence() const { return divergence_; }

  private:
    void take(const Slot& slot, ConstView values, float decode_scale) override;

    Backend& backend_;
    const RunSetup& setup_;
    Transformer& fp32_;
    TokenTensor tokens_, targets_;
    float unscale_;  ///< factor that undoes the loss scale and the token weight
    Fp32Values values_;
    SiteDivergence divergence_{};
    std::optional<GradientFidelity> result_{};
};

}  // namespace macheps::training
