// SPDX-License-Identifier: Apache-2.0
// The LossScaler of NVIDIA Apex's amp. Its scale is a Python double with an upper limit and an optional lower limit. It
// changes by a factor of 2.
#include "experiments/policy/scaler/keys.hpp"
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/policy/scaler/torch.hpp"

#include <algorithm>

namespace macheps::policy {

namespace {

class ApexScaler final : public LossScaler {
  public:
    explicit ApexScaler(const LossScalerConfig& config)
        : window_(static_cast<std::int64_t>(config.at("growth_interval"))),
          min_scale_(config.find("min_scale").value_or(0)),
          max_scale_(config.at("max_scale")),
          scale_(std::min(max_scale_, config.at("init_scale"))) {}
    double scale() const override { return scale_; }
    Unscaling unscaling(bool) override { return {.factor = inverse_scale(scale_), .widens = true, .scale = scale_}; }
    void update(bool found_inf) override {
        if (found_inf) {
            scale_ = std::max(scale_ / 2, min_scale_);
            unskipped_ = 0;
        } else if (++unskipped_ == window_) {
            scale_ = std::min(scale_ * 2, max_scale_);
            unskipped_ = 0;
        }
    }
    std::int64_t growth_tracker() const override { return unskipped_; }
    std::vector<double> state() const override { return {scale_, double(unskipped_)}; }
    bool load(std::span<const double> state) override {
        if (!scaler_key::is_state(state, 2)) return false;
        scale_ = state[0];
        unskipped_ = static_cast<std::int64_t>(state[1]);
        return true;
    }

  private:
    std::int64_t window_;
    double min_scale_, max_scale_;

    double scale_;
    std::int64_t unskipped_ = 0;
};

constexpr ScalerKey no_floor() {
    ScalerKey key = scaler_key::min_scale;
    key.initial = {};
    key.summary = "the lowest scale; without it, or with 0, the scale can fall to 0";
    return key;
}

constexpr ScalerKey apex_keys[] = {scaler_key::in_fp64(scaler_key::init_scale), scaler_key::growth_interval, no_floor(),
                                   scaler_key::max_scale};

}  // namespace

extern const ScalerKind apex_scaler{
    .name = "apex",
    .keys = apex_keys,
    .make = [](const LossScalerConfig& config) -> std::unique_ptr<LossScaler> {
        return std::make_unique<ApexScaler>(config);
    },
    .line =
        "apex, from {init_scale}; x2 after {growth_interval} clean steps, up to {max_scale}; on Inf or NaN, x0.5 (not "
        "below {min_scale}) and the step is skipped",
    .source = "apex apex/amp/scaler.py (e13873de, the last tree that has amp)",
    .summary = "LossScaler of Apex amp, O1 and O2: the scale has an upper limit"};

}  // namespace macheps::policy
