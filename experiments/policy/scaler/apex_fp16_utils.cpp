// SPDX-License-Identifier: Apache-2.0
// The DynamicLossScaler of NVIDIA Apex's fp16_utils, which the old FP16_Optimizer uses. Its scale is a Python double
// and never falls below 1.
#include "experiments/policy/scaler/keys.hpp"
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/policy/scaler/torch.hpp"

#include <algorithm>

namespace macheps::policy {

namespace {

class Fp16UtilsScaler final : public LossScaler {
  public:
    explicit Fp16UtilsScaler(const LossScalerConfig& config)
        : window_(static_cast<std::int64_t>(config.at("growth_interval"))),
          factor_(config.at("growth_factor")),
          scale_(config.at("init_scale")) {}
    double scale() const override { return scale_; }
    bool checks_sums() const override { return true; }
    Unscaling unscaling(bool) override { return {.factor = inverse_scale(scale_), .widens = true, .scale = scale_}; }
    void update(bool found_inf) override {
        if (found_inf) {
            scale_ = std::max(scale_ / factor_, 1.0);
            last_overflow_ = iteration_;
        } else if ((iteration_ - last_overflow_) % window_ == 0) {
            scale_ *= factor_;
        }
        ++iteration_;
    }
    std::int64_t growth_tracker() const override { return iteration_ - last_overflow_ - 1; }
    std::vector<double> state() const override { return {scale_, double(iteration_), double(last_overflow_)}; }
    bool load(std::span<const double> state) override {
        if (!scaler_key::is_state(state, 3)) return false;
        scale_ = state[0];
        iteration_ = static_cast<std::int64_t>(state[1]);
        last_overflow_ = static_cast<std::int64_t>(state[2]);
        return true;
    }

  private:
    std::int64_t window_;
    double factor_;

    double scale_;
    std::int64_t iteration_ = 0, last_overflow_ = -1;
};

constexpr ScalerKey one_factor() {
    ScalerKey key = scaler_key::growth_factor;
    key.summary = "factor by which the scale grows, and by which it is divided after an Inf or NaN";
    return key;
}

constexpr ScalerKey fp16_utils_keys[] = {scaler_key::from(scaler_key::in_fp64(scaler_key::init_scale), 0x1p32),
                                         one_factor(), scaler_key::from(scaler_key::growth_interval, 1000)};

}  // namespace

extern const ScalerKind apex_fp16_utils_scaler{
    .name = "apex-fp16-utils",
    .keys = fp16_utils_keys,
    .make = [](const LossScalerConfig& config) -> std::unique_ptr<LossScaler> {
        return std::make_unique<Fp16UtilsScaler>(config);
    },
    .line =
        "apex-fp16-utils, from {init_scale}; x{growth_factor} after {growth_interval} clean steps; on Inf or NaN, "
        "/{growth_factor} (not below 1) and the step is skipped",
    .source = "apex apex/fp16_utils/loss_scaler.py (e13873de)",
    .summary = "DynamicLossScaler of Apex's old FP16_Optimizer: from 2^32, not below 1"};

}  // namespace macheps::policy
