// SPDX-License-Identifier: Apache-2.0
// The loss scalers with a constant scale: `none` and `static`.
#include "experiments/policy/scaler/keys.hpp"
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/policy/scaler/torch.hpp"

namespace macheps::policy {

namespace {

class ConstantScaler final : public LossScaler {
  public:
    ConstantScaler(double scale, bool skips, bool divides) : scale_(scale), skips_(skips), divides_(divides) {}
    double scale() const override { return scale_; }
    Unscaling unscaling(bool) override {
        return {.factor = divides_ ? static_cast<float>(scale_) : inverse_scale(scale_),
                .divides = divides_,
                .scale = scale_};
    }
    bool skips() const override { return skips_; }
    void update(bool) override {}

  private:
    double scale_;
    bool skips_, divides_;
};

// A policy may turn a dynamic scaler off by changing only `kind`. The keys of the dynamic scaler are then still in the
// table, so they are accepted here, without effect.
constexpr ScalerKey dynamic_keys[] = {scaler_key::init_scale, scaler_key::growth_factor, scaler_key::backoff_factor,
                                      scaler_key::growth_interval};
constexpr ScalerKey static_keys[] = {
    scaler_key::in_fp64(scaler_key::init_scale),
    {.name = "skip",
     .type = ScalerValue::flag,
     .initial = 1,
     .summary = "true: a step with Inf or NaN gradients is skipped, as in DeepSpeed with fp16; false: gradients are "
                "not checked, and Inf and NaN reach the weights, as in Apex and in a hand-written training loop"},
    scaler_key::unscale_by_division};

}  // namespace

extern const ScalerKind no_scaler{.name = "none",
                                  .ignored = dynamic_keys,
                                  .make = [](const LossScalerConfig&) -> std::unique_ptr<LossScaler> {
                                      return std::make_unique<ConstantScaler>(1.0, false, false);
                                  },
                                  .line = "none",
                                  .source = "torch.amp.GradScaler(enabled=False)",
                                  .summary = "the loss is not scaled, and a step with Inf or NaN gradients is taken"};

extern const ScalerKind static_scaler{
    .name = "static",
    .keys = static_keys,
    .ignored = std::span(dynamic_keys).subspan(1),
    .make = [](const LossScalerConfig& config) -> std::unique_ptr<LossScaler> {
        return std::make_unique<ConstantScaler>(config.at("init_scale"), config.at("skip") != 0,
                                                config.at("unscale_by_division") != 0);
    },
    .line = "static {init_scale}, skip {skip}",
    .source = "NVIDIA, Mixed Precision Training, arXiv:1710.03740; deepspeed LossScaler",
    .summary = "a constant scale; a step with Inf or NaN gradients is skipped, unless skip is false"};

}  // namespace macheps::policy
