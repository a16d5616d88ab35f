// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's DynamicLossScaler, which ZeRO 1, 2 and 3 use for fp16. The scale is a Python double and changes by a
// factor of 2. It is updated before gradients are unscaled.
#include "experiments/policy/scaler/keys.hpp"
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/policy/scaler/torch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::policy {

namespace {

class ZeroScaler final : public LossScaler {
  public:
    explicit ZeroScaler(const LossScalerConfig& config)
        : window_(static_cast<std::int64_t>(config.at("growth_interval"))),
          delayed_shift_(static_cast<std::int64_t>(config.at("hysteresis"))),
          min_scale_(config.at("min_scale")),
          refills_when_clean_(config.at("consecutive_hysteresis") != 0),
          grows_late_(config.at("version") >= *version_number("0.17.1")),
          halves_gradients_(config.at("growth_step_half_grad") != 0),
          scale_(config.at("init_scale")),
          hysteresis_(delayed_shift_) {}
    double scale() const override { return scale_; }
    Unscaling unscaling(bool found_inf) override {
        const double used = scale_;
        if (found_inf) {
            overflow();
        } else {
            clean_step();
        }
        ++iteration_;
        const double undone = halves_gradients_ ? scale_ : used;
        return {.factor = inverse_scale(undone), .widens = true, .scale = undone};
    }
    void update(bool) override {}
    std::int64_t growth_tracker() const override { return iteration_ - last_overflow_ - 1; }
    std::optional<std::int64_t> hysteresis() const override { return hysteresis_; }
    std::vector<double> state() const override {
        return {scale_, double(iteration_), double(last_overflow_), double(hysteresis_)};
    }
    bool load(std::span<const double> state) override {
        if (!scaler_key::is_state(state, 4)) return false;
        scale_ = state[0];
        iteration_ = static_cast<std::int64_t>(state[1]);
        last_overflow_ = static_cast<std::int64_t>(state[2]);
        hysteresis_ = static_cast<std::int64_t>(state[3]);
        return true;
    }

  private:
    /// Handles a step with an Inf or NaN. The hysteresis is tested for equality with 1, as in DeepSpeed. If it starts
    /// at 0, it therefore becomes negative, and the scale never backs off. Only clean steps refill the hysteresis.
    void overflow() {
        if (delayed_shift_ != 1 && hysteresis_ != 1) {
            --hysteresis_;
        } else if (scale_ == min_scale_) {
            throw ScalerRaised({.what = fmt::format("an Inf or NaN gradient while the scale is at its floor of {}: "
                                                    "DeepSpeed ends the run",
                                                    min_scale_),
                                .where = "loss scaler ds-zero",
                                .fix = "if the loss itself is finite, lower min_scale",
                                .exit = Exit::check_failed});
        } else {
            scale_ = std::max(scale_ / 2, min_scale_);
        }
        last_overflow_ = iteration_;
    }

    void clean_step() {
        if (refills_when_clean_) hysteresis_ = delayed_shift_;
        const std::int64_t stable = iteration_ - last_overflow_ - (grows_late_ ? 1 : 0);
        if (stable == 0 || stable % window_ != 0) return;
        hysteresis_ = delayed_shift_;
        scale_ *= 2;
    }

    std::int64_t window_, delayed_shift_;
    double min_scale_;
    bool refills_when_clean_, grows_late_, halves_gradients_;

    double scale_;
    std::int64_t iteration_ = 0, last_overflow_ = -1, hysteresis_;
};

constexpr ScalerKey hysteresis_from_zero() {
    ScalerKey key = scaler_key::hysteresis;
    key.is_good = scaler_key::is_count_or_zero;
    key.wanted = "0 to 2147483647";
    key.summary =
        "number of steps with Inf or NaN until the scale backs off: with 1, at the first such step; with 0, never";
    return key;
}

constexpr ScalerKey zero_keys[] = {
    scaler_key::in_fp64(scaler_key::init_scale),
    scaler_key::from(scaler_key::growth_interval, 1000),
    hysteresis_from_zero(),
    {.name = "consecutive_hysteresis",
     .type = ScalerValue::flag,
     .initial = 0,
     .summary = "true: every clean step refills the hysteresis, not only those at which the scale grows"},
    scaler_key::min_scale,
    scaler_key::deepspeed_version,
    scaler_key::growth_step_half_grad};
constexpr std::string_view zero_aliases[] = {"deepspeed-zero"};

}  // namespace

extern const ScalerKind deepspeed_zero_scaler{
    .name = "ds-zero",
    .aliases = zero_aliases,
    .keys = zero_keys,
    .make = [](const LossScalerConfig& config) -> std::unique_ptr<LossScaler> {
        return std::make_unique<ZeroScaler>(config);
    },
    .line =
        "ds-zero {version}, from {init_scale}; x2 after {growth_interval} clean steps; on Inf or NaN, the step is "
        "skipped; x0.5 from overflow {hysteresis} on; an overflow at scale {min_scale} ends the run",
    .source = "DeepSpeed deepspeed/runtime/fp16/loss_scaler.py",
    .summary =
        "DynamicLossScaler of DeepSpeed's ZeRO 1 to 3: hysteresis, and an overflow at the lowest scale ends the run"};

}  // namespace macheps::policy
