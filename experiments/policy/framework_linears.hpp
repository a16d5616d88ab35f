// SPDX-License-Identifier: Apache-2.0
// The linears of a model by the names that frameworks have for them: their layer filters go by names, and by the order in which
// modules were registered.
#pragma once
#include "experiments/policy/sites.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::policy {

/// A linear as a framework's model has it. Queries, keys and values, one linear here, may be three there; gate and up, two
/// linears here, may be one.
struct FrameworkLinear {
    std::string name;              ///< model.layers.0.self_attn.q_proj
    std::string site;              ///< block.0.attn.qkv
    std::int64_t in = 0, out = 0;  ///< of its weight [out, in]
    std::int64_t block = -1;       ///< -1: outside the blocks
    std::int64_t blocks = 0;       ///< of the model

    bool is_hidden() const { return block >= 0; }
    /// `model.layers.0.self_attn`: the module that holds it.
    std::string_view parent() const;
};

/// Whose names and order: a llama's are those of Transformers, torchtitan or Megatron-LM; a gpt2's are nanoGPT's but for
/// Megatron-LM, since the GPT-2 of Transformers has Conv1D modules, which no filter takes for a Linear.
enum class ModuleNames : std::uint8_t { transformers, torchtitan, megatron };

/// In the order of registration, the head last.
std::vector<FrameworkLinear> framework_linears(ModuleNames names, const SiteList& model);

}  // namespace macheps::policy
