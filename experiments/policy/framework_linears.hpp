// SPDX-License-Identifier: Apache-2.0
// The linears of a model under the names that frameworks give them. Layer filters of frameworks depend on names and on
// the order in which modules are registered.
#pragma once
#include "experiments/policy/sites.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::policy {

/// A linear of a framework's model. Queries, keys and values are one linear here, but may be three in the framework.
/// Gate and up are two linears here, but may be one in the framework.
struct FrameworkLinear {
    std::string name;              ///< model.layers.0.self_attn.q_proj
    std::string site;              ///< block.0.attn.qkv
    std::int64_t in = 0, out = 0;  ///< sides of its weight [out, in]
    std::int64_t block = -1;       ///< -1: outside the blocks
    std::int64_t blocks = 0;       ///< number of blocks of the model

    bool is_hidden() const { return block >= 0; }
    /// Returns the module that holds it: `model.layers.0.self_attn`.
    std::string_view parent() const;
};

/// The framework whose names and order are used. A llama has those of Transformers, torchtitan or Megatron-LM. A gpt2
/// has those of Megatron-LM or, for any other value, nanoGPT: the GPT-2 of Transformers has Conv1D modules, which no
/// filter treats as a Linear.
enum class ModuleNames : std::uint8_t { transformers, torchtitan, megatron };

/// Returns the linears in the order of registration, with the head last.
std::vector<FrameworkLinear> framework_linears(ModuleNames names, const SiteList& model);

}  // namespace macheps::policy
