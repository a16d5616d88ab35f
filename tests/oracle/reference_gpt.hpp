// SPDX-License-Identifier: Apache-2.0
// Second implementation of the GPT-2 style model, in fp64 and as plain as possible. Tests compare macheps's model with
// it. It shares no code with macheps, and includes none of it.
#pragma once
#include "tests/oracle/reference_model.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace macheps::oracle {

struct GptShape {
    int layers = 2, width = 8, heads = 2, context = 5, vocabulary = 11;
    bool tied = true;        ///< lm_head uses embed.token.weight instead of lm_head.weight
    bool gelu_tanh = false;  ///< the tanh approximation of GELU instead of erf
};

/// Returns the number of entries of each parameter. Parameters are row-major. T = context, C = width, V = vocabulary
/// and H = heads. As in PyTorch, the weight of a linear layer has the shape [out, in]. The parameters are
/// - embed.token.weight [V,C] and embed.position.weight [T,C],
/// - block.<i>.norm1.{weight,bias} [C],
/// - block.<i>.attn.qkv.weight [3C,C] and .bias [3C]. The rows are q, then k, then v. In each of q, k and v, head h has
///   the rows h C/H .. (h+1) C/H,
/// - block.<i>.attn.proj.weight [C,C] and .bias [C],
/// - block.<i>.norm2.{weight,bias} [C],
/// - block.<i>.mlp.up.weight [4C,C] and .bias [4C],
/// - block.<i>.mlp.down.weight [C,4C] and .bias [C],
/// - final_norm.{weight,bias} [C],
/// - lm_head.weight [V,C], unless the model is tied.
std::map<std::string, std::size_t> parameter_sizes(const GptShape& shape);

/// Returns parameters that are uniform in (-spread, spread), with norm weights around 1. They are the same on every
/// computer.
Parameters random_parameters(const GptShape& shape, std::uint64_t seed, double spread = 0.5);

/// Returns logits [B,T,V]. The model uses pre-LayerNorm (biased variance, eps 1e-5), causal softmax attention scaled by
/// 1/sqrt(C/H), and residuals. Shapes: tokens [B,T] with T = context. Errors: throws std::invalid_argument for wrong
/// sizes, names and tokens.
std::vector<double> logits(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens, int batch);

/// Returns the cross-entropy of every token, in nats, [B,T].
std::vector<double> token_losses(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
                                 std::span<const int> targets, int batch);

/// Returns the mean of token_losses.
double loss(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
            std::span<const int> targets, int batch);

/// Returns d loss / d entry for all parameters, by a scalar reverse-mode tape (tape.hpp). Memory: about 10 bytes for
/// every multiply-add of one sample's forward pass.
Parameters gradient(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
                    std::span<const int> targets, int batch);

/// Returns d loss / d parameters[name][index] by central differences and Richardson extrapolation (Ridders' tableau).
/// It tries the steps 1/8, 1/16, ... 1/512, and returns the entry of the tableau with the smallest estimated error.
/// *error receives that estimate, which is the sum of two numbers. The first is the larger of the distances between
/// this entry and the two entries from which it was computed. The second is a bound on the error that rounding of the
/// loss causes in the entry. The bound assumes that a loss has a rounding error of up to 64 units of roundoff of
/// 1 + loss.
/// `parameters` is changed and restored.
double finite_difference(const GptShape& shape, Parameters& parameters, std::span<const int> tokens,
                         std::span<const int> targets, int batch, const std::string& name, std::size_t index,
                         double* error = nullptr);

}  // namespace macheps::oracle
