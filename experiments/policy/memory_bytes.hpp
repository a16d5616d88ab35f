// SPDX-License-Identifier: Apache-2.0
// What training holds in memory, as arithmetic on numbers of parameters: for models that nobody trains here. The bytes of a
// model that is at hand, tensor by tensor, are estimate_memory's (experiments/training/model/memory.hpp).
//
// Bytes of tensors that live from step to step are apart from activations, and both from what lives for part of a step.
#pragma once
#include <span>
#include <string_view>

namespace macheps::policy {

/// Bytes for one parameter that is trained with Adam.
struct ParameterBytes {
    double value = 0;        ///< the weight that forward and backward read
    double grad = 0;         ///< the gradient that backward leaves
    double accum = 0;        ///< a second gradient, in which micro-batches are added up; kept where gradients are
    double master = 0;       ///< the copy that the optimiser updates
    double master_grad = 0;  ///< a copy of the gradient in the master's format; kept where the optimiser's state is
    double moments = 0;      ///< both of them
    double cast = 0;         ///< a low copy of the weight, alive from forward to backward: in no total

    double gradients() const { return grad + accum; }
    double optimizer() const { return master + master_grad + moments; }
    double total() const { return value + gradients() + optimizer(); }
    bool operator==(const ParameterBytes&) const = default;
};

/// How many bytes a part of the activations takes in each of the three ways to train: everything in a 16-bit format; matmuls in
/// one and the residual stream in fp32; everything in fp32.
struct ActivationForm {
    std::string_view name;
    double per_position;  ///< bytes per token and unit of width: of every operation outside attention
    double per_score;  ///< bytes per head and pair of tokens: explicit attention keeps scores, probabilities and a mask
    double per_checkpoint;  ///< bytes per token and unit of width where only the input of a layer is kept
    double per_logit;       ///< logits, their copy in fp32 where there is one, and their log-probabilities
};
extern const ActivationForm low_activations, autocast_activations, fp32_activations;

/// A way to train: a row of memory_recipes, or what a policy or a config asks for.
struct MemoryRecipe {
    std::string_view name{}, summary{};
    ParameterBytes trained{};
    /// Bytes of each parameter of a model that is frozen and trained through adapters; 0 where the model itself is trained.
    double frozen = 0;
    const ActivationForm* activations = nullptr;

    /// Bytes for one parameter of the model where adapters are `trainable` times as many as its parameters.
    ParameterBytes per_parameter(double trainable) const;
};

/// The recipes of training systems; a new one is a row.
std::span<const MemoryRecipe> memory_recipes();
const MemoryRecipe* find_memory_recipe(std::string_view name);

/// What ranks hold a part of instead of a copy.
struct Sharding {
    std::string_view name;  ///< "zero1"
    std::string_view summary;
    bool optimizer, gradients, parameters;

    /// Bytes that each of `shards` ranks holds for one parameter.
    double bytes(const ParameterBytes& each, double shards) const;
};
std::span<const Sharding> shardings();

/// Bytes for one parameter of an m x n matrix under GaLore of this rank: moments of the projected gradient, and the projector.
/// Everything is kept in `bytes` bytes: 4 under autocast, 2 in pure bf16.
ParameterBytes galore_bytes(double bytes, double m, double n, double rank);

/// A transformer and a micro-batch, for the activations.
struct ActivationShape {
    double layers = 0, width = 0, heads = 0, context = 0, batch = 0, vocabulary = 0;  ///< no vocabulary: no logits
};
struct ActivationOptions {
    bool has_checkpoints = false;      ///< each layer keeps its input alone, and is computed again in backward
    bool has_flash_attention = false;  ///< scores are never stored
};
double activation_bytes(const ActivationForm& form, const ActivationShape& shape, const ActivationOptions& options);

}  // namespace macheps::policy
