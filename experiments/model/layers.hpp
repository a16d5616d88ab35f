// SPDX-License-Identifier: Apache-2.0
// The layers of the transformer, forward beside backward. A layer keeps what its backward needs from its last forward.
#pragma once
#include "experiments/model/rounder.hpp"

#include <cstdint>
#include <string>

namespace macheps {

/// A trained tensor with the slots of its life.
struct ParameterState {
    std::string name;
    Shape shape;
    Tensor value, grad;
    bool has_grad = false;  ///< something was accumulated since clear()
    Slot value_slot, grad_slot;

    ParameterState(Backend& backend, const ResolvedPolicy& policy, std::string name, Shape shape);
    Value as_value() const {
        return {value.view(), value_slot.rule.granularity == Granularity::none ? value_slot.rule.format : fp32};
    }
    /// Where the first gradient of a step may be written without a copy.
    View first_target(Backend& backend, Tensor& scratch);
    /// Adds `g` (which may be first_target itself), then rounds as `grad` says.
    void accumulate(Backend& backend, Rounder& rounder, View g, Format held);
};

/// Y = X W^T + bias. X [M,K], W [N,K], Y [M,N].
class Linear {
  public:
    Linear(Backend& backend, const ResolvedPolicy& policy, const std::string& site, ParameterState& weight,
           ParameterState* bias);

    /// `x` must stay alive until backward.
    Value forward(Rounder& rounder, Value x);
    /// Returns dX.
    Value backward(Rounder& rounder, Value dy, Tensor& dx);
    /// The weight changed: its casts are stale.
    void invalidate() { weight_cast_is_fresh_ = false; }

  private:
    Backend& backend_;
    ParameterState& weight_;
    ParameterState* bias_;
    std::int64_t in_, out_;
    Slot forward_in_, forward_a_, forward_b_, forward_bias_, forward_out_, grad_in_;
    Slot input_grad_a_, input_grad_b_, input_grad_out_, weight_grad_a_, weight_grad_b_, weight_grad_out_,
        bias_grad_out_;
    MatmulChoice forward_, input_grad_, weight_grad_;
    Value x_, x_cast_, w_cast_;
    bool weight_cast_is_fresh_ = false;
    Tensor x_in_buffer_, x_buffer_, w_buffer_, bias_buffer_, y_, dy_buffer_, dy_a_buffer_, dy_b_buffer_, x_b_buffer_,
        w_b_buffer_;
    Tensor dw_, dbias_;
};

/// Layer normalisation over the last axis, eps 1e-5.
class LayerNorm {
  public:
    LayerNorm(Backend& backend, const ResolvedPolicy& policy, const std::string& site, ParameterState& weight,
              ParameterState& bias);
    Value forward(Rounder& rounder, Value x);
    Value backward(Rounder& rounder, Value dy, Tensor& dx);

  private:
    Backend& backend_;
    ParameterState &weight_, &bias_;
    Slot forward_out_, grad_in_, grad_out_;
    Value x_;
    Tensor y_, mean_, rstd_, dy_buffer_, dweight_, dbias_;
};

/// Causal multi-head attention between its two linears: scores, softmax, mix.
class Attention {
  public:
    Attention(Backend& backend, const ResolvedPolicy& policy, const std::string& block, std::int64_t batch,
              std::int64_t context, std::int64_t heads, std::int64_t head_width);
    /// qkv [B*T, 3C] -> [B*T, C].
    Value forward(Rounder& rounder, Value qkv);
    /// dout [B*T, C] -> dqkv [B*T, 3C].
    Value backward(Rounder& rounder, Value dout, Tensor& dqkv);

  private:
    Format product(Rounder& rounder, const Slot& out_slot, const MatmulChoice& choice, Value a, bool a_transposed,
                   Value b, bool b_transposed, View out);

    Backend& backend_;
    std::int64_t batch_, context_, heads_, head_width_;
    float scale_;
    struct ProductSlots {
        ProductSlots(const ResolvedPolicy& policy, const std::string& site);
        Slot forward_a, forward_b, forward_out, grad_in, grad_a_a, grad_a_b, grad_a_out, grad_b_a, grad_b_b, grad_b_out;
        MatmulChoice forward, grad_a, grad_b;
    } scores_, mix_;
    Slot forward_scaled_, grad_scaled_, softmax_out_, softmax_grad_in_, softmax_grad_out_;
    Value q_, k_, v_, p_;
    Tensor q_tensor_, k_tensor_, v_tensor_, s_, p_tensor_, o_, merged_;
    Tensor q_cast_, k_cast_, p_cast_, v_cast_;
    Tensor do_, do_in_, do_cast_, v_cast2_, dp_, dp_in_, p_cast2_, do_cast2_, ds_, ds_in_, dsa_, dsb_, k_cast2_,
        q_cast2_;
    Tensor dq_, dk_, dv_;
};

}  // namespace macheps
