// SPDX-License-Identifier: Apache-2.0
// Second implementation of the Llama style model, in fp64 and as plain as possible, like the GPT-2 style model in
// reference_gpt.hpp. It shares no code with macheps, and includes none of it.
#pragma once
#include "tests/oracle/reference_model.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace macheps::oracle {

struct LlamaShape {
    int layers = 2, width = 8, heads = 2, kv_heads = 2, hidden = 12, context = 5, vocabulary = 11;
    double rope_theta = 10000;
    bool tied = false;  ///< lm_head uses embed.token.weight instead of lm_head.weight
};

/// Returns the number of entries of each parameter. Parameters are row-major. T = context, C = width, V = vocabulary,
/// F = hidden, D = C / heads and K = kv_heads. As in PyTorch, the weight of a linear layer has the shape [out, in].
/// Linear layers have no bias. The parameters are
/// - embed.token.weight [V,C],
/// - block.<i>.norm1.weight [C],
/// - block.<i>.attn.qkv.weight [C + 2KD,C]. The rows are q, head after head, then k, then v. Query head h reads the
///   keys and values of head h K / heads,
/// - block.<i>.attn.proj.weight [C,C],
/// - block.<i>.norm2.weight [C],
/// - block.<i>.mlp.gate.weight [F,C], block.<i>.mlp.up.weight [F,C] and block.<i>.mlp.down.weight [C,F],
/// - final_norm.weight [C],
/// - lm_head.weight [V,C], unless the model is tied.
std::map<std::string, std::size_t> parameter_sizes(const LlamaShape& shape);

/// Returns parameters that are uniform in (-spread, spread), with norm weights around 1. They are the same on every
/// computer.
Parameters random_parameters(const LlamaShape& shape, std::uint64_t seed, double spread = 0.5);

/// Returns logits [B,T,V]. The model uses pre-RMSNorm (eps 1e-5), rotary positions on queries and keys, causal softmax
/// attention scaled by 1/sqrt(D), down(silu(gate) up), and residuals. Shapes: tokens [B,T] with T = context. Errors:
/// throws std::invalid_argument for wrong sizes, names and tokens.
std::vector<double> logits(const LlamaShape& shape, const Parameters& parameters, std::span<const int> tokens,
                           int batch);

/// Returns the cross-entropy of every token, in nats, [B,T].
std::vector<double> token_losses(const LlamaShape& shape, const Parameters& parameters, std::span<const int> tokens,
                                 std::span<const int> targets, int batch);

/// Returns the mean of token_losses.
double loss(const LlamaShape& shape, const Parameters& parameters, std::span<const int> tokens,
            std::span<const int> targets, int batch);

/// Returns d loss / d entry for all parameters, by a scalar reverse-mode tape (tape.hpp).
Parameters gradient(const LlamaShape& shape, const Parameters& parameters, std::span<const int> tokens,
                    std::span<const int> targets, int batch);

/// Returns d loss / d parameters[name][index] by the method that reference_gpt.hpp describes for the GPT-2 style model.
double finite_difference(const LlamaShape& shape, Parameters& parameters, std::span<const int> tokens,
                         std::span<const int> targets, int batch, const std::string& name, std::size_t index,
                         double* error = nullptr);

}  // namespace macheps::oracle
