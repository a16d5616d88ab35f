// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/memory_bytes.hpp"

#include <algorithm>
#include <iterator>

namespace macheps::policy {

// Activations that a layer keeps for the backward pass. For each token and each of its `width` features, they are 16
// values and two dropout masks of one byte. For each attention score, they are two values and a mask of one byte. With
// values of two bytes, these are the factors 34 and 5 of Korthikanti et al., arXiv:2205.05198. Autocast keeps three of
// the tensors in fp32: the residual stream, the inputs of norms and the outputs of softmax.
namespace {
constexpr double per_position(double bytes) { return 16 * bytes + 2; }
constexpr double per_score(double bytes) { return 2 * bytes + 1; }
}  // namespace

constexpr ActivationForm low_activations{"16-bit", per_position(2), per_score(2), 2, 2 + 2},
    autocast_activations{"autocast", per_position(2) + 4, per_score(2) + 2, 4, 2 + 4 + 4},
    fp32_activations{"fp32", per_position(4), per_score(4), 4, 4 + 4};

namespace {

/// Bytes per parameter in NF4: a 4-bit code, and one fp32 maximum for each block of 64 codes. With double quantisation,
/// each maximum has 8 bits, and each block of 256 maxima has one fp32 maximum.
constexpr double nf4 = 0.5 + 4.0 / 64, nf4_double = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
/// Bytes per parameter of two 8-bit moments, each with one fp32 maximum for each block of 256.
constexpr double moments_8bit = 2 * (1 + 4.0 / 256);

constexpr ParameterBytes all_fp32{.value = 4, .grad = 4, .moments = 8};
constexpr ParameterBytes autocast{.value = 4, .grad = 4, .moments = 8, .cast = 2};
constexpr ParameterBytes pure{.value = 2, .grad = 2, .moments = 4};

constexpr ParameterBytes masters{.value = 2, .grad = 2, .master = 4, .moments = 8};
constexpr ParameterBytes masters_accum{.value = 2, .grad = 2, .accum = 4, .master = 4, .moments = 8};
constexpr ParameterBytes masters_with_gradients{.value = 2, .grad = 2, .master = 4, .master_grad = 4, .moments = 8};
constexpr ParameterBytes masters_fp32_gradients{.value = 2, .grad = 4, .master = 4, .moments = 8};
constexpr ParameterBytes short_moments{.value = 4, .grad = 4, .moments = moments_8bit, .cast = 2};

constexpr const ActivationForm *low = &low_activations, *mixed = &autocast_activations, *wide = &fp32_activations;

// clang-format off
constexpr MemoryRecipe recipes[] = {
    {"fp32", "everything in fp32; tf32 is stored the same way", all_fp32, 0, wide},
    {"amp", "autocast to fp16 or bf16: fp32 weights, and low-precision copies of them during a step", autocast, 0, mixed},
    {"pure", "a model cast to fp16 or bf16, including moments; a low-precision checkpoint under autocast is stored the same way", pure, 0, low},
    {"deepspeed", "DeepSpeed's fp16 and bf16: low-precision weights and gradients, fp32 masters", masters, 0, low},
    {"deepspeed-fp32-accum", "DeepSpeed's bf16, with gradients added up in fp32; 2 bytes less if low-precision gradients are freed at once", masters_accum, 0, low},
    {"fsdp", "FSDP of low-precision parameters, reduced in fp32: fp32 shards, plus a low-precision copy of one unit at a time", all_fp32, 0, low},
    {"apex-o1", "Apex O1: functions patched, fp32 weights", autocast, 0, mixed},
    {"apex-o2", "Apex O2: an fp16 model, fp32 masters with separate fp32 gradients", masters_with_gradients, 0, low},
    {"apex-o3", "Apex O3: an fp16 model and nothing else", pure, 0, low},
    {"megatron-fp16", "Megatron's fp16: fp32 masters with separate fp32 gradients", masters_with_gradients, 0, low},
    {"megatron-bf16", "Megatron's bf16: gradients are added up in fp32", masters_fp32_gradients, 0, low},
    {"megatron-fp32", "Megatron's fp32", all_fp32, 0, wide},
    {"adam-8bit", "8-bit Adam under autocast", short_moments, 0, mixed},
    {"lora-fp32", "LoRA: fp32 adapters on an fp32 model", all_fp32, 4, mixed},
    {"lora", "LoRA: fp32 adapters on a 16-bit model", all_fp32, 2, low},
    {"lora-int8", "LoRA: fp32 adapters on an 8-bit model", all_fp32, 1, low},
    {"qlora", "LoRA: fp32 adapters on NF4", all_fp32, nf4, low},
    {"qlora-double", "LoRA: fp32 adapters on NF4 with quantised maxima", all_fp32, nf4_double, low},
};
// clang-format on

constexpr Sharding sharding_rows[] = {
    {"replicated", "every rank holds everything", false, false, false},
    {"zero1", "the optimiser's state is sharded", true, false, false},
    {"zero2", "the optimiser's state and gradients are sharded", true, true, false},
    {"zero3", "the optimiser's state, gradients and parameters are sharded, as in FSDP", true, true, true},
};

}  // namespace

ParameterBytes MemoryRecipe::per_parameter(double trainable) const {
    if (frozen == 0) return trained;
    return {.value = frozen + trainable * trained.value,
            .grad = trainable * trained.grad,
            .accum = trainable * trained.accum,
            .master = trainable * trained.master,
            .master_grad = trainable * trained.master_grad,
            .moments = trainable * trained.moments,
            .cast = trainable * trained.cast};
}

std::span<const MemoryRecipe> memory_recipes() { return recipes; }

const MemoryRecipe* find_memory_recipe(std::string_view name) {
    const auto found =
        std::find_if(std::begin(recipes), std::end(recipes), [&](const MemoryRecipe& row) { return row.name == name; });
    return found == std::end(recipes) ? nullptr : found;
}

double Sharding::bytes(const ParameterBytes& each, double shards) const {
    const auto share = [shards](double bytes, bool is_sharded) { return is_sharded ? bytes / shards : bytes; };
    return share(each.value, parameters) + share(each.gradients(), gradients) + share(each.optimizer(), optimizer);
}

std::span<const Sharding> shardings() { return sharding_rows; }

ParameterBytes galore_bytes(double bytes, double m, double n, double rank) {
    const double longer = std::max(m, n), shorter = std::min(m, n);
    const double state = 2 * rank * longer + rank * shorter;
    return {.value = bytes, .grad = bytes, .moments = bytes * state / (m * n)};
}

double activation_bytes(const ActivationForm& form, const ActivationShape& shape, const ActivationOptions& options) {
    const double tokens = shape.context * shape.batch, positions = tokens * shape.width;
    const double scores = options.has_flash_attention ? 0 : shape.heads * shape.context * tokens;
    const double layer = options.has_checkpoints ? form.per_checkpoint * positions
                                                 : form.per_position * positions + form.per_score * scores;
    return shape.layers * layer + form.per_logit * tokens * shape.vocabulary;
}

}  // namespace macheps::policy
