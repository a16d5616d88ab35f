// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/reference_gpt.hpp"

namespace macheps::oracle {
namespace {

constexpr double layernorm_eps = 1e-5;

template <class S>
Row<S> layer_norm(const Row<S>& x, const Row<S>& weight, const Row<S>& bias) {
    using std::sqrt;
    const double share = 1.0 / static_cast<double>(x.size());
    const S mean = sum(x) * share;
    Row<S> centred, squares, out;
    for (const S& v : x) centred.push_back(v - mean);
    for (const S& v : centred) squares.push_back(v * v);
    const S deviation = sqrt(sum(squares) * share + layernorm_eps);
    for (std::size_t i = 0; i < x.size(); ++i) out.push_back(centred[i] / deviation * weight[i] + bias[i]);
    return out;
}

template <class S>
S gelu(const S& x, bool by_tanh) {
    using std::erf;
    using std::tanh;
    if (by_tanh) {
        const double sqrt_two_over_pi = std::sqrt(2.0 / std::acos(-1.0));
        return x * (tanh((x + x * x * x * 0.044715) * sqrt_two_over_pi) + 1.0) * 0.5;
    }
    return x * (erf(x * std::sqrt(0.5)) + 1.0) * 0.5;
}

/// Computes causal self-attention of one sample. qkv has a row of 3C numbers for every position, where C is the width.
template <class S>
std::vector<Row<S>> attend(const GptShape& shape, const std::vector<Row<S>>& qkv) {
    const std::size_t width = static_cast<std::size_t>(shape.width), heads = static_cast<std::size_t>(shape.heads);
    const std::size_t size = width / heads;
    const double scale = 1.0 / std::sqrt(static_cast<double>(size));
    std::vector<Row<S>> mixed(qkv.size());
    for (std::size_t h = 0; h < heads; ++h) {
        std::vector<Row<S>> q, k, v;
        for (const Row<S>& row : qkv) {
            q.push_back(slice(row, h * size, size));
            k.push_back(slice(row, width + h * size, size));
            v.push_back(slice(row, 2 * width + h * size, size));
        }
        for (std::size_t t = 0; t < qkv.size(); ++t) {
            Row<S> scores;
            for (std::size_t past = 0; past <= t; ++past)
                scores.push_back(dot(std::span<const S>(q[t]), std::span<const S>(k[past])) * scale);
            const Row<S> attention = softmax(scores);
            for (std::size_t c = 0; c < size; ++c) {
                Row<S> column;
                for (std::size_t past = 0; past <= t; ++past) column.push_back(v[past][c]);
                mixed[t].push_back(dot(std::span<const S>(attention), std::span<const S>(column)));
            }
        }
    }
    return mixed;
}

}  // namespace

/// Returns the logits of one sample: a row of V numbers for every position, where V is the size of the vocabulary.
template <class S>
static std::vector<Row<S>> forward_of(const GptShape& shape, const Named<S>& p, std::span<const int> tokens) {
    const std::size_t width = static_cast<std::size_t>(shape.width);
    std::vector<Row<S>> stream;
    for (std::size_t t = 0; t < tokens.size(); ++t)
        stream.push_back(add(slice(p.at("embed.token.weight"), static_cast<std::size_t>(tokens[t]) * width, width),
                             slice(p.at("embed.position.weight"), t * width, width)));
    for (int layer = 0; layer < shape.layers; ++layer) {
        const auto at = [&](const char* name) -> const Row<S>& {
            return p.at("block." + std::to_string(layer) + "." + name);
        };
        std::vector<Row<S>> qkv;
        for (const Row<S>& x : stream)
            qkv.push_back(linear(layer_norm(x, at("norm1.weight"), at("norm1.bias")), at("attn.qkv.weight"),
                                 &at("attn.qkv.bias")));
        const std::vector<Row<S>> mixed = attend(shape, qkv);
        for (std::size_t t = 0; t < stream.size(); ++t) {
            stream[t] = add(stream[t], linear(mixed[t], at("attn.proj.weight"), &at("attn.proj.bias")));
            Row<S> hidden = linear(layer_norm(stream[t], at("norm2.weight"), at("norm2.bias")), at("mlp.up.weight"),
                                   &at("mlp.up.bias"));
            for (S& v : hidden) v = gelu(v, shape.gelu_tanh);
            stream[t] = add(stream[t], linear(hidden, at("mlp.down.weight"), &at("mlp.down.bias")));
        }
    }
    const Row<S>& head = p.at(shape.tied ? "embed.token.weight" : "lm_head.weight");
    std::vector<Row<S>> out;
    for (const Row<S>& x : stream)
        out.push_back(linear<S>(layer_norm(x, p.at("final_norm.weight"), p.at("final_norm.bias")), head, nullptr));
    return out;
}

std::map<std::string, std::size_t> parameter_sizes(const GptShape& shape) {
    if (shape.heads < 1 || shape.width % shape.heads != 0)
        throw std::invalid_argument("oracle: heads must divide width");
    const std::size_t c = static_cast<std::size_t>(shape.width), v = static_cast<std::size_t>(shape.vocabulary);
    std::map<std::string, std::size_t> sizes{{"embed.token.weight", v * c},
                                             {"embed.position.weight", static_cast<std::size_t>(shape.context) * c},
                                             {"final_norm.weight", c},
                                             {"final_norm.bias", c}};
    if (!shape.tied) sizes["lm_head.weight"] = v * c;
    for (int layer = 0; layer < shape.layers; ++layer) {
        const std::string block = "block." + std::to_string(layer) + ".";
        for (const char* norm : {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}) sizes[block + norm] = c;
        const auto linear_sizes = [&](const char* name, std::size_t out, std::size_t in) {
            sizes[block + name + ".weight"] = out * in;
            sizes[block + name + ".bias"] = out;
        };
        linear_sizes("attn.qkv", 3 * c, c);
        linear_sizes("attn.proj", c, c);
        linear_sizes("mlp.up", 4 * c, c);
        linear_sizes("mlp.down", c, 4 * c);
    }
    return sizes;
}

Parameters random_parameters(const GptShape& shape, std::uint64_t seed, double spread) {
    return reference::random_parameters(shape, seed, spread);
}

std::vector<double> logits(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
                           int batch) {
    return reference::logits(shape, parameters, tokens, batch);
}

std::vector<double> token_losses(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
                                 std::span<const int> targets, int batch) {
    return reference::token_losses(shape, parameters, tokens, targets, batch);
}

double loss(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
            std::span<const int> targets, int batch) {
    return reference::loss(shape, parameters, tokens, targets, batch);
}

Parameters gradient(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
                    std::span<const int> targets, int batch) {
    return reference::gradient(shape, parameters, tokens, targets, batch);
}

double finite_difference(const GptShape& shape, Parameters& parameters, std::span<const int> tokens,
                         std::span<const int> targets, int batch, const std::string& name, std::size_t index,
                         double* error) {
    return reference::finite_difference(shape, parameters, tokens, targets, batch, name, index, error);
}

}  // namespace macheps::oracle
