// SPDX-License-Identifier: Apache-2.0
// The layers of the transformer, each with its forward and backward pass. A layer keeps the values of its last forward
// pass that its backward pass needs.
#pragma once
#include "experiments/training/model/rounder.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace macheps::training {

/// A parameter of the model, with its tensors and the slots that round them.
struct ParameterState {
    std::string name;
    Shape shape;
    Tensor value, grad;     ///< `grad`: sum over micro-batches, read by the optimiser
    bool has_grad = false;  ///< true: an earlier gradient exists, to which the next accumulate() adds
    Slot value_slot, grad_slot;

    ParameterState(Backend& backend, const policy::ResolvedPolicy& policy, std::string name, Shape shape);
    Value as_value() const { return {value.view(), value_slot.rule.has_scale() ? fp32 : value_slot.rule.format}; }
    /// Returns the buffer for a new gradient. The first gradient is written directly to the tensor that accumulate()
    /// updates, so accumulate() does not have to copy it. A gradient that is added to an earlier one is written to
    /// `scratch`.
    View first_target(Backend& backend, Tensor& scratch);
    /// Adds `g` to the gradient and rounds the sum as slot `grad` specifies. `g` may be the buffer from first_target().
    /// `held` is the format on whose grid the values of `g` lie.
    void accumulate(Backend& backend, Rounder& rounder, View g, Format held);
    /// Discards the gradient. Call it before the first micro-batch of a step.
    void clear();
    /// Ends a micro-batch. If the sum over micro-batches has its own slot (`accum`), adds the gradient to that sum.
    void end_micro_batch(Backend& backend, Rounder& rounder);
    /// Returns the slot that rounds the gradient read by the optimiser.
    const Slot& sum_slot() const { return has_sum_ ? accum_slot_ : grad_slot; }

  private:
    bool has_sum_;  ///< the sum over micro-batches has its own slot, `accum`
    bool sum_begun_ = false;
    Slot accum_slot_;
    Tensor part_;  ///< gradient of the current micro-batch, if has_sum_
};

/// Linear layer Y = X W^T + bias, with shapes X [M,K], W [N,K], Y [M,N].
class Linear {
  public:
    Linear(Backend& backend, const policy::ResolvedPolicy& policy, const std::string& site, ParameterState& weight,
           ParameterState* bias);

    /// Returns Y. Keeps a reference to `x`, which must stay alive until backward().
    Value forward(Rounder& rounder, Value x);
    /// Returns the gradient of X. Adds the gradients of the weight and of the bias to these parameters.
    Value backward(Rounder& rounder, Value dy, Tensor& dx);
    /// Marks the stored cast of the weight as stale. Call it when the weight has changed.
    void invalidate() { weight_cast_is_fresh_ = false; }
    /// Makes the layer multiply column i of the weight by factors[i] before the weight is cast, and column i of the
    /// weight's gradient as well. The factors are powers of two. The stored parameter does not change. `factors` must
    /// outlive the layer.
    void multiply_weight_columns(ConstView factors) { column_factors_ = factors; }

  private:
    /// The operands of one matmul (forward, input gradient or weight gradient), and the slots that rounded them.
    struct Operands {
        Value a, b;
        const Slot &a_slot, &b_slot;
    };
    void set_operands(Matmul& args, const policy::MatmulChoice& choice, Operands x, bool a_transposed,
                      bool b_transposed);
    Value decoded(const Value& x, Tensor& buffer);
    /// Returns the weight before its cast, multiplied by the column factors if there are any.
    Value weight_value();

    Backend& backend_;
    ConstView column_factors_{};  ///< empty: the weight is used unchanged
    Tensor scaled_weight_;
    ParameterState& weight_;
    ParameterState* bias_;
    std::int64_t in_, out_;
    Slot forward_in_, forward_a_, forward_b_, forward_bias_, forward_out_, grad_in_;
    Slot input_grad_a_, input_grad_b_, input_grad_out_, weight_grad_a_, weight_grad_b_, weight_grad_out_,
        bias_grad_out_;
    policy::MatmulChoice forward_, input_grad_, weight_grad_;
    Value x_, x_cast_, w_cast_;
    bool weight_cast_is_fresh_ = false;
    Tensor x_in_buffer_, x_buffer_, w_buffer_, bias_buffer_, y_, dy_buffer_, dy_a_buffer_, dy_b_buffer_, x_b_buffer_,
        w_b_buffer_;
    Tensor dw_, dbias_, a_values_, b_values_;
};

/// Normalisation over the last axis with eps = 1e-5. With a bias, this is layer normalisation. Without a bias, this is
/// root-mean-square normalisation, which rounds both before and after the multiplication by the weight.
class Norm {
  public:
    Norm(Backend& backend, const policy::ResolvedPolicy& policy, const std::string& site, ParameterState& weight,
         ParameterState* bias);
    Value forward(Rounder& rounder, Value x);
    Value backward(Rounder& rounder, Value dy, Tensor& dx);

  private:
    /// Slots that only root-mean-square normalisation has.
    struct RmsSlots {
        RmsSlots(const policy::ResolvedPolicy& policy, const std::string& site);
        Slot forward_normed, weight_grad_terms, weight_grad_out, grad_normed;
    };

    Backend& backend_;
    ParameterState& weight_;
    ParameterState* bias_;
    Slot forward_out_, grad_in_, grad_out_;
    std::optional<RmsSlots> rms_;
    Value x_;
    Tensor y_, mean_, rstd_, normed_, dy_buffer_, terms_, dnormed_, dweight_, dbias_;
};

/// Returns the format on whose grid the values of both tensors lie: `a` if the formats are equal, else fp32.
inline Format common_grid(Format a, Format b) { return a == b ? a : fp32; }

/// Returns the matmul operand for `x`, a matrix with rows of `ld` elements that `slot` has rounded.
inline MatmulOperand operand(const Value& x, const Slot& slot, std::int64_t ld, bool transposed = false) {
    // If the slot has a scale, the data are codes, which lie on the grid of the slot's format. `x.held` is fp32 in this
    // case, because it describes the decoded values, which lie on no known grid.
    return {.data = x.view.data,
            .ld = ld,
            .transposed = transposed,
            .format = slot.rule.has_scale() ? slot.rule.format : x.held,
            .scales = x.scales};
}

/// Returns the factor that undoes the tensor scales of both operands.
inline float product_scale(const Value& a, const Value& b) { return product_scale(a.scale, b.scale); }

}  // namespace macheps::training
