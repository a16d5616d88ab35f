// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/layers.hpp"

#include "core/error.hpp"
#include "emulation/machine/table.hpp"

#include <utility>

namespace macheps::training {

namespace {

constexpr float norm_eps = 1e-5f;

/// Returns true if a matmul with the slot `slot` can reuse the tensor that was cast for the slot `other` of another
/// matmul, although the two matmuls sum along different axes.
bool serves_both_ways(const Slot& slot, const Slot& other) {
    return slot.rule == other.rule && slot.rule.granularity->is_axis_free();
}

}  // namespace

ParameterState::ParameterState(Backend& backend, const policy::ResolvedPolicy& policy, std::string parameter,
                               Shape size)
    : name(std::move(parameter)),
      shape(size),
      value(backend.empty(size)),
      grad(backend.empty(size)),
      value_slot(policy, name + ":value"),
      grad_slot(policy, name + ":grad"),
      has_sum_(policy.has_sum(name)),
      accum_slot_(policy, name + ":accum") {
    if (has_sum_) part_ = backend.empty(size);
}

View ParameterState::first_target(Backend& backend, Tensor& scratch) {
    return has_grad ? sized(backend, scratch, shape) : (has_sum_ ? part_ : grad).view();
}

void ParameterState::accumulate(Backend& backend, Rounder& rounder, View g, Format held) {
    const View into = (has_sum_ ? part_ : grad).view();
    if (has_grad) {
        backend.add(into, g, into);
        held = fp32;
    } else if (g.data != into.data) {
        backend.copy(g, into);
    }
    has_grad = true;
    rounder.apply_in_place(grad_slot, into, held);
}

void ParameterState::clear() { has_grad = sum_begun_ = false; }

void ParameterState::end_micro_batch(Backend& backend, Rounder& rounder) {
    if (!has_sum_) return;
    if (sum_begun_) {
        backend.add(grad, part_, grad);
    } else {
        backend.copy(part_, grad);
    }
    sum_begun_ = true;
    has_grad = false;
    rounder.apply_in_place(accum_slot_, grad, fp32);
}

// --- Linear

Linear::Linear(Backend& backend, const policy::ResolvedPolicy& policy, const std::string& site, ParameterState& weight,
               ParameterState* bias)
    : backend_(backend),
      weight_(weight),
      bias_(bias),
      in_(weight.shape[1]),
      out_(weight.shape[0]),
      forward_in_(policy, site + ":forward.in"),
      forward_a_(policy, site + ":forward.a"),
      forward_b_(policy, site + ":forward.b"),
      forward_bias_(policy, site + ":forward.bias"),
      forward_out_(policy, site + ":forward.out"),
      grad_in_(policy, site + ":grad.in"),
      input_grad_a_(policy, site + ":input_grad.a"),
      input_grad_b_(policy, site + ":input_grad.b"),
      input_grad_out_(policy, site + ":input_grad.out"),
      weight_grad_a_(policy, site + ":weight_grad.a"),
      weight_grad_b_(policy, site + ":weight_grad.b"),
      weight_grad_out_(policy, site + ":weight_grad.out"),
      bias_grad_out_(policy, site + ":bias_grad.out"),
      forward_(policy.matmul(site, "forward")),
      input_grad_(policy.matmul(site, "input_grad")),
      weight_grad_(policy.matmul(site, "weight_grad")) {}

Value Linear::forward(Rounder& rounder, Value x) {
    const std::int64_t rows = x.view.count() / in_;
    x_ = rounder.apply(forward_in_, x, x_in_buffer_);
    x_cast_ = rounder.apply(forward_a_, x_, x_buffer_);
    if (!weight_cast_is_fresh_) {
        w_cast_ = rounder.apply(forward_b_, weight_value(), w_buffer_);
        weight_cast_is_fresh_ = true;
    } else {
        rounder.reuse(forward_b_, w_cast_);
    }
    const View y = sized(backend_, y_, {rows, out_});
    Matmul args{.m = rows, .n = out_, .k = in_};
    set_operands(args, forward_, {x_cast_, w_cast_, forward_a_, forward_b_}, false, true);
    args.out = y.data;
    args.ld_out = out_;
    args.bias_after_cast = forward_.bias_after && bias_ != nullptr;
    if (bias_ != nullptr) args.bias = rounder.apply(forward_bias_, bias_->as_value(), bias_buffer_).view.data;
    return {y, rounder.matmul(forward_out_, args, y.shape)};
}

Value Linear::backward(Rounder& rounder, Value incoming, Tensor& dx_tensor) {
    const std::int64_t rows = incoming.view.count() / out_;
    const Value dy = rounder.apply(grad_in_, {{incoming.view.data, {rows, out_}}, incoming.held}, dy_buffer_);
    if (bias_ != nullptr) {
        const View target = bias_->first_target(backend_, dbias_);
        backend_.column_sum(dy.view, target);
        const Format held = rounder.apply_in_place(bias_grad_out_, target, fp32);
        bias_->accumulate(backend_, rounder, target, held);
    }

    const Value dy_a = rounder.apply(input_grad_a_, dy, dy_a_buffer_);
    const Value w = serves_both_ways(input_grad_b_, forward_b_)
                        ? rounder.reuse(input_grad_b_, w_cast_)
                        : rounder.apply(input_grad_b_, weight_value(), w_b_buffer_, Contraction::first);
    const View dx = sized(backend_, dx_tensor, {rows, in_});
    Matmul input_grad{.m = rows, .n = in_, .k = out_};
    set_operands(input_grad, input_grad_, {dy_a, w, input_grad_a_, input_grad_b_}, false, false);
    input_grad.out = dx.data;
    input_grad.ld_out = in_;
    const Format dx_held = rounder.matmul(input_grad_out_, input_grad, dx.shape);

    const Value dy_b = serves_both_ways(weight_grad_a_, input_grad_a_)
                           ? rounder.reuse(weight_grad_a_, dy_a)
                           : rounder.apply(weight_grad_a_, dy, dy_b_buffer_, Contraction::first);
    const Value x = serves_both_ways(weight_grad_b_, forward_a_)
                        ? rounder.reuse(weight_grad_b_, x_cast_)
                        : rounder.apply(weight_grad_b_, x_, x_b_buffer_, Contraction::first);
    const View dw = weight_.first_target(backend_, dw_);
    Matmul weight_grad{.m = out_, .n = in_, .k = rows};
    set_operands(weight_grad, weight_grad_, {dy_b, x, weight_grad_a_, weight_grad_b_}, true, false);
    weight_grad.out = dw.data;
    weight_grad.ld_out = in_;
    Format dw_held = rounder.matmul(weight_grad_out_, weight_grad, dw.shape);
    if (column_factors_.data != nullptr) {
        backend_.multiply_columns(dw, column_factors_, dw);
        dw_held = fp32;
    }
    weight_.accumulate(backend_, rounder, dw, dw_held);
    return {dx, dx_held};
}

Value Linear::weight_value() {
    if (column_factors_.data == nullptr) return weight_.as_value();
    const View scaled = sized(backend_, scaled_weight_, weight_.shape);
    backend_.multiply_columns(weight_.value, column_factors_, scaled);
    return {scaled, fp32};
}

void Linear::set_operands(Matmul& args, const policy::MatmulChoice& choice, Operands x, bool a_transposed,
                          bool b_transposed) {
    args.rule = choice.rule;
    if (choice.rule.machine->reads_values) {
        // The machine reads decoded values instead of codes and scales. Both operands are therefore decoded and then
        // multiplied with fp32.chain.
        args.rule.machine = &fp32_chain;
        x.a = decoded(x.a, a_values_);
        x.b = decoded(x.b, b_values_);
    }
    args.a = operand(x.a, x.a_slot, a_transposed ? args.m : args.k, a_transposed);
    args.b = operand(x.b, x.b_slot, b_transposed ? args.k : args.n, b_transposed);
    if (choice.rule.machine->reads_values) args.a.format = args.b.format = fp32;
    args.out_scale = product_scale(x.a, x.b);
}

/// Returns the decoded values of `x`. Each is the product of a code and its scale, rounded to fp32.
Value Linear::decoded(const Value& x, Tensor& buffer) {
    if (x.scales.data == nullptr && x.scale == TensorScale{}) return x;
    const View out = sized(backend_, buffer, x.view.shape);
    if (x.scales.data == nullptr) {
        backend_.scale(x.view, x.scale.decode, out);
    } else {
        backend_.decode_groups(x.view, x.scales, x.contraction == Contraction::last, x.scale.decode, out);
    }
    return {out};
}

// --- Norm

Norm::RmsSlots::RmsSlots(const policy::ResolvedPolicy& policy, const std::string& site)
    : forward_normed(policy, site + ":forward.normed"),
      weight_grad_terms(policy, site + ":weight_grad.terms"),
      weight_grad_out(policy, site + ":weight_grad.out"),
      grad_normed(policy, site + ":grad.normed") {}

Norm::Norm(Backend& backend, const policy::ResolvedPolicy& policy, const std::string& site, ParameterState& weight,
           ParameterState* bias)
    : backend_(backend),
      weight_(weight),
      bias_(bias),
      forward_out_(policy, site + ":forward.out"),
      grad_in_(policy, site + ":grad.in"),
      grad_out_(policy, site + ":grad.out") {
    if (bias == nullptr) rms_.emplace(policy, site);
}

Value Norm::forward(Rounder& rounder, Value x) {
    x_ = x;
    const Shape row{x.view.rows()};
    const View y = sized(backend_, y_, x.view.shape);
    if (bias_ != nullptr) {
        backend_.layernorm(x.view, weight_.value, bias_->value, norm_eps, y, sized(backend_, mean_, row),
                           sized(backend_, rstd_, row));
    } else {
        const View normed = sized(backend_, normed_, x.view.shape);
        backend_.rms_normalise(x.view, norm_eps, normed, sized(backend_, rstd_, row));
        rounder.apply_in_place(rms_->forward_normed, normed, fp32);
        backend_.multiply_columns(normed, weight_.value, y);
    }
    return {y, rounder.apply_in_place(forward_out_, y, fp32)};
}

Value Norm::backward(Rounder& rounder, Value incoming, Tensor& dx_tensor) {
    const Shape& shape = x_.view.shape;
    const Value dy = rounder.apply(grad_in_, {{incoming.view.data, shape}, incoming.held}, dy_buffer_);
    const View dx = sized(backend_, dx_tensor, shape), dweight = weight_.first_target(backend_, dweight_);
    if (bias_ != nullptr) {
        const View dbias = bias_->first_target(backend_, dbias_);
        backend_.layernorm_backward(x_.view, weight_.value, mean_, rstd_, dy.view, dx, dweight, dbias);
        weight_.accumulate(backend_, rounder, dweight, fp32);
        bias_->accumulate(backend_, rounder, dbias, fp32);
    } else {
        const View terms = sized(backend_, terms_, shape), dnormed = sized(backend_, dnormed_, shape);
        backend_.multiply(dy.view, normed_, terms);
        rounder.apply_in_place(rms_->weight_grad_terms, terms, fp32);
        backend_.column_sum(terms, dweight);
        weight_.accumulate(backend_, rounder, dweight, rounder.apply_in_place(rms_->weight_grad_out, dweight, fp32));
        backend_.multiply_columns(dy.view, weight_.value, dnormed);
        rounder.apply_in_place(rms_->grad_normed, dnormed, fp32);
        backend_.rms_normalise_backward(x_.view, rstd_, dnormed, dx);
    }
    return {dx, rounder.apply_in_place(grad_out_, dx, fp32)};
}

}  // namespace macheps::training
