// SPDX-License-Identifier: Apache-2.0
// The DynamicGradScaler of Megatron-LM. The scale, its lower limit and both factors are fp32 tensors. A factor such as
// 1.1 is therefore rounded to fp32, and each product is rounded once.
#include "experiments/policy/scaler/keys.hpp"
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/policy/scaler/torch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::policy {

namespace {

class MegatronScaler final : public LossScaler {
  public:
    explicit MegatronScaler(const LossScalerConfig& config)
        : growth_(static_cast<float>(config.at("growth_factor"))),
          backoff_(static_cast<float>(config.at("backoff_factor"))),
          min_scale_(static_cast<float>(config.at("min_scale"))),
          interval_(static_cast<std::int64_t>(config.at("growth_interval"))),
          full_hysteresis_(static_cast<std::int64_t>(config.at("hysteresis"))),
          scale_(static_cast<float>(config.at("init_scale"))),
          hysteresis_(full_hysteresis_) {}
    double scale() const override { return scale_; }
    Unscaling unscaling(bool) override { return {.factor = inverse_scale(scale_), .widens = true, .scale = scale_}; }
    void update(bool found_inf) override {
        if (found_inf) {
            growth_tracker_ = 0;
            // Once the hysteresis is used up, every Inf or NaN reduces the scale until the scale grows again.
            if (--hysteresis_ <= 0) scale_ = std::max(scale_ * backoff_, min_scale_);
        } else if (++growth_tracker_ == interval_) {
            growth_tracker_ = 0;
            hysteresis_ = full_hysteresis_;
            scale_ *= growth_;  // can grow to Inf: Megatron does not check
        }
    }
    std::int64_t growth_tracker() const override { return growth_tracker_; }
    std::optional<std::int64_t> hysteresis() const override { return hysteresis_; }
    std::vector<double> state() const override { return {scale_, double(growth_tracker_), double(hysteresis_)}; }
    bool load(std::span<const double> state) override {
        if (!scaler_key::is_state(state, 3)) return false;
        scale_ = static_cast<float>(state[0]);
        growth_tracker_ = static_cast<std::int64_t>(state[1]);
        hysteresis_ = static_cast<std::int64_t>(state[2]);
        return true;
    }

  private:
    float growth_, backoff_, min_scale_;
    std::int64_t interval_, full_hysteresis_;

    float scale_;
    std::int64_t growth_tracker_ = 0, hysteresis_;
};

constexpr ScalerKey positive_floor() {
    ScalerKey key = scaler_key::in_fp32(scaler_key::min_scale);
    key.is_good = scaler_key::is_positive_fp32;
    key.wanted = "a positive fp32 number";
    return key;
}

constexpr ScalerKey megatron_keys[] = {scaler_key::from(scaler_key::init_scale, 0x1p32),
                                       scaler_key::in_fp32(scaler_key::growth_factor),
                                       scaler_key::in_fp32(scaler_key::backoff_factor),
                                       scaler_key::from(scaler_key::growth_interval, 1000),
                                       scaler_key::hysteresis,
                                       positive_floor()};

}  // namespace

extern const ScalerKind megatron_scaler{
    .name = "megatron",
    .keys = megatron_keys,
    .make = [](const LossScalerConfig& config) -> std::unique_ptr<LossScaler> {
        return std::make_unique<MegatronScaler>(config);
    },
    .conflict = [](const LossScalerConfig& config) -> std::string {
        if (config.at("min_scale") <= config.at("init_scale")) return {};
        return fmt::format("min_scale {} is above init_scale {}", config.at("min_scale"), config.at("init_scale"));
    },
    .line =
        "megatron, from {init_scale}; x{growth_factor} after {growth_interval} clean steps; on Inf or NaN, the step is "
        "skipped; x{backoff_factor} from overflow {hysteresis} on, not below {min_scale}",
    .source = "Megatron-LM megatron/core/optimizer/grad_scaler.py",
    .summary = "DynamicGradScaler of Megatron-LM: hysteresis, fp32 factors, growth to Inf"};

}  // namespace macheps::policy
