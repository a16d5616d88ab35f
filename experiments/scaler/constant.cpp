// SPDX-License-Identifier: Apache-2.0
// The scalers that never change: none and static.
#include "experiments/scaler/keys.hpp"
#include "experiments/scaler/scaler.hpp"
#include "experiments/scaler/torch.hpp"

namespace macheps {

namespace {

class ConstantScaler final : public LossScaler {
  public:
    ConstantScaler(float scale, bool skips) : scale_(scale), skips_(skips) {}
    float scale() const override { return scale_; }
    Unscaling unscaling(bool) override { return {.factor = inverse_scale(scale_)}; }
    bool skips() const override { return skips_; }
    void update(bool) override {}

  private:
    float scale_;
    bool skips_;
};

// A policy may switch a dynamic scaler off by its kind alone, and keep the keys of the other kind.
constexpr ScalerKey dynamic_keys[] = {scaler_key::init_scale, scaler_key::growth_factor, scaler_key::backoff_factor,
                                      scaler_key::growth_interval};
constexpr ScalerKey static_keys[] = {scaler_key::init_scale};

}  // namespace

extern const ScalerKind no_scaler{.name = "none",
                                  .ignored = dynamic_keys,
                                  .make = [](const LossScalerConfig&) -> std::unique_ptr<LossScaler> {
                                      return std::make_unique<ConstantScaler>(1.0f, false);
                                  },
                                  .line = "none",
                                  .source = "torch.amp.GradScaler(enabled=False)",
                                  .summary = "the loss is not scaled, and a step with Inf or NaN gradients is taken"};

extern const ScalerKind static_scaler{.name = "static",
                                      .keys = static_keys,
                                      .ignored = std::span(dynamic_keys).subspan(1),
                                      .make = [](const LossScalerConfig& config) -> std::unique_ptr<LossScaler> {
                                          return std::make_unique<ConstantScaler>(
                                              static_cast<float>(config.at("init_scale")), true);
                                      },
                                      .line = "static {init_scale}",
                                      .source = "NVIDIA, Mixed Precision Training, arXiv:1710.03740",
                                      .summary = "one scale for ever; a step with Inf or NaN gradients is skipped"};

}  // namespace macheps
