// SPDX-License-Identifier: Apache-2.0
#include "experiments/scaler/scaler.hpp"

#include "experiments/scaler/grad_scaler.hpp"

namespace macheps {

namespace {

/// none and static: one number for ever.
class ConstantScaler final : public LossScaler {
  public:
    ConstantScaler(float scale, bool skips) : scale_(scale), skips_(skips) {}
    float scale() const override { return scale_; }
    float inverse() const override { return inverse_scale(scale_); }
    int growth_tracker() const override { return 0; }
    bool skips() const override { return skips_; }
    void update(bool) override {}

  private:
    float scale_;
    bool skips_;
};

class TorchScaler final : public LossScaler {
  public:
    explicit TorchScaler(const LossScalerConfig& config) : config_(config), scale_(config.init_scale) {}
    float scale() const override { return scale_; }
    float inverse() const override { return inverse_scale(scale_); }
    int growth_tracker() const override { return growth_tracker_; }
    bool skips() const override { return true; }
    void update(bool found_inf) override { update_scale(config_, scale_, growth_tracker_, found_inf); }
    std::vector<double> state() const override { return {double{scale_}, static_cast<double>(growth_tracker_)}; }
    bool load(std::span<const double> state) override {
        if (state.size() != 2) return false;
        scale_ = static_cast<float>(state[0]);
        growth_tracker_ = static_cast<int>(state[1]);
        return true;
    }

  private:
    LossScalerConfig config_;
    float scale_;
    int growth_tracker_ = 0;
};

}  // namespace

std::string_view to_string(LossScalerConfig::Kind kind) {
    switch (kind) {
        case LossScalerConfig::Kind::none:
            return "none";
        case LossScalerConfig::Kind::static_:
            return "static";
        case LossScalerConfig::Kind::torch:
            break;
    }
    return "torch";
}

std::unique_ptr<LossScaler> make_loss_scaler(const LossScalerConfig& config) {
    switch (config.kind) {
        case LossScalerConfig::Kind::none:
            return std::make_unique<ConstantScaler>(1.0f, false);
        case LossScalerConfig::Kind::static_:
            return std::make_unique<ConstantScaler>(config.init_scale, true);
        case LossScalerConfig::Kind::torch:
            break;
    }
    return std::make_unique<TorchScaler>(config);
}

}  // namespace macheps
