// SPDX-License-Identifier: Apache-2.0
// The feed-forward layer of a transformer block.
#pragma once
#include "experiments/training/model/layers.hpp"

#include <optional>
#include <span>
#include <string>

namespace macheps::training {

/// Computes down(activation(up(x))), or down(silu(gate(x)) * up(x)) if there is a gate.
class FeedForward {
  public:
    struct Parameters {
        ParameterState *gate_weight, &up_weight, *up_bias, &down_weight, *down_bias;  ///< gate and biases may be null
    };

    /// `outliers` holds one factor for each input channel of `down` (see outliers.hpp). If it is empty, no channel is
    /// scaled.
    FeedForward(Backend& backend, const policy::ResolvedPolicy& policy, const std::string& block,
                const elementwise::Unary& activation, const Parameters& parameters,
                std::span<const float> outliers = {});
    Value forward(Rounder& rounder, Value x);
    /// Returns the gradient of the layer's input: the gradient through `up`, plus the gradient through the gate if
    /// there is one.
    Value backward(Rounder& rounder, Value dy, Tensor& dx);
    void invalidate();

  private:
    struct Gate {
        Gate(Backend& backend, const policy::ResolvedPolicy& policy, const std::string& block, ParameterState& weight);
        Linear linear;
        Slot forward_activated, grad_activated, grad_up;
        Value out;
        Tensor activated, dactivated, dup, dx;
    };
    /// Factors for the input channels of `down`, and the inverse factors for the columns of the weight of `down`.
    struct Outliers {
        Tensor factors, inverses;
        Tensor dact{};
    };
    Value backward_gated(Rounder& rounder, Value dactivated, Tensor& dx);

    Backend& backend_;
    elementwise::Unary activation_;
    std::optional<Gate> gate_;
    std::optional<Outliers> outliers_;
    Linear up_, down_;
    Slot forward_out_, grad_in_, grad_out_;
    Value up_out_;
    Tensor act_, dact_, dact_in_, du_;
};

}  // namespace macheps::training
