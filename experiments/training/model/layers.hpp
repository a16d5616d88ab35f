// SPDX-License-Identifier: Apache-2.0
// The layers of the transformer, forward beside backward. A layer keeps what its backward needs from its last forward.
#pragma once
#include "experiments/training/model/rounder.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace macheps::training {

/// A trained tensor with the slots of its life.
struct ParameterState {
    std::string name;
    Shape shape;
    Tensor value, grad;     ///< `grad` is what the optimiser reads: the sum over micro-batches
    bool has_grad = false;  ///< something was accumulated since clear()
    Slot value_slot, grad_slot;

    ParameterState(Backend& backend, const policy::ResolvedPolicy& policy, std::string name, Shape shape);
    Value as_value() const { return {value.view(), value_slot.rule.has_scale() ? fp32 : value_slot.rule.format}; }
    /// Where the first gradient of a step may be written without a copy.
    View first_target(Backend& backend, Tensor& scratch);
    /// Adds `g` (which may be first_target itself), then rounds as `grad` says.
    void accumulate(Backend& backend, Rounder& rounder, View g, Format held);
    /// Before the first micro-batch of a step.
    void clear();
    /// A micro-batch is over: where the sum has a format of its own, what was accumulated is added to it.
    void end_micro_batch(Backend& backend, Rounder& rounder);
    /// How what the optimiser reads is rounded.
    const Slot& sum_slot() const { return has_sum_ ? accum_slot_ : grad_slot; }

  private:
    bool has_sum_;  ///< gradients of micro-batches are added up in a format of their own
    bool sum_begun_ = false;
    Slot accum_slot_;
    Tensor part_;  ///< the gradient of the micro-batch in hand, where there is such a sum
};

/// Y = X W^T + bias. X [M,K], W [N,K], Y [M,N].
class Linear {
  public:
    Linear(Backend& backend, const policy::ResolvedPolicy& policy, const std::string& site, ParameterState& weight,
           ParameterState* bias);

    /// `x` must stay alive until backward.
    Value forward(Rounder& rounder, Value x);
    /// Returns dX.
    Value backward(Rounder& rounder, Value dy, Tensor& dx);
    /// The weight changed: its casts are stale.
    void invalidate() { weight_cast_is_fresh_ = false; }
    /// Multiplies column i of the weight by factors[i], a power of two, before the cast, and its gradient as well. The
    /// stored parameter does not change. `factors` must outlive the layer.
    void multiply_weight_columns(ConstView factors) { column_factors_ = factors; }

  private:
    /// Operands, rule and factor of one of the three matmuls. The slots made the values; `ld` is that of both.
    struct Operands {
        Value a, b;
        const Slot &a_slot, &b_slot;
    };
    void set_operands(Matmul& args, const policy::MatmulChoice& choice, Operands x, bool a_transposed,
                      bool b_transposed);
    Value decoded(const Value& x, Tensor& buffer);
    /// Returns the weight that the matmuls use, before its cast.
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

/// Normalisation over the last axis, eps 1e-5: layer normalisation where there is a bias, and without one that of the
/// root mean square, rounded before the multiplication by the weight and after it.
class Norm {
  public:
    Norm(Backend& backend, const policy::ResolvedPolicy& policy, const std::string& site, ParameterState& weight,
         ParameterState* bias);
    Value forward(Rounder& rounder, Value x);
    Value backward(Rounder& rounder, Value dy, Tensor& dx);

  private:
    /// Slots that root-mean-square normalisation has beside those of every norm.
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

/// The common grid of values that were written side by side: fp32 unless they agree.
inline Format common_grid(Format a, Format b) { return a == b ? a : fp32; }

/// `x` as the operand of a matmul, rows of `ld` elements. `slot` rounded it.
inline MatmulOperand operand(const Value& x, const Slot& slot, std::int64_t ld, bool transposed = false) {
    // Scaled values lie on no grid of their own units; their codes lie on the format's.
    return {.data = x.view.data,
            .ld = ld,
            .transposed = transposed,
            .format = slot.rule.has_scale() ? slot.rule.format : x.held,
            .scales = x.scales};
}

/// Factor that undoes both operands' scales.
inline float product_scale(const Value& a, const Value& b) { return product_scale(a.scale, b.scale); }

}  // namespace macheps::training
