// SPDX-License-Identifier: Apache-2.0
// torch.amp.GradScaler, whole: several optimisers, their stages, fused optimisers, saved states. A training run has one
// optimiser and uses the short form, the kind `torch` of torch.cpp; both move their scale by update_scale. Source:
// pytorch torch/amp/grad_scaler.py, aten/src/ATen/native/cuda/AmpKernels.cu, native/cpu/AmpGradScalerKernels.cpp (2.7).
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

/// What GradScaler is made with.
struct TorchSettings {
    float init_scale = 65536.0f;
    double growth_factor = 2.0, backoff_factor = 0.5;
    std::int64_t growth_interval = 2000;
};
/// Those of a policy whose kind has torch's keys.
TorchSettings torch_settings(const LossScalerConfig& config);

/// The kernel of GradScaler.update: backs off on `found_inf`, grows when the run of clean steps *equals* the interval
/// and the grown scale is finite. Products in double, stored as float; there is no lower bound.
void update_scale(const TorchSettings& settings, float& scale, std::int64_t& growth_tracker, bool found_inf);

/// float32(1 / double(scale)): what gradients are multiplied by.
float inverse_scale(double scale);

/// What a fused optimiser does instead: one division by double(scale). Other bits than the product with inverse_scale
/// unless the scale is a power of two.
float fused_unscale(float gradient, float scale);

/// How GradScaler, or a fused optimiser under it (`divides`), unscales.
Unscaling torch_unscaling(float scale, bool divides);

class GradScaler {
  public:
    enum class Device { cpu, cuda };
    /// FSDP's ShardedGradScaler takes fp16 gradients, and gives a loss back in the format that it came in.
    enum class Sharding { none, fsdp };
    /// Some gradients of one optimiser: fp32 values that lie on the grid of `format`, the parameters' format.
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

    /// Throws Error unless growth_factor > 1 and backoff_factor < 1 (when enabled).
    explicit GradScaler(const TorchSettings& settings, bool enabled = true, Device device = Device::cuda,
                        Sharding sharding = Sharding::none);

    /// Loss times scale. A 0-dimensional fp16 loss is promoted to fp32 by the fp32 scale; one with a dimension stays
    /// fp16, and so does every one under FSDP.
    float scale(float loss, Format format = fp32, int dimensions = 0);
    /// Multiplies by the inverse in place, once per step, and records whether anything was non-finite.
    void unscale(OptimizerId optimizer, std::span<const Gradient> gradients);
    /// Unscales unless that has been done, then runs `apply` unless an Inf or NaN was found here. True when it ran.
    bool step(OptimizerId optimizer, std::span<const Gradient> gradients, const std::function<void()>& apply);
    /// For a fused optimiser: always runs `apply(scale to divide by, found_inf)`; the kernel skips by itself. The scale
    /// is 1 when the gradients were unscaled before.
    void step_fused(OptimizerId optimizer, std::span<const Gradient> gradients,
                    const std::function<void(float, bool)>& apply);
    /// A closure is refused, as in torch.
    void step_with_closure() const;
    /// Ends the step: one backoff if any optimiser found an Inf, else one clean step. With `new_scale`, sets it and
    /// nothing else.
    void update(std::optional<float> new_scale = {});

    bool enabled() const { return enabled_; }
    float get_scale() const { return enabled_ ? scale_ : 1.0f; }
    std::int64_t growth_tracker() const { return growth_tracker_; }
    /// Nothing when disabled.
    std::optional<State> state() const;
    /// Throws Error when an enabled scaler is given nothing: it was saved by a disabled one.
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
