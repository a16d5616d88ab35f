// SPDX-License-Identifier: Apache-2.0
// The complete torch.amp.GradScaler, with several optimisers, the stage of each, fused optimisers and saved states. A
// training run has one optimiser and uses the shorter scaler of kind `torch` in torch.cpp. Both scalers change their
// scale with update_scale(). Source: pytorch torch/amp/grad_scaler.py, aten/src/ATen/native/cuda/AmpKernels.cu,
// native/cpu/AmpGradScalerKernels.cpp (2.7).
#pragma once
#include "core/format.hpp"
#include "experiments/policy/scaler/scaler.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace macheps::policy {

/// Arguments of GradScaler's constructor.
struct TorchSettings {
    float init_scale = 65536.0f;
    double growth_factor = 2.0, backoff_factor = 0.5;
    std::int64_t growth_interval = 2000;
};
/// Returns the settings of a policy whose kind has torch's keys.
TorchSettings torch_settings(const LossScalerConfig& config);

/// Updates the scale like the kernel of GradScaler.update. Backs off if `found_inf`. Grows when the number of clean
/// steps *equals* the interval and the grown scale is finite. Products are computed in double and stored as float. The
/// scale has no lower limit.
void update_scale(const TorchSettings& settings, float& scale, std::int64_t& growth_tracker, bool found_inf);

/// Returns the factor that unscales the gradients: float32(1 / double(scale)).
float inverse_scale(double scale);

/// Unscales a gradient like a fused optimiser, with one division by double(scale). Unless the scale is a power of two,
/// the result can differ from a product with inverse_scale().
float fused_unscale(float gradient, float scale);

/// Returns how GradScaler unscales gradients: by a product with inverse_scale() or, if `divides`, by a division, as in
/// a fused optimiser.
Unscaling torch_unscaling(float scale, bool divides);

class GradScaler {
  public:
    enum class Device { cpu, cuda };
    /// `fsdp` selects FSDP's ShardedGradScaler. Unlike GradScaler, it accepts fp16 gradients, and it returns the scaled
    /// loss in the format of the loss.
    enum class Sharding { none, fsdp };
    /// Some gradients of one optimiser. The values are numbers of `format`, the format of the parameters.
    struct Gradient {
        std::span<float> values;
        Format format = fp32;
    };
    struct State {
        float scale = 0;
        double growth_factor = 0, backoff_factor = 0;
        std::int64_t growth_interval = 0, growth_tracker = 0;
    };
    using OptimizerId = int;

    /// If enabled, throws Error unless growth_factor > 1 and backoff_factor < 1.
    explicit GradScaler(const TorchSettings& settings, bool enabled = true, Device device = Device::cuda,
                        Sharding sharding = Sharding::none);

    /// Returns loss times scale. A 0-dimensional fp16 loss is promoted to fp32 by the fp32 scale. A loss with
    /// dimensions stays fp16, and so does every loss under FSDP.
    float scale(float loss, Format format = fp32, int dimensions = 0);
    /// Multiplies the gradients by the inverse scale in place, once per step, and records whether one was not finite.
    void unscale(OptimizerId optimizer, std::span<const Gradient> gradients);
    /// Unscales the gradients unless unscale() was called before. Then calls `apply` unless an Inf or NaN was found in
    /// these gradients. Returns whether `apply` was called.
    bool step(OptimizerId optimizer, std::span<const Gradient> gradients, const std::function<void()>& apply);
    /// Steps a fused optimiser: always calls `apply(scale, found_inf)`. The optimiser's kernel divides by this scale,
    /// and skips the update itself if `found_inf`. The scale is 1 if the gradients were unscaled before.
    void step_fused(OptimizerId optimizer, std::span<const Gradient> gradients,
                    const std::function<void(float, bool)>& apply);
    /// Throws Error if enabled, because torch refuses a closure.
    void step_with_closure() const;
    /// Ends the step: backs off once if an optimiser found an Inf or NaN, otherwise counts one clean step. With
    /// `new_scale`, only sets the scale.
    void update(std::optional<float> new_scale = {});

    bool enabled() const { return enabled_; }
    float get_scale() const { return enabled_ ? scale_ : 1.0f; }
    std::int64_t growth_tracker() const { return growth_tracker_; }
    /// Returns nothing if disabled.
    std::optional<State> state() const;
    /// Restores a state. An enabled scaler throws Error if the state is empty, because a disabled scaler saved it.
    void load(const std::optional<State>& state);

  private:
    enum class Stage { ready, unscaled, stepped };
    struct PerOptimizer {
        Stage stage = Stage::ready;
        std::optional<bool> found_inf;
    };
    void check_used(const char* call) const;
    bool any_nonfinite(std::span<const Gradient> gradients) const;

    TorchSettings settings_;
    bool enabled_, used_ = false;
    Device device_;
    Sharding sharding_;
    float scale_;
    std::int64_t growth_tracker_ = 0;
    std::map<OptimizerId, PerOptimizer> optimizers_;
};

}  // namespace macheps::policy
