// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/feed_forward.hpp"

namespace macheps::training {

FeedForward::Gate::Gate(Backend& backend, const policy::ResolvedPolicy& policy, const std::string& block,
                        ParameterState& weight)
    : linear(backend, policy, block + "mlp.gate", weight, nullptr),
      forward_activated(policy, block + "mlp.act:forward.activated"),
      grad_activated(policy, block + "mlp.act:grad.activated"),
      grad_up(policy, block + "mlp.act:grad.up") {}

FeedForward::FeedForward(Backend& backend, const policy::ResolvedPolicy& policy, const std::string& block,
                         const elementwise::Unary& activation, const Parameters& p, std::span<const float> outliers)
    : backend_(backend),
      activation_(activation),
      up_(backend, policy, block + "mlp.up", p.up_weight, p.up_bias),
      down_(backend, policy, block + "mlp.down", p.down_weight, p.down_bias),
      forward_out_(policy, block + "mlp.act:forward.out"),
      grad_in_(policy, block + "mlp.act:grad.in"),
      grad_out_(policy, block + "mlp.act:grad.out") {
    if (p.gate_weight != nullptr) gate_.emplace(backend, policy, block, *p.gate_weight);
    if (outliers.empty()) return;
    const Shape shape{static_cast<std::int64_t>(outliers.size())};
    outliers_.emplace(Outliers{backend.empty(shape), backend.empty(shape)});
    std::vector<float> inverses;
    for (const float factor : outliers) inverses.push_back(1 / factor);
    backend.upload(outliers, outliers_->factors);
    backend.upload(inverses, outliers_->inverses);
    down_.multiply_weight_columns(outliers_->inverses.view());
}

Value FeedForward::forward(Rounder& rounder, Value x) {
    if (gate_) gate_->out = gate_->linear.forward(rounder, x);
    up_out_ = up_.forward(rounder, x);
    const View act = sized(backend_, act_, up_out_.view.shape);
    if (gate_) {
        const View activated = sized(backend_, gate_->activated, up_out_.view.shape);
        backend_.map(elementwise::Silu{}, gate_->out.view, activated);
        rounder.apply_in_place(gate_->forward_activated, activated, fp32);
        backend_.multiply(activated, up_out_.view, act);
    } else {
        backend_.map(activation_, up_out_.view, act);
    }
    if (outliers_) backend_.multiply_columns(act, outliers_->factors, act);
    return down_.forward(rounder, {act, rounder.apply_in_place(forward_out_, act, fp32)});
}

Value FeedForward::backward(Rounder& rounder, Value dy, Tensor& dx) {
    Value dact = rounder.apply(grad_in_, down_.backward(rounder, dy, dact_), dact_in_);
    if (outliers_) {
        const View scaled = sized(backend_, outliers_->dact, dact.view.shape);
        backend_.multiply_columns(dact.view, outliers_->factors, scaled);
        dact = {scaled, fp32};
    }
    if (gate_) return backward_gated(rounder, dact, dx);
    const View du = sized(backend_, du_, up_out_.view.shape);
    backend_.map_backward(activation_, up_out_.view, dact.view, du);
    return up_.backward(rounder, {du, rounder.apply_in_place(grad_out_, du, fp32)}, dx);
}

Value FeedForward::backward_gated(Rounder& rounder, Value dact, Tensor& dx_tensor) {
    const Shape& shape = up_out_.view.shape;
    const View dup = sized(backend_, gate_->dup, shape), dactivated = sized(backend_, gate_->dactivated, shape);
    backend_.multiply(dact.view, gate_->activated, dup);
    const Format dup_held = rounder.apply_in_place(gate_->grad_up, dup, fp32);
    backend_.multiply(dact.view, up_out_.view, dactivated);
    rounder.apply_in_place(gate_->grad_activated, dactivated, fp32);
    const View dgate = sized(backend_, du_, shape);
    backend_.map_backward(elementwise::Silu{}, gate_->out.view, dactivated, dgate);
    const Format dgate_held = rounder.apply_in_place(grad_out_, dgate, fp32);

    const Value through_up = up_.backward(rounder, {dup, dup_held}, dx_tensor);
    const Value through_gate = gate_->linear.backward(rounder, {dgate, dgate_held}, gate_->dx);
    // Both linear layers read x, so the gradient of x is the sum of their input gradients. The sum is rounded later, at
    // the start of the backward pass of the norm that computed x.
    backend_.add(through_up.view, through_gate.view, dx_tensor);
    return {dx_tensor, fp32};
}

void FeedForward::invalidate() {
    if (gate_) gate_->linear.invalidate();
    up_.invalidate();
    down_.invalidate();
}

}  // namespace macheps::training
