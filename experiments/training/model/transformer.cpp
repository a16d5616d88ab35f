// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/transformer.hpp"

#include "experiments/training/model/attention.hpp"
#include "experiments/training/model/feed_forward.hpp"
#include "experiments/training/model/initialise.hpp"
#include "experiments/training/model/outliers.hpp"
#include "experiments/training/model/replay.hpp"

#include <fmt/format.h>

#include <cmath>

namespace macheps::training {

/// A transformer block: y = x + proj(attention(qkv(norm1(x)))), then y + feed_forward(norm2(y)).
struct Transformer::Block {
    Backend& backend;
    Norm norm1, norm2;
    Linear qkv, proj;
    Attention attention;
    FeedForward feed_forward;
    Slot residual1_out, residual1_grad_in, residual1_grad_out, residual2_out, residual2_grad_in, residual2_grad_out;
    Tensor x1, x2, dqkv, dqkv_in, dbranch, dnorm, stream_in1, stream_in2;

    struct Parameters {
        ParameterState &norm1_weight, *norm1_bias, &qkv_weight, *qkv_bias, &proj_weight, *proj_bias;
        ParameterState &norm2_weight, *norm2_bias;
        FeedForward::Parameters feed_forward;
    };

    Block(Backend& b, Rounder& rounder, const ModelConfig& c, std::int64_t batch, const policy::ResolvedPolicy& policy,
          const std::string& name, const Parameters& p, std::span<const float> outliers)
        : backend(b),
          norm1(b, policy, name + "norm1", p.norm1_weight, p.norm1_bias),
          norm2(b, policy, name + "norm2", p.norm2_weight, p.norm2_bias),
          qkv(b, policy, name + "attn.qkv", p.qkv_weight, p.qkv_bias),
          proj(b, policy, name + "attn.proj", p.proj_weight, p.proj_bias),
          attention(b, rounder, policy, name, c, batch),
          feed_forward(b, policy, name, c.activation, p.feed_forward, outliers),
          residual1_out(policy, name + "residual1:forward.out"),
          residual1_grad_in(policy, name + "residual1:grad.in"),
          residual1_grad_out(policy, name + "residual1:grad.out"),
          residual2_out(policy, name + "residual2:forward.out"),
          residual2_grad_in(policy, name + "residual2:grad.in"),
          residual2_grad_out(policy, name + "residual2:grad.out") {}

    Value forward(Rounder& rounder, Value x) {
        const Value attended =
            proj.forward(rounder, attention.forward(rounder, qkv.forward(rounder, norm1.forward(rounder, x))));
        const Value middle = join(rounder, residual1_out, x, attended, x1);
        return join(rounder, residual2_out, middle, feed_forward.forward(rounder, norm2.forward(rounder, middle)), x2);
    }

    /// Returns the gradient of the block's input, given the gradient `d` of the block's output. The result is in
    /// `stream`, which may be the buffer that holds `d`.
    Value backward(Rounder& rounder, Value d, Tensor& stream) {
        Value outer = rounder.apply(residual2_grad_in, d, stream_in2);
        Value branch = norm2.backward(rounder, feed_forward.backward(rounder, outer, dbranch), dnorm);
        outer = join(rounder, residual2_grad_out, outer, branch, stream);

        outer = rounder.apply(residual1_grad_in, outer, stream_in1);
        const Value dmixed = proj.backward(rounder, outer, dbranch);
        branch =
            norm1.backward(rounder, qkv.backward(rounder, attention.backward(rounder, dmixed, dqkv), dqkv_in), dnorm);
        return join(rounder, residual1_grad_out, outer, branch, stream);
    }

    /// Adds a branch to the residual stream and rounds the sum. In the forward pass, `b` is the output of the branch.
    /// In the backward pass, `b` is the gradient of the branch's input.
    Value join(Rounder& rounder, const Slot& slot, Value a, Value b, Tensor& stream) {
        const View sum = sized(backend, stream, a.view.shape);
        backend.add(a.view, b.view, sum);
        return {sum, rounder.apply_in_place(slot, sum, fp32)};
    }

    void invalidate() {
        qkv.invalidate();
        proj.invalidate();
        feed_forward.invalidate();
    }
};

Transformer::Transformer(Backend& backend, const ModelConfig& config, std::int64_t batch,
                         const policy::ResolvedPolicy& policy, std::uint64_t seed)
    : backend_(backend),
      config_(config),
      batch_(batch),
      policy_(policy),
      rounder_(backend, seed),
      embed_out_(policy, "embed:forward.out"),
      embed_grad_in_(policy, "embed:grad.in"),
      loss_out_(policy, "loss:forward.out"),
      loss_mean_(policy, "loss:forward.mean"),
      loss_grad_out_(policy, "loss:grad.out") {
    rounder_.histories() = AmaxHistories(policy);
    const bool llama = config.kind == ModelKind::llama;
    const std::int64_t c = config.width, qkv = config.qkv_width(), hidden = config.hidden_width();
    token_ = &make_parameter("embed.token.weight", {config.vocabulary, c});
    if (!llama) position_ = &make_parameter("embed.position.weight", {config.context, c});
    std::vector<float> outliers;
    if (const auto size = policy.training.stress.outliers) outliers = outlier_factors(config, *size);
    for (std::int64_t i = 0; i < config.layers; ++i) {
        const std::string prefix = fmt::format("block.{}.", i);
        const auto weight = [&](const char* name, Shape shape) -> ParameterState& {
            return make_parameter(prefix + name + ".weight", shape);
        };
        const auto bias = [&](const char* name, std::int64_t size) { return make_bias(prefix + name + ".bias", size); };
        // Expressions in braces are evaluated from left to right, so the parameters are created in the order of the
        // sites.
        const Block::Parameters p{weight("norm1", {c}),
                                  bias("norm1", c),
                                  weight("attn.qkv", {qkv, c}),
                                  bias("attn.qkv", qkv),
                                  weight("attn.proj", {c, c}),
                                  bias("attn.proj", c),
                                  weight("norm2", {c}),
                                  bias("norm2", c),
                                  {llama ? &weight("mlp.gate", {hidden, c}) : nullptr, weight("mlp.up", {hidden, c}),
                                   bias("mlp.up", hidden), weight("mlp.down", {c, hidden}), bias("mlp.down", c)}};
        blocks_.push_back(std::make_unique<Block>(backend, rounder_, config, batch, policy, prefix, p, outliers));
    }
    ParameterState& norm_weight = make_parameter("final_norm.weight", {c});
    final_norm_ = std::make_unique<Norm>(backend, policy, "final_norm", norm_weight, make_bias("final_norm.bias", c));
    ParameterState& head = config.tied ? *token_ : make_parameter("lm_head.weight", {config.vocabulary, c});
    lm_head_ = std::make_unique<Linear>(backend, policy, "lm_head", head, nullptr);
}

Transformer::~Transformer() = default;

ParameterState& Transformer::make_parameter(const std::string& name, Shape shape) {
    parameters_.push_back(std::make_unique<ParameterState>(backend_, policy_, name, shape));
    return *parameters_.back();
}

ParameterState* Transformer::make_bias(const std::string& name, std::int64_t size) {
    return config_.kind == ModelKind::llama ? nullptr : &make_parameter(name, {size});
}

void Transformer::initialise(std::uint64_t seed) {
    for (const auto& parameter : parameters_) {
        const std::vector<float> host = initial_values(parameter->name, parameter->shape, config_.layers, seed);
        backend_.upload(host, parameter->value);
        rounder_.apply_in_place(drawn_to_nearest(parameter->value_slot), parameter->value, fp32);
    }
    parameters_changed();
}

Loss Transformer::forward(TokenView tokens, TokenView targets) {
    tokens_ = tokens;
    targets_ = targets;
    // The delayed scales of weights may have changed since the last micro-batch, so weights have to be cast again.
    if (!rounder_.histories().empty()) parameters_changed();
    const View x0 = sized(backend_, x0_, {batch_, config_.context, config_.width});
    backend_.embedding(tokens, token_->value, position_ != nullptr ? ConstView(position_->value) : ConstView{}, x0);
    Value x{x0, rounder_.apply_in_place(embed_out_, x0, fp32)};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        if (recomputes_) keep_input(i, x);
        x = blocks_[i]->forward(rounder_, x);
    }
    const Value logits = lm_head_->forward(rounder_, final_norm_->forward(rounder_, x));
    const View logp = sized(backend_, logp_tensor_, logits.view.shape);
    backend_.log_softmax(logits.view, logp);
    logp_ = {logp, rounder_.apply_in_place(loss_out_, logp, fp32)};
    return {.exact = backend_.cross_entropy(logits.view, targets),
            .rounded = rounder_.round_scalar(loss_mean_, backend_.nll(logp, targets))};
}

void Transformer::backward(float factor) {
    const View dlogits = sized(backend_, dlogits_, logp_.view.shape);
    backend_.nll_backward(logp_.view, targets_, factor / static_cast<float>(logp_.view.rows()), dlogits);
    const Format dlogits_held = rounder_.apply_in_place(loss_grad_out_, dlogits, fp32);
    Value d = final_norm_->backward(rounder_, lm_head_->backward(rounder_, {dlogits, dlogits_held}, dfinal_), dstream_);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
        if (recomputes_) recompute_block(i);
        d = blocks_[i]->backward(rounder_, d, dstream_);
    }
    d = rounder_.apply(embed_grad_in_, d, dembed_);
    // A tied lm_head has already written a gradient of the token weight. In this case, the gradient of the embedding is
    // computed in a separate buffer and then added.
    const View dtoken = token_->first_target(backend_, dtoken_);
    const View dposition = position_ != nullptr ? position_->first_target(backend_, dposition_) : View{};
    backend_.embedding_backward(tokens_, {d.view.data, {batch_, config_.context, config_.width}}, dtoken, dposition);
    token_->accumulate(backend_, rounder_, dtoken, fp32);
    if (position_ != nullptr) position_->accumulate(backend_, rounder_, dposition, fp32);
}

void Transformer::keep_input(std::size_t block, const Value& x) {
    inputs_.resize(blocks_.size());
    BlockInput& input = inputs_[block];
    backend_.copy(x.view, sized(backend_, input.kept, x.view.shape));
    input.held = x.held;
    input.met = rounder_.met();
}

/// Runs the forward pass of a block again. The weight casts of the step are still valid, so both passes read the same
/// weights.
void Transformer::recompute_block(std::size_t block) {
    const BlockInput& input = inputs_[block];
    const Replay replay(rounder_, input.met);
    blocks_[block]->forward(rounder_, {input.kept.view(), input.held});
}

void Transformer::clear_gradients() {
    for (const auto& parameter : parameters_) parameter->clear();
}

void Transformer::end_micro_batch() {
    for (const auto& parameter : parameters_) parameter->end_micro_batch(backend_, rounder_);
}

void Transformer::parameters_changed() {
    for (const auto& block : blocks_) block->invalidate();
    lm_head_->invalidate();
}

}  // namespace macheps::training
