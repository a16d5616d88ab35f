// SPDX-License-Identifier: Apache-2.0
// Lists the linears of a model under the names that frameworks give them. The layer filters of frameworks depend on
// these names and on the order in which modules are registered.
#pragma once
#include "experiments/policy/sites.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::policy {

/// A linear of a framework's model. In macheps, queries, keys and values are one linear; in the framework, they may be
/// three. In macheps, gate and up are two linears; in the framework, they may be one.
struct FrameworkLinear {
    std::string name;              ///< model.layers.0.self_attn.q_proj
    std::string site;              ///< block.0.attn.qkv
    std::int64_t in = 0, out = 0;  ///< sides of its weight [out, in]
    std::int64_t block = -1;       ///< -1: outside the blocks
    std::int64_t blocks = 0;       ///< number of blocks of the model

    bool is_hidden() const { return block >= 0; }
    /// Returns the name of the module that contains this linear: `model.layers.0.self_attn`.
    std::string_view parent() const;
};

/// Selects the framework whose module names and module order are used. For a llama, the three values select
/// Transformers, torchtitan and Megatron-LM. For a gpt2, `megatron` selects Megatron-LM, and both other values select
/// nanoGPT. The GPT-2 of Transformers is not supported: it has Conv1D modules, which no layer filter treats as a
/// Linear.
enum class ModuleNames : std::uint8_t { transformers, torchtitan, megatron };

/// Returns the linears in the order in which the framework registers them. The head is last.
std::vector<FrameworkLinear> framework_linears(ModuleNames names, const SiteList& model);

}  // namespace macheps::policy
