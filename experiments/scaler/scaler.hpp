// SPDX-License-Identifier: Apache-2.0
// Loss scalers as state machines. Source: pytorch torch/amp/grad_scaler.py and its kernels (AmpKernels.cu).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace macheps {

struct LossScalerConfig {
    enum class Kind { none, static_, torch } kind = Kind::none;
    float init_scale = 65536.0f;
    double growth_factor = 2.0, backoff_factor = 0.5;
    int growth_interval = 2000;

    bool operator==(const LossScalerConfig&) const = default;
};

std::string_view to_string(LossScalerConfig::Kind kind);

/// One optimiser's view: multiply the loss by scale(), the gradients by inverse(), skip the step on a non-finite
/// gradient, then update(). `none` and `static` never change; `static` still skips.
class LossScaler {
  public:
    virtual ~LossScaler() = default;
    virtual float scale() const = 0;
    /// float32(1 / double(scale)).
    virtual float inverse() const = 0;
    virtual int growth_tracker() const = 0;
    /// True when a non-finite gradient means that the step is skipped (false for `none`).
    virtual bool skips() const = 0;
    virtual void update(bool found_inf) = 0;
    /// Everything that update() has changed: what a checkpoint keeps. Numbers that fp64 holds exactly; empty for `none`
    /// and `static`.
    virtual std::vector<double> state() const { return {}; }
    /// Takes back what state() gave. False, and nothing changed, where that is of another kind of scaler.
    [[nodiscard]] virtual bool load(std::span<const double> state) { return state.empty(); }
};

std::unique_ptr<LossScaler> make_loss_scaler(const LossScalerConfig& config);

}  // namespace macheps
