// SPDX-License-Identifier: Apache-2.0
// ShardedGradScaler of torch's first FSDP. On one rank, it differs from GradScaler in two ways: it updates the scale
// differently on a CPU, and it treats fp16 losses and gradients as described at GradScaler::Sharding.
#include "experiments/policy/scaler/keys.hpp"
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/policy/scaler/torch.hpp"

namespace macheps::policy {

namespace {

class ShardedScaler final : public LossScaler {
  public:
    explicit ShardedScaler(const LossScalerConfig& config)
        : settings_(torch_settings(config)),
          scale_(settings_.init_scale),
          on_cpu_(config.at("on_cpu") != 0),
          divides_(config.at("unscale_by_division") != 0) {}
    double scale() const override { return scale_; }
    Unscaling unscaling(bool) override { return torch_unscaling(scale_, divides_); }
    std::int64_t growth_tracker() const override { return growth_tracker_; }
    void update(bool found_inf) override {
        if (on_cpu_) {
            update_on_cpu(found_inf);
        } else {
            update_scale(settings_, scale_, growth_tracker_, found_inf);
        }
    }
    std::vector<double> state() const override { return {scale_, static_cast<double>(growth_tracker_)}; }
    bool load(std::span<const double> state) override {
        if (!scaler_key::is_state(state, 2)) return false;
        scale_ = static_cast<float>(state[0]);
        growth_tracker_ = static_cast<std::int64_t>(state[1]);
        return true;
    }

  private:
    /// Updates the scale like torch's Python code for a CPU tensor. A product of an fp32 tensor and a number first
    /// rounds the number to fp32. Nothing checks that the scale stays finite.
    void update_on_cpu(bool found_inf) {
        const bool grows = !found_inf && growth_tracker_ + 1 == settings_.growth_interval;
        if (found_inf) scale_ *= static_cast<float>(settings_.backoff_factor);
        if (grows) scale_ *= static_cast<float>(settings_.growth_factor);
        growth_tracker_ = found_inf || grows ? 0 : growth_tracker_ + 1;
    }

    TorchSettings settings_;
    float scale_;
    std::int64_t growth_tracker_ = 0;
    bool on_cpu_, divides_;
};

constexpr ScalerKey sharded_keys[] = {
    scaler_key::init_scale,
    scaler_key::growth_factor,
    scaler_key::backoff_factor,
    scaler_key::growth_interval,
    scaler_key::unscale_by_division,
    {.name = "on_cpu",
     .type = ScalerValue::flag,
     .initial = 0,
     .summary = "true: the scale is a CPU tensor: its factors are fp32, and it can grow to Inf"}};

}  // namespace

extern const ScalerKind torch_sharded_scaler{
    .name = "torch-sharded",
    .keys = sharded_keys,
    .make = [](const LossScalerConfig& config) -> std::unique_ptr<LossScaler> {
        return std::make_unique<ShardedScaler>(config);
    },
    .line =
        "torch-sharded, from {init_scale}; x{growth_factor} after {growth_interval} clean steps; on Inf or NaN, "
        "x{backoff_factor} and the step is skipped",
    .source = "pytorch torch/distributed/fsdp/sharded_grad_scaler.py",
    .summary = "ShardedGradScaler of FSDP 1: like torch, but it also accepts fp16 gradients"};

}  // namespace macheps::policy
