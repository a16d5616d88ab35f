// SPDX-License-Identifier: Apache-2.0
// Storage recipes: the formats in which a training system keeps weights, gradients and the state of the optimiser. All
// frameworks share these few recipes. Each format is a letter: F is fp32, H is fp16, B is bf16, and L is the low format
// (fp16 or bf16) that the config requests.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string_view>

namespace macheps::configs {

struct StorageRecipe {
    std::string_view name;
    char store, compute;       ///< parameters; operands of matmuls
    std::string_view oplist;   ///< operation list of autocast; "torch" becomes torch-cuda or torch-cpu by device
    char master;               ///< '-' if the optimiser updates the parameters themselves
    char grad, accum, reduce;  ///< .grad after backward; sum over micro-batches; sum over ranks
    char opt_state;
    char norm, embed, lm_head;  ///< weights of norms, embedding and head
    char buffers, eval;         ///< buffers of the model; parameters in evaluation
};

namespace storage {

// clang-format off
//                                             name            store cmp  oplist      master grad acc  red  opt  norm emb  head buf  eval
inline constexpr StorageRecipe fp32           {"fp32",          'F', 'F', "none",       '-', 'F', 'F', 'F', 'F', 'F', 'F', 'F', 'F', 'F'};
inline constexpr StorageRecipe amp            {"autocast",      'F', 'L', "torch",      '-', 'F', 'F', 'F', 'F', 'F', 'F', 'F', 'F', 'F'};
inline constexpr StorageRecipe low_amp        {"autocast over a model in the low-precision format",
                                                                'L', 'L', "torch",      '-', 'L', 'L', 'L', 'L', 'L', 'L', 'L', 'L', 'L'};
inline constexpr StorageRecipe pure           {"pure",          'L', 'L', "none",       '-', 'L', 'L', 'L', 'L', 'L', 'L', 'L', 'L', 'L'};
inline constexpr StorageRecipe deepspeed      {"DeepSpeed",     'L', 'L', "none",       'F', 'L', 'L', 'L', 'F', 'L', 'L', 'L', 'L', 'L'};
inline constexpr StorageRecipe fsdp           {"FSDP",          'F', 'L', "none",       '-', 'F', 'F', 'L', 'F', 'L', 'L', 'L', 'L', 'L'};
inline constexpr StorageRecipe apex_o1        {"Apex O1",       'F', 'H', "apex-o1",    '-', 'F', 'F', 'F', 'F', 'F', 'F', 'F', 'F', 'F'};
inline constexpr StorageRecipe apex_o2        {"Apex O2",       'H', 'H', "none",       'F', 'H', 'F', 'H', 'F', 'H', 'H', 'H', 'H', 'H'};
inline constexpr StorageRecipe apex_o3        {"Apex O3",       'H', 'H', "none",       '-', 'H', 'H', 'H', 'H', 'H', 'H', 'H', 'H', 'H'};
inline constexpr StorageRecipe megatron       {"Megatron",      'L', 'L', "none",       'F', 'F', 'F', 'F', 'F', 'L', 'L', 'L', 'L', 'L'};
// clang-format on

}  // namespace storage

/// Sets the fields of a recipe. `low` replaces the letter L. The source of the field `compute` is `from_path`, the key
/// that selected the recipe. The other fields follow from the recipe. The caller then changes the fields that other
/// keys determine.
void set_storage(ImportContext& context, const StorageRecipe& recipe, char low, std::string_view from_path);

/// Returns the value of a field for a format letter: "F" for 'F', and "none" for '-'.
FieldValue letter(char format);

/// Returns the name of a format ("fp32", "tf32", "fp16" or "bf16") for its letter. Used in messages.
std::string_view format_word(char letter);

}  // namespace macheps::configs
