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
    double exact = 0;   ///< in fp64 from the policy's logits; runs are compared by it
    float rounded = 0;  ///< as the policy computes it: log-probabilities and mean are each rounded
};

class Transformer {
  public:
    /// Makes the parameters without initialising them; see initialise().
    Transformer(Backend& backend, const ModelConfig& config, std::int64_t batch, const policy::ResolvedPolicy& policy,
                std::uint64_t seed);
    ~Transformer();
    Transformer(const Transformer&) = delete;
    Transformer& operator=(const Transformer&) = delete;

    /// Sets weights to N(0, 0.02), with residual projections divided by sqrt(2 layers), biases to zero and norm weights
    /// to one. The values depend only on the seed and the parameter's name, so every policy starts from the same
    /// numbers. They are then rounded as slot `value` says, but to nearest if it says stochastic: a model is cast once,
    /// and only updates draw random words.
    void initialise(std::uint64_t seed);

    /// Shapes: tokens, targets [batch, context].
    Loss forward(TokenView tokens, TokenView targets);
    /// Computes the gradients of the last forward pass, whose loss is multiplied by `factor` (loss scale, token weight,
    /// 1 / micro-batches). Adds to the gradients of earlier micro-batches.
    void backward(float factor);
    /// Completes the gradients of a micro-batch. Call it after each backward().
    void end_micro_batch();
    /// Forgets the gradients; call before the first micro-batch of a step.
    void clear_gradients();
    /// Marks the casts of the parameters as stale. Call it when the parameters have changed.
    void parameters_changed();

    /// Turns gradient checkpointing on or off: only the input of each block is kept, and the block's forward pass runs
    /// again before its backward pass. This does not change any bit of a gradient, nor what an observer receives.
    void recompute(bool yes) { recomputes_ = yes; }

    Rounder& rounder() { return rounder_; }
    const Rounder& rounder() const { return rounder_; }
    /// Returns the parameters in the order of the sites.
    std::vector<std::unique_ptr<ParameterState>>& parameters() { return parameters_; }
    const ModelConfig& config() const { return config_; }

  private:
    struct Block;
    /// The data from which a block's forward pass is run again.
    struct BlockInput {
        Tensor kept{};
        Format held = fp32;
        Rounder::Met met{};
    };
    void keep_input(std::size_t block, const Value& x);
    void recompute_block(std::size_t block);
    ParameterState& make_parameter(const std::string& name, Shape shape);
    /// Makes a bias. Returns null for a llama, which has no biases.
    ParameterState* make_bias(const std::string& name, std::int64_t size);

    Backend& backend_;
    ModelConfig config_;
    std::int64_t batch_;
    const policy::ResolvedPolicy& policy_;
    Rounder rounder_;
    std::vector<std::unique_ptr<ParameterState>> parameters_;
    ParameterState *token_ = nullptr, *position_ = nullptr;  ///< `position_` is null in a llama
    std::vector<std::unique_ptr<Block>> blocks_;
    bool recomputes_ = false;
    std::vector<BlockInput> inputs_;  ///< of each block, if blocks are recomputed
    std::unique_ptr<Norm> final_norm_;
    std::unique_ptr<Linear> lm_head_;
    Slot embed_out_, embed_grad_in_, loss_out_, loss_mean_, loss_grad_out_;
    TokenView tokens_{}, targets_{};
    Value logp_;
    Tensor x0_, logp_tensor_, dlogits_, dfinal_, dstream_, dembed_, dtoken_, dposition_;
};

}  // namespace macheps::training
