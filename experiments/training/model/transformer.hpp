// SPDX-License-Identifier: Apache-2.0
// A transformer under a policy, with hand-written backward passes.
#pragma once
#include "experiments/training/model/config.hpp"
#include "experiments/training/model/layers.hpp"

#include <memory>
#include <span>
#include <vector>

namespace macheps::training {

/// The mean cross-entropy of a batch.
struct Loss {
    double exact = 0;   ///< of the logits as the policy left them, in fp64 from there on: what runs are compared by
    float rounded = 0;  ///< as the policy computes it: its log-probabilities and its mean, each rounded
};

class Transformer {
  public:
    /// Parameters are made, not initialised; see initialise().
    Transformer(Backend& backend, const ModelConfig& config, std::int64_t batch, const policy::ResolvedPolicy& policy,
                std::uint64_t seed);
    ~Transformer();
    Transformer(const Transformer&) = delete;
    Transformer& operator=(const Transformer&) = delete;

    /// N(0, 0.02) weights, residual projections over sqrt(2 layers), zero biases, unit norms; a function of the seed
    /// and a parameter's name alone, so that every policy starts from the same numbers. Values are then rounded as
    /// `value` says, but to nearest where it says stochastic: a model is cast once, and only updates draw.
    void initialise(std::uint64_t seed);

    /// Shapes: tokens, targets [batch, context].
    Loss forward(TokenView tokens, TokenView targets);
    /// Gradients of the last forward: the loss is multiplied by `factor` (loss scale, token weight, 1 / micro-batches).
    /// Adds to the gradients of earlier micro-batches.
    void backward(float factor);
    /// The gradients of a micro-batch are complete: call after each backward.
    void end_micro_batch();
    /// Forgets the gradients; call before the first micro-batch of a step.
    void clear_gradients();
    /// The parameters changed: casts of them are stale.
    void parameters_changed();

    /// Gradient checkpointing: of each block only the input is kept, and the block's forward pass is done again before its
    /// backward pass. No bit of a gradient, and nothing that is observed, depends on it.
    void recompute(bool yes) { recomputes_ = yes; }

    Rounder& rounder() { return rounder_; }
    const Rounder& rounder() const { return rounder_; }
    /// In the order of the sites.
    std::vector<std::unique_ptr<ParameterState>>& parameters() { return parameters_; }
    const ModelConfig& config() const { return config_; }

  private:
    struct Block;
    /// What a block is computed again from.
    struct BlockInput {
        Tensor kept{};
        Format held = fp32;
        Rounder::Met met{};
    };
    void keep_input(std::size_t block, const Value& x);
    void recompute_block(std::size_t block);
    ParameterState& make_parameter(const std::string& name, Shape shape);
    /// A bias, which a llama has not.
    ParameterState* make_bias(const std::string& name, std::int64_t size);

    Backend& backend_;
    ModelConfig config_;
    std::int64_t batch_;
    const policy::ResolvedPolicy& policy_;
    Rounder rounder_;
    std::vector<std::unique_ptr<ParameterState>> parameters_;
    ParameterState *token_ = nullptr, *position_ = nullptr;  ///< no positions in a llama
    std::vector<std::unique_ptr<Block>> blocks_;
    bool recomputes_ = false;
    std::vector<BlockInput> inputs_;  ///< of each block, where it is computed again
    std::unique_ptr<Norm> final_norm_;
    std::unique_ptr<Linear> lm_head_;
    Slot embed_out_, embed_grad_in_, loss_out_, loss_mean_, loss_grad_out_;
    TokenView tokens_{}, targets_{};
    Value logp_;
    Tensor x0_, logp_tensor_, dlogits_, dfinal_, dstream_, dembed_, dtoken_, dposition_;
};

}  // namespace macheps::training
