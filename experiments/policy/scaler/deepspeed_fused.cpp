// SPDX-License-Identifier: Apache-2.0
// The scaler inside DeepSpeed's fused and unfused FP16_Optimizer, for runs without ZeRO. It has no hysteresis, and
// reaching the lowest scale is not an error. The scale is a Python double and changes by a factor of 2. It is updated
// before gradients are unscaled.
#include "experiments/policy/scaler/keys.hpp"
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/policy/scaler/torch.hpp"

#include <algorithm>

namespace macheps::policy {

namespace {

class FusedScaler final : public LossScaler {
  public:
    explicit FusedScaler(const LossScalerConfig& config)
        : window_(static_cast<std::int64_t>(config.at("growth_interval"))),
          min_scale_(config.at("min_scale")),
          halves_gradients_(config.at("growth_step_half_grad") != 0),
          scale_(config.at("init_scale")) {}
    double scale() const override { return scale_; }
    bool checks_sums() const override { return true; }
    Unscaling unscaling(bool found_inf) override {
        const double used = scale_;
        const std::int64_t stable = growth_tracker();
        if (found_inf) {
            scale_ = std::max(scale_ / 2, min_scale_);
            last_overflow_ = iteration_;
        } else if (stable > 0 && stable % window_ == 0) {
            scale_ *= 2;
        }
        ++iteration_;
        const double undone = halves_gradients_ ? scale_ : used;
        return {.factor = inverse_scale(undone), .widens = true, .scale = undone};
    }
    void update(bool) override {}
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
    double min_scale_;
    bool halves_gradients_;

    double scale_;
    std::int64_t iteration_ = 0, last_overflow_ = -1;
};

constexpr ScalerKey any_version() {
    ScalerKey key = scaler_key::deepspeed_version;
    key.summary = "version of DeepSpeed; all known versions do the same";
    return key;
}

constexpr ScalerKey fused_keys[] = {scaler_key::in_fp64(scaler_key::init_scale),
                                    scaler_key::from(scaler_key::growth_interval, 1000), scaler_key::min_scale,
                                    any_version(), scaler_key::growth_step_half_grad};
constexpr std::string_view fused_aliases[] = {"deepspeed-fused"};

}  // namespace

extern const ScalerKind deepspeed_fused_scaler{
    .name = "ds-fused",
    .aliases = fused_aliases,
    .keys = fused_keys,
    .make = [](const LossScalerConfig& config) -> std::unique_ptr<LossScaler> {
        return std::make_unique<FusedScaler>(config);
    },
    .line =
        "ds-fused {version}, from {init_scale}; x2 after {growth_interval} clean steps; on Inf or NaN, x0.5 (not below "
        "{min_scale}) and the step is skipped",
    .source = "DeepSpeed deepspeed/runtime/fp16/fused_optimizer.py, unfused_optimizer.py",
    .summary =
        "FP16_Optimizer of DeepSpeed without ZeRO: no hysteresis, and an overflow at the lowest scale does not end the "
        "run"};

}  // namespace macheps::policy
