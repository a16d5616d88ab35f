// SPDX-License-Identifier: Apache-2.0
// Configuration of a model: its kind and sizes, and the list of its sites.
#pragma once
#include "emulation/backend.hpp"
#include "experiments/policy/sites.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// gpt2:  pre-LayerNorm, GELU, learned positions, biases (the architecture of nanoGPT).
/// llama: pre-RMSNorm, SwiGLU, rotary positions, grouped queries, no biases (the architecture in Hugging Face
///        transformers, but with q, k and v as one linear).
/// Both kinds use causal attention with an explicit softmax.
enum class ModelKind : std::uint8_t { gpt2, llama };

std::string_view to_string(ModelKind kind);
/// Throws Error (usage) that suggests the nearest name if the kind is unknown.
ModelKind parse_model_kind(std::string_view name);

/// An activation function that mlp.act of a gpt2 can use. `name` is its name in --gelu and in manifests.
struct Activation {
    std::string_view name;
    elementwise::Unary f;
};
inline constexpr Activation activations[] = {{"erf", elementwise::GeluErf{}}, {"tanh", elementwise::GeluTanh{}}};

std::string_view to_string(const elementwise::Unary& activation);
/// Throws Error (usage) if the activation is unknown.
elementwise::Unary parse_activation(std::string_view name);

/// Upper bound for each integer in a ModelConfig and for the batch size. With this bound, the number of elements of any
/// tensor of one sample fits into 64 bits.
inline constexpr std::int64_t max_size = std::int64_t{1} << 20;

struct ModelConfig {
    ModelKind kind = ModelKind::gpt2;
    std::int64_t layers = 2, width = 64, heads = 4, context = 32, vocabulary = 64;
    /// Number of key and value heads of a llama. Each of them serves heads / kv_heads query heads. 0 means `heads`.
    std::int64_t kv_heads = 0;
    /// Width inside the feed-forward layer. 0 means 4 * width in a gpt2. In a llama, 0 means 8/3 * width rounded up to
    /// a multiple of 32.
    std::int64_t hidden = 0;
    bool tied = true;                                        ///< lm_head uses embed.token.weight
    elementwise::Unary activation = elementwise::GeluErf{};  ///< gpt2 only; erf is the default of torch's nn.GELU
    double rope_theta = 10000;  ///< llama: rotates channel pair i of a head by position / theta^(2i / head_width)

    std::int64_t head_width() const { return width / heads; }
    std::int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
    /// Returns the number of columns of attn.qkv: queries, keys and values.
    std::int64_t qkv_width() const { return (heads + 2 * key_heads()) * head_width(); }
    std::int64_t hidden_width() const;
    bool operator==(const ModelConfig&) const = default;
};

/// A named size: a model configuration and its usual batch size.
struct ModelSize {
    std::string_view name;
    ModelConfig model;
    std::int64_t batch;
};

/// Returns the sizes tiny, small and base, each as a gpt2.
const std::vector<ModelSize>& model_sizes();
/// Returns the size called `name` for a model of this kind. The numbers are the same for both kinds, but the lm_head of
/// a llama has separate weights. Throws Error that suggests the nearest name if the size is unknown.
ModelSize named_size(std::string_view name, ModelKind kind = ModelKind::gpt2);

/// Throws Error (usage) for sizes of zero, a width that is not a multiple of the number of heads, and similar errors.
void validate(const ModelConfig& config);

/// Returns every site and parameter, in the order of the forward pass.
policy::SiteList model_sites(const ModelConfig& config);

/// Returns the number of parameters.
std::int64_t parameter_count(const ModelConfig& config);

}  // namespace macheps::training
