// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/layers.hpp"

#include "core/error.hpp"

#include <utility>

namespace macheps {

namespace {

constexpr float layernorm_eps = 1e-5f;

/// The common grid of values that were written side by side: fp32 unless they agree.
Format common_grid(Format a, Format b) { return a == b ? a : fp32; }

/// Factor that undoes both operands' scales.
float product_scale(Value a, Value b) { return a.decode_scale * b.decode_scale; }

}  // namespace

ParameterState::ParameterState(Backend& backend, const ResolvedPolicy& policy, std::string parameter, Shape size)
    : name(std::move(parameter)),
      shape(size),
      value(backend.empty(size)),
      grad(backend.empty(size)),
      value_slot(policy, name + ":value"),
      grad_slot(policy, name + ":grad") {}

View ParameterState::first_target(Backend& backend, Tensor& scratch) {
    return has_grad ? sized(backend, scratch, shape) : grad.view();
}

void ParameterState::accumulate(Backend& backend, Rounder& rounder, View g, Format held) {
    if (has_grad) {
        backend.add(grad, g, grad);
        held = fp32;
    } else if (g.data != grad.data()) {
        backend.copy(g, grad);
    }
    has_grad = true;
    rounder.apply_in_place(grad_slot, grad, held);
}

// --- Linear

Linear::Linear(Backend& backend, const ResolvedPolicy& policy, const std::string& site, ParameterState& weight,
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
        w_cast_ = rounder.apply(forward_b_, weight_.as_value(), w_buffer_);
        weight_cast_is_fresh_ = true;
    }
    const View y = sized(backend_, y_, {rows, out_});
    Matmul args{.m = rows, .n = out_, .k = in_};
    args.a = {.data = x_cast_.view.data, .ld = in_};
    args.b = {.data = w_cast_.view.data, .ld = in_, .transposed = true};
    args.out = y.data;
    args.ld_out = out_;
    args.machine = forward_.machine;
    args.out_scale = product_scale(x_cast_, w_cast_);
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
    const Value w =
        input_grad_b_.rule == forward_b_.rule ? w_cast_ : rounder.apply(input_grad_b_, weight_.as_value(), w_b_buffer_);
    const View dx = sized(backend_, dx_tensor, {rows, in_});
    Matmul input_grad{.m = rows, .n = in_, .k = out_};
    input_grad.a = {.data = dy_a.view.data, .ld = out_};
    input_grad.b = {.data = w.view.data, .ld = in_};
    input_grad.out = dx.data;
    input_grad.ld_out = in_;
    input_grad.machine = input_grad_.machine;
    input_grad.out_scale = product_scale(dy_a, w);
    const Format dx_held = rounder.matmul(input_grad_out_, input_grad, dx.shape);

    const Value dy_b =
        weight_grad_a_.rule == input_grad_a_.rule ? dy_a : rounder.apply(weight_grad_a_, dy, dy_b_buffer_);
    const Value x = weight_grad_b_.rule == forward_a_.rule ? x_cast_ : rounder.apply(weight_grad_b_, x_, x_b_buffer_);
    const View dw = weight_.first_target(backend_, dw_);
    Matmul weight_grad{.m = out_, .n = in_, .k = rows};
    weight_grad.a = {.data = dy_b.view.data, .ld = out_, .transposed = true};
    weight_grad.b = {.data = x.view.data, .ld = in_};
    weight_grad.out = dw.data;
    weight_grad.ld_out = in_;
    weight_grad.machine = weight_grad_.machine;
    weight_grad.out_scale = product_scale(dy_b, x);
    const Format dw_held = rounder.matmul(weight_grad_out_, weight_grad, dw.shape);
    weight_.accumulate(backend_, rounder, dw, dw_held);
    return {dx, dx_held};
}

// --- LayerNorm

LayerNorm::LayerNorm(Backend& backend, const ResolvedPolicy& policy, const std::string& site, ParameterState& weight,
                     ParameterState& bias)
    : backend_(backend),
      weight_(weight),
      bias_(bias),
      forward_out_(policy, site + ":forward.out"),
      grad_in_(policy, site + ":grad.in"),
      grad_out_(policy, site + ":grad.out") {}

Value LayerNorm::forward(Rounder& rounder, Value x) {
    x_ = x;
    const std::int64_t rows = x.view.rows();
    const View y = sized(backend_, y_, x.view.shape);
    backend_.layernorm(x.view, weight_.value, bias_.value, layernorm_eps, y, sized(backend_, mean_, {rows}),
                       sized(backend_, rstd_, {rows}));
    return {y, rounder.apply_in_place(forward_out_, y, fp32)};
}

Value LayerNorm::backward(Rounder& rounder, Value incoming, Tensor& dx_tensor) {
    const Value dy = rounder.apply(grad_in_, {{incoming.view.data, x_.view.shape}, incoming.held}, dy_buffer_);
    const View dx = sized(backend_, dx_tensor, x_.view.shape);
    const View dweight = weight_.first_target(backend_, dweight_), dbias = bias_.first_target(backend_, dbias_);
    backend_.layernorm_backward(x_.view, weight_.value, mean_, rstd_, dy.view, dx, dweight, dbias);
    weight_.accumulate(backend_, rounder, dweight, fp32);
    bias_.accumulate(backend_, rounder, dbias, fp32);
    return {dx, rounder.apply_in_place(grad_out_, dx, fp32)};
}

// --- Attention

Attention::ProductSlots::ProductSlots(const ResolvedPolicy& policy, const std::string& site)
    : forward_a(policy, site + ":forward.a"),
      forward_b(policy, site + ":forward.b"),
      forward_out(policy, site + ":forward.out"),
      grad_in(policy, site + ":grad.in"),
      grad_a_a(policy, site + ":grad_a.a"),
      grad_a_b(policy, site + ":grad_a.b"),
      grad_a_out(policy, site + ":grad_a.out"),
      grad_b_a(policy, site + ":grad_b.a"),
      grad_b_b(policy, site + ":grad_b.b"),
      grad_b_out(policy, site + ":grad_b.out"),
      forward(policy.matmul(site, "forward")),
      grad_a(policy.matmul(site, "grad_a")),
      grad_b(policy.matmul(site, "grad_b")) {}

Attention::Attention(Backend& backend, const ResolvedPolicy& policy, const std::string& block, std::int64_t batch,
                     std::int64_t context, std::int64_t heads, std::int64_t head_width)
    : backend_(backend),
      batch_(batch),
      context_(context),
      heads_(heads),
      head_width_(head_width),
      scale_(static_cast<float>(1.0 / macheps::sqrt(static_cast<double>(head_width)))),
      scores_(policy, block + "attn.scores"),
      mix_(policy, block + "attn.mix"),
      forward_scaled_(policy, block + "attn.scores:forward.scaled"),
      grad_scaled_(policy, block + "attn.scores:grad.scaled"),
      softmax_out_(policy, block + "attn.softmax:forward.out"),
      softmax_grad_in_(policy, block + "attn.softmax:grad.in"),
      softmax_grad_out_(policy, block + "attn.softmax:grad.out") {}

/// One matrix per head: out = op(a) op(b).
Format Attention::product(Rounder& rounder, const Slot& out_slot, const MatmulChoice& choice, Value a,
                          bool a_transposed, Value b, bool b_transposed, View out) {
    const auto sizes = [](ConstView x) { return std::pair{x.shape[2], x.shape[3]}; };
    const auto [a_rows, a_columns] = sizes(a.view);
    const auto [b_rows, b_columns] = sizes(b.view);
    Matmul args{.m = a_transposed ? a_columns : a_rows,
                .n = b_transposed ? b_rows : b_columns,
                .k = a_transposed ? a_rows : a_columns,
                .batch_outer = batch_,
                .batch_inner = heads_};
    const auto operand = [&](Value x, bool transposed) {
        const std::int64_t matrix = x.view.shape[2] * x.view.shape[3];
        return MatmulOperand{x.view.data, x.view.shape[3], transposed, heads_ * matrix, matrix};
    };
    args.a = operand(a, a_transposed);
    args.b = operand(b, b_transposed);
    args.out = out.data;
    args.ld_out = args.n;
    args.stride_out_inner = args.m * args.n;
    args.stride_out_outer = heads_ * args.stride_out_inner;
    args.machine = choice.machine;
    args.out_scale = product_scale(a, b);
    return rounder.matmul(out_slot, args, out.shape);
}

Value Attention::forward(Rounder& rounder, Value qkv) {
    const Shape per_head{batch_, heads_, context_, head_width_}, square{batch_, heads_, context_, context_};
    const ConstView in{qkv.view.data, {batch_, context_, 3 * heads_ * head_width_}};
    const auto part = [&](int which, Tensor& tensor) {
        const View out = sized(backend_, tensor, per_head);
        backend_.split_heads(in, 3, which, out);
        return Value{out, qkv.held};
    };
    q_ = part(0, q_tensor_);
    k_ = part(1, k_tensor_);
    v_ = part(2, v_tensor_);

    const View s = sized(backend_, s_, square);
    Format held = product(rounder, scores_.forward_out, scores_.forward, rounder.apply(scores_.forward_a, q_, q_cast_),
                          false, rounder.apply(scores_.forward_b, k_, k_cast_), true, s);
    backend_.scale(s, scale_, s);
    rounder.apply_in_place(forward_scaled_, s, fp32);

    const View p = sized(backend_, p_tensor_, square);
    backend_.softmax_causal(s, p);
    p_ = {p, rounder.apply_in_place(softmax_out_, p, fp32)};

    const View o = sized(backend_, o_, per_head);
    held = product(rounder, mix_.forward_out, mix_.forward, rounder.apply(mix_.forward_a, p_, p_cast_), false,
                   rounder.apply(mix_.forward_b, v_, v_cast_), false, o);
    const View merged = sized(backend_, merged_, {batch_, context_, heads_ * head_width_});
    backend_.merge_heads(o, 1, 0, merged);
    return {{merged.data, {batch_ * context_, heads_ * head_width_}}, held};
}

Value Attention::backward(Rounder& rounder, Value dout, Tensor& dqkv_tensor) {
    const Shape per_head{batch_, heads_, context_, head_width_}, square{batch_, heads_, context_, context_};
    const View split = sized(backend_, do_, per_head);
    backend_.split_heads({dout.view.data, {batch_, context_, heads_ * head_width_}}, 1, 0, split);
    const Value d_o = rounder.apply(mix_.grad_in, {split, dout.held}, do_in_);

    const View dp = sized(backend_, dp_, square), dv = sized(backend_, dv_, per_head);
    const Format dp_held = product(rounder, mix_.grad_a_out, mix_.grad_a, rounder.apply(mix_.grad_a_a, d_o, do_cast_),
                                   false, rounder.apply(mix_.grad_a_b, v_, v_cast2_), true, dp);
    const Format dv_held = product(rounder, mix_.grad_b_out, mix_.grad_b, rounder.apply(mix_.grad_b_a, p_, p_cast2_),
                                   true, rounder.apply(mix_.grad_b_b, d_o, do_cast2_), false, dv);

    const Value dp_in = rounder.apply(softmax_grad_in_, {dp, dp_held}, dp_in_);
    const View ds = sized(backend_, ds_, square);
    backend_.softmax_causal_backward(p_.view, dp_in.view, ds);
    Format ds_held = rounder.apply_in_place(softmax_grad_out_, ds, fp32);
    const Value ds_in = rounder.apply(scores_.grad_in, {ds, ds_held}, ds_in_);
    backend_.scale(ds_in.view, scale_, ds);
    ds_held = rounder.apply_in_place(grad_scaled_, ds, fp32);

    const View dq = sized(backend_, dq_, per_head), dk = sized(backend_, dk_, per_head);
    const Value scaled{ds, ds_held};
    const Format dq_held =
        product(rounder, scores_.grad_a_out, scores_.grad_a, rounder.apply(scores_.grad_a_a, scaled, dsa_), false,
                rounder.apply(scores_.grad_a_b, k_, k_cast2_), false, dq);
    const Format dk_held =
        product(rounder, scores_.grad_b_out, scores_.grad_b, rounder.apply(scores_.grad_b_a, scaled, dsb_), true,
                rounder.apply(scores_.grad_b_b, q_, q_cast2_), false, dk);

    const View dqkv = sized(backend_, dqkv_tensor, {batch_, context_, 3 * heads_ * head_width_});
    backend_.merge_heads(dq, 3, 0, dqkv);
    backend_.merge_heads(dk, 3, 1, dqkv);
    backend_.merge_heads(dv, 3, 2, dqkv);
    return {{dqkv.data, {batch_ * context_, 3 * heads_ * head_width_}},
            common_grid(common_grid(dq_held, dk_held), dv_held)};
}

}  // namespace macheps
