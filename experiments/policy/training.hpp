// SPDX-License-Identifier: Apache-2.0
// Settings of a policy for an optimiser step, other than its casts: how gradients are added and clipped, which kernel's
// arithmetic updates the weights, and the constants of the optimiser. The training run determines everything that a
// policy does not set.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::policy {

/// adamw: the decay is subtracted from the weight. adam: the decay times the weight is first added to the gradient
/// (L2). sgd: with momentum.
enum class OptimizerKind : std::uint8_t { adamw, sgd, adam };

/// How gradients are clipped by their norm: how the norm is computed and how it becomes a factor. In the formulas,
/// `norm` is the norm of the unscaled gradients, and S is the loss scale.
struct ClipFormula {
    enum class Norm : std::uint8_t {
        elements,     ///< norm of all elements, in fp32
        tensors,      ///< norm of the norms of the tensors, each in fp32
        tensors_fp64  ///< norm of the norms of the tensors in fp64, with the result in fp32
    };
    std::string_view name, summary, source;
    Norm norm = Norm::tensors;
    bool in_grad_format = false;  ///< norms and factor are rounded to the format of the gradients
    bool is_combined = false;     ///< one product unscales and clips
    bool only_shrinks = false;    ///< a factor that is at least 1 or NaN is not applied
    bool widens = false;          ///< gradients are fp32 copies from here on, like those of master weights
};

// clang-format off
inline constexpr ClipFormula clip_formulas[] = {
    {.name = "plain", .summary = "min(1, max_norm / (norm + 1e-6)), with the norm of all elements", .source = "",
     .norm = ClipFormula::Norm::elements},
    {.name = "torch", .summary = "min(1, max_norm / (norm + 1e-6)), with the norm of the tensors' norms, in the gradients' format; the factor is applied even if it is 1",
     .source = "torch/nn/utils/clip_grad.py", .in_grad_format = true},
    {.name = "fsdp1", .summary = "like torch, with norms in fp32", .source = "torch/distributed/fsdp/fully_sharded_data_parallel.py"},
    {.name = "deepspeed", .summary = "gradients times 1 / (c S), with the loss scale S and c = max(1, (norm + 1e-6) / max_norm)",
     .source = "DeepSpeed runtime/zero/stage_1_and_2.py", .norm = ClipFormula::Norm::tensors_fp64, .is_combined = true, .widens = true},
    {.name = "deepspeed-bf16", .summary = "max_norm / (norm + 1e-6), if it is below 1", .source = "DeepSpeed runtime/bf16_optimizer.py",
     .only_shrinks = true, .widens = true},
    {.name = "megatron", .summary = "max_norm / (norm + 1e-6), if it is below 1", .source = "Megatron-LM core/optimizer/clip_grads.py",
     .only_shrinks = true, .widens = true},
};
// clang-format on

/// Roundings in a step of Adam. `plain` is Backend::adamw. Each other kernel is a type in emulation/adam.inl.
struct AdamKernel {
    std::string_view name, summary, source;
};

// clang-format off
inline constexpr AdamKernel adam_kernels[] = {
    {"plain", "fp32: every operation is rounded, and fp64 constants are rounded once. In a narrower arithmetic, the operations are in the order of `single`", ""},
    {"single", "torch's single-tensor and foreach Adam: every primitive rounds to the format of the weight that it updates", "torch/optim/adam.py"},
    {"fused", "torch's fused Adam: products with fp64 constants are computed in fp64; every assignment rounds to fp32, and stored values are rounded once more",
     "torch aten/src/ATen/native/cuda/fused_adam_utils.cuh"},
    {"single-cpu", "torch's single-tensor Adam on a CPU: like `single`, with sums and products fused as in torch's vector code; torch uses MKL's square root, which is not always correctly rounded; macheps rounds it correctly",
     "torch aten/src/ATen/native/cpu/LerpKernel.cpp, PointwiseOpsKernel.cpp"},
    {"foreach-cpu", "torch's foreach Adam on a CPU: like `single-cpu`, but a number that multiplies the weights or the second moments is first rounded to the format of these tensors",
     "torch aten/src/ATen/native/ForeachOpsKernels.cpp"},
    {"fused-cpu", "torch's fused Adam on a CPU: the operations of `single-cpu` in fp32; results are rounded only when they are stored",
     "torch aten/src/ATen/native/cpu/FusedAdamKernel.cpp"},
    {"multi-tensor", "Apex's, DeepSpeed's and Megatron's fused Adam: fp32; the moments are divided by their bias corrections before the square root",
     "Apex csrc/multi_tensor_adam.cu, DeepSpeed csrc/adam/multi_tensor_adam.cu"},
};
// clang-format on

/// Settings that make values of the model as large as in pretrained models. In exact arithmetic, the results do not
/// change.
struct Stress {
    std::optional<double> outliers{};  ///< makes the values of two channels large, see training/model/outliers.hpp

    bool operator==(const Stress&) const = default;
};

/// The training settings of a policy. A setting that the policy leaves out is empty or null.
struct TrainingRecipe {
    const ClipFormula* clip = nullptr;
    const AdamKernel* kernel = nullptr;
    std::optional<OptimizerKind> optimizer{};
    std::optional<std::int64_t> micro_batches{};
    std::optional<double> max_norm{}, lr{}, beta1{}, beta2{}, eps{}, weight_decay{}, momentum{};
    std::optional<bool> rate_waits{};  ///< the schedule of the learning rate does not advance in skipped steps
    std::optional<bool> recompute{};   ///< gradient checkpointing
    Stress stress{};

    bool operator==(const TrainingRecipe&) const = default;
    const ClipFormula& clip_formula() const { return clip != nullptr ? *clip : clip_formulas[0]; }
    const AdamKernel& adam_kernel() const { return kernel != nullptr ? *kernel : adam_kernels[0]; }
};

/// A key of [optimizer], [clip], [accumulation], [backward] or [stress] that sets a part of a TrainingRecipe. To add a
/// key, add a row in training.cpp.
struct TrainingKey {
    enum class Takes : std::uint8_t { name, number, count, flag };
    std::string_view table, name, summary;
    Takes takes = Takes::number;
    bool is_of_precision = false;  ///< changes how numbers are rounded or stored, not the computed function
    std::vector<std::string_view> (*names)() = nullptr;
    bool (*is_good)(double) = nullptr;  ///< accepts a number; null: any finite number
    std::string_view wanted{};          ///< describes what is_good accepts, such as `0 or more`
    /// Sets the key. `value` is the number, 0 or 1 for a flag, or the index of a name in names().
    void (*set)(TrainingRecipe&, double value) = nullptr;
    /// Returns the value as a policy file writes it, or nothing if it is not set.
    std::optional<std::string> (*text)(const TrainingRecipe&) = nullptr;
};
std::span<const TrainingKey> training_keys();
/// Returns the keys of one table.
std::vector<const TrainingKey*> training_keys_of(std::string_view table);
/// Returns the name of each table that has such keys, once, in the order of the keys.
std::vector<std::string_view> training_tables();
/// Returns the settings of a recipe as pairs such as (`clip.formula`, "torch").
std::vector<std::pair<std::string, std::string>> settings_of(const TrainingRecipe& recipe);

/// Returns the [stress] settings of a recipe, with powers of two: "outliers=2^11". Empty if there are none.
std::string stress_text(const TrainingRecipe& recipe);

std::string_view to_string(OptimizerKind kind);

}  // namespace macheps::policy
