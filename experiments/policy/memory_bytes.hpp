// SPDX-License-Identifier: Apache-2.0
// Estimates the memory of a training run from the number of parameters, for models that macheps does not train itself.
// For a model that macheps trains, estimate_memory (experiments/training/model/memory.hpp) computes the bytes tensor by
// tensor.
//
// Three kinds of memory are counted separately: tensors that live from step to step, activations, and tensors that live
// for only a part of a step.
#pragma once
#include <span>
#include <string_view>

namespace macheps::policy {

/// Bytes for one parameter that is trained with Adam.
struct ParameterBytes {
    double value = 0;        ///< the weight that the forward and backward passes read
    double grad = 0;         ///< the gradient after the backward pass
    double accum = 0;        ///< a separate sum of the gradients of micro-batches; sharded like gradients
    double master = 0;       ///< the copy that the optimiser updates
    double master_grad = 0;  ///< a copy of the gradient in the format of the master; sharded like the optimiser's state
    double moments = 0;      ///< both moments of Adam
    double cast = 0;         ///< a low-precision copy of the weight during forward and backward; not in any total

    double gradients() const { return grad + accum; }
    double optimizer() const { return master + master_grad + moments; }
    double total() const { return value + gradients() + optimizer(); }
    bool operator==(const ParameterBytes&) const = default;
};

/// Bytes of the activations for one of three ways to train: everything in a 16-bit format; matmuls in a 16-bit format
/// and the residual stream in fp32; everything in fp32.
struct ActivationForm {
    std::string_view name;
    double per_position;  ///< bytes per token and unit of width, for operations outside attention
    double per_score;  ///< bytes per head and pair of tokens: explicit attention keeps scores, probabilities and a mask
    double per_checkpoint;  ///< bytes per token and unit of width if only the input of a layer is kept
    double per_logit;       ///< bytes per logit: the logit, its fp32 copy if there is one, and its log-probability
};
extern const ActivationForm low_activations, autocast_activations, fp32_activations;

/// Memory that one way of training needs. It is a row of memory_recipes(), or it is computed from a policy or from a
/// framework's config.
struct MemoryRecipe {
    std::string_view name{}, summary{};
    ParameterBytes trained{};
    /// Bytes per parameter of a model that is frozen and trained through adapters; 0 if the model itself is trained.
    double frozen = 0;
    const ActivationForm* activations = nullptr;
    bool recomputes = false;  ///< the policy or config recomputes activations in the backward pass

    /// Returns the bytes per parameter of the model. `trainable` is the number of adapter parameters divided by the
    /// number of parameters of the model.
    ParameterBytes per_parameter(double trainable) const;
};

/// Returns the recipes of training systems. To add a recipe, add a row.
std::span<const MemoryRecipe> memory_recipes();
const MemoryRecipe* find_memory_recipe(std::string_view name);

/// The tensors that are sharded, so that each rank holds a part instead of a copy.
struct Sharding {
    std::string_view name;  ///< "zero1"
    std::string_view summary;
    bool optimizer, gradients, parameters;

    /// Returns the bytes that each of `shards` ranks holds for one parameter.
    double bytes(const ParameterBytes& each, double shards) const;
};
std::span<const Sharding> shardings();

/// Returns the bytes per parameter of an m x n weight that is trained with GaLore, which projects gradients to rank
/// `rank`. In the result, `moments` includes both moments of the projected gradient and the matrix that projects. Every
/// number takes `bytes` bytes: 4 under autocast, 2 in pure bf16.
ParameterBytes galore_bytes(double bytes, double m, double n, double rank);

/// Sizes of a transformer and a micro-batch, for the activations.
struct ActivationShape {
    double layers = 0, width = 0, heads = 0, context = 0, batch = 0, vocabulary = 0;  ///< vocabulary 0: no logits
};
struct ActivationOptions {
    bool has_checkpoints = false;      ///< each layer keeps only its input and is recomputed in the backward pass
    bool has_flash_attention = false;  ///< scores are never stored
};
double activation_bytes(const ActivationForm& form, const ActivationShape& shape, const ActivationOptions& options);

}  // namespace macheps::policy
