// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/scaler/torch.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "experiments/policy/scaler/keys.hpp"
#include "experiments/policy/scaler/scaler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace macheps::policy {

TorchSettings torch_settings(const LossScalerConfig& config) {
    return {.init_scale = static_cast<float>(config.at("init_scale")),
            .growth_factor = config.at("growth_factor"),
            .backoff_factor = config.at("backoff_factor"),
            .growth_interval = static_cast<std::int64_t>(config.at("growth_interval"))};
}

void update_scale(const TorchSettings& settings, float& scale, std::int64_t& growth_tracker, bool found_inf) {
    if (found_inf) {
        scale = static_cast<float>(double{scale} * settings.backoff_factor);
        growth_tracker = 0;
        return;
    }
    // Like torch, this tests for equality, not >=. If a loaded tracker is already at or above the interval, only the
    // next overflow resets it.
    if (++growth_tracker != settings.growth_interval) return;
    const auto grown = static_cast<float>(double{scale} * settings.growth_factor);
    if (std::isfinite(grown)) scale = grown;
    growth_tracker = 0;
}

float inverse_scale(double scale) { return static_cast<float>(1.0 / scale); }

float fused_unscale(float gradient, float scale) { return static_cast<float>(double{gradient} / double{scale}); }

Unscaling torch_unscaling(float scale, bool divides) {
    return {.factor = divides ? scale : inverse_scale(scale), .divides = divides, .scale = scale};
}

namespace {

[[noreturn]] void misuse(std::string what, std::string fix) {
    throw Error({.what = std::move(what), .where = "GradScaler", .fix = std::move(fix), .exit = Exit::usage});
}

}  // namespace

GradScaler::GradScaler(const TorchSettings& settings, bool enabled, Device device, Sharding sharding)
    : settings_(settings), enabled_(enabled), device_(device), sharding_(sharding), scale_(settings.init_scale) {
    if (!enabled) return;
    if (!(settings.growth_factor > 1))
        misuse(fmt::format("growth_factor is {}", settings.growth_factor), "give more than 1");
    if (!(settings.backoff_factor < 1))
        misuse(fmt::format("backoff_factor is {}", settings.backoff_factor), "give less than 1");
}

float GradScaler::scale(float loss, Format format, int dimensions) {
    if (!enabled_) return loss;
    used_ = true;
    const float product = loss * scale_;
    const bool is_promoted = dimensions == 0 && sharding_ == Sharding::none;
    return is_promoted ? product : quantize(format, product, Round::nearest_even, Overflow::nonsaturate);
}

void GradScaler::check_used(const char* call) const {
    if (!used_) misuse(fmt::format("{} before any loss was scaled", call), "call scale(loss) earlier in the step");
}

bool GradScaler::any_nonfinite(std::span<const Gradient> gradients) const {
    bool found = false;
    for (const Gradient& gradient : gradients) {
        if (gradient.format == fp16 && sharding_ == Sharding::none) {
            misuse("fp16 gradients cannot be unscaled", "keep trained parameters in fp32");
        }
        if (gradient.format == bf16 && device_ == Device::cuda) {
            misuse("the CUDA kernel is not implemented for bf16 gradients",
                   "disable the GradScaler: bf16 needs no loss scaling");
        }
        found = found ||
                std::any_of(gradient.values.begin(), gradient.values.end(), [](float g) { return !std::isfinite(g); });
    }
    return found;
}

void GradScaler::unscale(OptimizerId optimizer, std::span<const Gradient> gradients) {
    if (!enabled_) return;
    check_used("unscale");
    PerOptimizer& state = optimizers_[optimizer];
    if (state.stage == Stage::unscaled)
        misuse("unscale was already called for this optimiser", "call it once per step");
    if (state.stage == Stage::stepped) misuse("unscale was called after step", "call it before step");
    const bool found = any_nonfinite(gradients);
    if (!gradients.empty()) state.found_inf = found;
    const float inverse = inverse_scale(scale_);
    for (const Gradient& gradient : gradients) {
        if (inverse == 1.0f) break;
        for (float& g : gradient.values) {
            g = quantize(gradient.format, g * inverse, Round::nearest_even, Overflow::nonsaturate);
        }
    }
    state.stage = Stage::unscaled;
}

bool GradScaler::step(OptimizerId optimizer, std::span<const Gradient> gradients, const std::function<void()>& apply) {
    if (!enabled_) {
        apply();
        return true;
    }
    check_used("step");
    if (optimizers_[optimizer].stage == Stage::stepped)
        misuse("step was already called for this optimiser", "call update first");
    if (optimizers_[optimizer].stage == Stage::ready) unscale(optimizer, gradients);
    PerOptimizer& state = optimizers_[optimizer];
    if (!state.found_inf) misuse("no gradient was checked for this optimiser", "run backward before step");
    const bool runs = !*state.found_inf;
    if (runs) apply();
    state.stage = Stage::stepped;
    return runs;
}

void GradScaler::step_fused(OptimizerId optimizer, std::span<const Gradient> gradients,
                            const std::function<void(float, bool)>& apply) {
    if (!enabled_) {
        apply(1.0f, false);
        return;
    }
    check_used("step");
    PerOptimizer& state = optimizers_[optimizer];
    if (state.stage == Stage::stepped) misuse("step was already called for this optimiser", "call update first");
    const bool was_unscaled = state.stage == Stage::unscaled;
    if (!was_unscaled && !gradients.empty()) state.found_inf = any_nonfinite(gradients);
    apply(was_unscaled ? 1.0f : scale_, state.found_inf.value_or(false));
    state.stage = Stage::stepped;
}

void GradScaler::step_with_closure() const {
    if (enabled_)
        misuse("step was given a closure",
               "call step without a closure: GradScaler cannot unscale gradients that a closure computes");
}

void GradScaler::update(std::optional<float> new_scale) {
    if (!enabled_) return;
    check_used("update");
    if (new_scale) {
        scale_ = *new_scale;
    } else {
        bool checked = false, found = false;
        for (const auto& [id, state] : optimizers_) {
            checked = checked || state.found_inf.has_value();
            found = found || state.found_inf.value_or(false);
        }
        if (!checked) misuse("no gradient was checked before update", "call unscale or step first");
        update_scale(settings_, scale_, growth_tracker_, found);
    }
    optimizers_.clear();
}

std::optional<GradScaler::State> GradScaler::state() const {
    if (!enabled_) return {};
    return State{scale_, settings_.growth_factor, settings_.backoff_factor, settings_.growth_interval, growth_tracker_};
}

void GradScaler::load(const std::optional<State>& state) {
    if (!enabled_) return;
    if (!state)
        misuse("the saved state is empty", "disable this GradScaler as well: the state was saved by a disabled one");
    scale_ = state->scale;
    settings_.growth_factor = state->growth_factor;
    settings_.backoff_factor = state->backoff_factor;
    settings_.growth_interval = state->growth_interval;
    growth_tracker_ = state->growth_tracker;
}

namespace {

/// GradScaler for one optimiser that makes all calls in the right order. It needs only the scale and the growth
/// tracker, which update_scale() changes.
class TorchScaler final : public LossScaler {
  public:
    explicit TorchScaler(const LossScalerConfig& config)
        : settings_(torch_settings(config)),
          scale_(settings_.init_scale),
          divides_(config.at("unscale_by_division") != 0) {}
    double scale() const override { return scale_; }
    Unscaling unscaling(bool) override { return torch_unscaling(scale_, divides_); }
    std::int64_t growth_tracker() const override { return growth_tracker_; }
    void update(bool found_inf) override { update_scale(settings_, scale_, growth_tracker_, found_inf); }
    std::vector<double> state() const override { return {scale_, static_cast<double>(growth_tracker_)}; }
    bool load(std::span<const double> state) override {
        if (!scaler_key::is_state(state, 2)) return false;
        scale_ = static_cast<float>(state[0]);
        growth_tracker_ = static_cast<std::int64_t>(state[1]);
        return true;
    }

  private:
    TorchSettings settings_;
    float scale_;
    std::int64_t growth_tracker_ = 0;
    bool divides_;
};

constexpr ScalerKey by_division() {
    ScalerKey key = scaler_key::unscale_by_division;
    key.summary =
        "true: gradients are divided by the scale, as a fused optimiser does unless unscale_ was called before";
    return key;
}

constexpr ScalerKey torch_keys[] = {scaler_key::init_scale, scaler_key::growth_factor, scaler_key::backoff_factor,
                                    scaler_key::growth_interval, by_division()};

}  // namespace

extern const ScalerKind torch_scaler{
    .name = "torch",
    .keys = torch_keys,
    .make = [](const LossScalerConfig& config) -> std::unique_ptr<LossScaler> {
        return std::make_unique<TorchScaler>(config);
    },
    .line =
        "torch, from {init_scale}; x{growth_factor} after {growth_interval} clean steps; on Inf or NaN, "
        "x{backoff_factor} and the step is skipped",
    .source = "pytorch torch/amp/grad_scaler.py, aten/src/ATen/native/cuda/AmpKernels.cu",
    .summary = "GradScaler: after an Inf or NaN the step is skipped and the scale backs off; later it grows again"};

}  // namespace macheps::policy
