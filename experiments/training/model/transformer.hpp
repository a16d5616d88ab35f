// SPDX-License-Identifier: Apache-2.0
// A transformer whose values are rounded as a policy specifies. Its backward passes are written by hand.
#pragma once
#include "experiments/training/model/config.hpp"
#include "experiments/training/model/layers.hpp"

#include <memory>
#include <span>
#include <vector>

namespace macheps::training {

/// The mean cross-entropy of a batch.
struct Loss {
    double exact = 0;   ///< computed in fp64 from the logits; used to compare runs
    float rounded = 0;  ///< computed under the policy: the log-probabilities and the mean are each rounded
};

class Transformer {
  public:
    /// Creates the parameters without initialising them; see initialise().
    Transformer(Backend& backend, const ModelConfig& config, std::int64_t batch, const policy::ResolvedPolicy& policy,
                std::uint64_t seed);
    ~Transformer();
    Transformer(const Transformer&) = delete;
    Transformer& operator=(const Transformer&) = delete;

    /// Initialises all parameters. Weights are normally distributed with standard deviation 0.02. The weights of
    /// residual projections are also divided by sqrt(2 layers). Biases are zero and norm weights are one. These values
    /// depend only on the seed and the parameter's name, so every policy starts from the same numbers. Then each value
    /// is rounded as slot `value` specifies. If that rounding is stochastic, initialise() rounds to nearest even
    /// instead, because only updates draw random words.
    void initialise(std::uint64_t seed);

    /// Returns the loss of a batch. `tokens` and `targets` have the shape [batch, context].
    Loss forward(TokenView tokens, TokenView targets);
    /// Computes the gradients of `factor` times the loss of the last forward pass, and adds them to the gradients of
    /// earlier micro-batches. `factor` is the product of loss scale, token weight and 1 / micro-batches.
    void backward(float factor);
    /// Completes the gradients of a micro-batch. Call it after each backward().
    void end_micro_batch();
    /// Discards the gradients. Call it before the first micro-batch of a step.
    void clear_gradients();
    /// Marks the stored casts of the parameters as stale. Call it when the parameters have changed.
    void parameters_changed();

    /// Turns gradient checkpointing on or off. If it is on, only the input of each block is kept, and the block's
    /// forward pass runs again before its backward pass. This changes neither the gradients nor the data that an
    /// observer receives.
    void recompute(bool yes) { recomputes_ = yes; }

    Rounder& rounder() { return rounder_; }
    const Rounder& rounder() const { return rounder_; }
    /// Returns the parameters in the order of the sites.
    std::vector<std::unique_ptr<ParameterState>>& parameters() { return parameters_; }
    const ModelConfig& config() const { return config_; }

  private:
    struct Block;
    /// The data needed to run the forward pass of a block again.
    struct BlockInput {
        Tensor kept{};
        Format held = fp32;
        Rounder::Met met{};
    };
    void keep_input(std::size_t block, const Value& x);
    void recompute_block(std::size_t block);
    ParameterState& make_parameter(const std::string& name, Shape shape);
    /// Creates a bias. Returns null for a llama, which has no biases.
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
    std::vector<BlockInput> inputs_;  ///< the input of each block, if blocks are recomputed
    std::unique_ptr<Norm> final_norm_;
    std::unique_ptr<Linear> lm_head_;
    Slot embed_out_, embed_grad_in_, loss_out_, loss_mean_, loss_grad_out_;
    TokenView tokens_{}, targets_{};
    Value logp_;
    Tensor x0_, logp_tensor_, dlogits_, dfinal_, dstream_, dembed_, dtoken_, dposition_;
};

}  // namespace macheps::training
