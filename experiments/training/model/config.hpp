// SPDX-License-Identifier: Apache-2.0
// The shape of a model, and its sites.
#pragma once
#include "emulation/backend.hpp"
#include "experiments/policy/sites.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// gpt2:  pre-LayerNorm, GELU, learned positions, biases (nanoGPT's form).
/// llama: pre-RMSNorm, SwiGLU, rotary positions, grouped queries, no biases (the form of Hugging Face transformers, but
///        with q, k and v as one linear).
/// Both have causal attention with an explicit softmax.
enum class ModelKind : std::uint8_t { gpt2, llama };

std::string_view to_string(ModelKind kind);
/// Throws Error (usage) with the nearest name when there is no such kind.
ModelKind parse_model_kind(std::string_view name);

/// What a gpt2 may have at mlp.act, by the word that --gelu and a manifest have for it.
struct Activation {
    std::string_view name;
    elementwise::Unary f;
};
inline constexpr Activation activations[] = {{"erf", elementwise::GeluErf{}}, {"tanh", elementwise::GeluTanh{}}};

std::string_view to_string(const elementwise::Unary& activation);
/// Throws Error (usage) when there is no such activation.
elementwise::Unary parse_activation(std::string_view name);

/// Of every number of a ModelConfig, and of a batch: what is within it is counted in 64 bits without a care.
inline constexpr std::int64_t most_size = std::int64_t{1} << 20;

struct ModelConfig {
    ModelKind kind = ModelKind::gpt2;
    std::int64_t layers = 2, width = 64, heads = 4, context = 32, vocabulary = 64;
    /// A llama's heads of keys and values; each serves heads / kv_heads query heads. 0 stands for as many as `heads`.
    std::int64_t kv_heads = 0;
    /// Width inside the feed-forward. 0 stands for 4 width in a gpt2, and in a llama for 8/3 width rounded up to a
    /// multiple of 32.
    std::int64_t hidden = 0;
    bool tied = true;                                        ///< lm_head shares embed.token.weight
    elementwise::Unary activation = elementwise::GeluErf{};  ///< gpt2: nn.GELU's default
    double rope_theta = 10000;  ///< llama: pair i of a head turns by position / theta^(2i / head_width)

    std::int64_t head_width() const { return width / heads; }
    std::int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
    /// Columns of attn.qkv: queries, keys, values.
    std::int64_t qkv_width() const { return (heads + 2 * key_heads()) * head_width(); }
    std::int64_t hidden_width() const;
    bool operator==(const ModelConfig&) const = default;
};

/// A row of the size table: a model and its usual batch.
struct ModelSize {
    std::string_view name;
    ModelConfig model;
    std::int64_t batch;
};

/// The sizes tiny, small and base, each as a gpt2.
const std::vector<ModelSize>& model_sizes();
/// The size called `name`, for a model of this kind: the numbers are the same for both kinds, and a llama's lm_head has
/// weights of its own. Throws Error with the nearest name when there is no such size.
ModelSize named_size(std::string_view name, ModelKind kind = ModelKind::gpt2);

/// Throws Error (usage) for sizes of zero, a width that heads do not divide, and the like.
void validate(const ModelConfig& config);

/// Every site and parameter, in the order of the forward pass.
policy::SiteList model_sites(const ModelConfig& config);

/// Number of parameters.
std::int64_t parameter_count(const ModelConfig& config);

}  // namespace macheps::training
