// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/reference_llama.hpp"

#include <complex>

namespace macheps::oracle {
namespace {

constexpr double norm_eps = 1e-5;

template <class S>
Row<S> rms_norm(const Row<S>& x, const Row<S>& weight) {
    using std::sqrt;
    Row<S> squares, out;
    for (const S& v : x) squares.push_back(v * v);
    const S size = sqrt(sum(squares) * (1.0 / static_cast<double>(x.size())) + norm_eps);
    for (std::size_t i = 0; i < x.size(); ++i) out.push_back(x[i] / size * weight[i]);
    return out;
}

template <class S>
S silu(const S& x) {
    using std::exp;
    return x / (exp(x * -1.0) + 1.0);
}

/// Rotates each pair of channels i and i + D/2 of a head, as a complex number, by the angle position * theta^(-2i/D).
template <class S>
Row<S> rotate(const Row<S>& x, std::size_t position, double theta) {
    const std::size_t half = x.size() / 2;
    Row<S> out = x;
    for (std::size_t i = 0; i < half; ++i) {
        const double speed = std::pow(theta, -static_cast<double>(i) / static_cast<double>(half));
        const std::complex<double> turn = std::polar(1.0, static_cast<double>(position) * speed);
        out[i] = x[i] * turn.real() - x[half + i] * turn.imag();
        out[half + i] = x[i] * turn.imag() + x[half + i] * turn.real();
    }
    return out;
}

/// Computes causal self-attention of one sample. qkv has a row of C + 2KD numbers for every position (see
/// reference_llama.hpp).
template <class S>
std::vector<Row<S>> attend(const LlamaShape& shape, const std::vector<Row<S>>& qkv) {
    const auto width = static_cast<std::size_t>(shape.width), heads = static_cast<std::size_t>(shape.heads),
               keys = static_cast<std::size_t>(shape.kv_heads);
    const std::size_t size = width / heads;
    const double scale = 1.0 / std::sqrt(static_cast<double>(size));
    std::vector<Row<S>> mixed(qkv.size());
    for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t shared = h * keys / heads;
        std::vector<Row<S>> q, k, v;
        for (std::size_t t = 0; t < qkv.size(); ++t) {
            q.push_back(rotate(slice(qkv[t], h * size, size), t, shape.rope_theta));
            k.push_back(rotate(slice(qkv[t], width + shared * size, size), t, shape.rope_theta));
            v.push_back(slice(qkv[t], width + (keys + shared) * size, size));
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
static std::vector<Row<S>> forward_of(const LlamaShape& shape, const Named<S>& p, std::span<const int> tokens) {
    const auto width = static_cast<std::size_t>(shape.width);
    std::vector<Row<S>> stream;
    for (const int token : tokens)
        stream.push_back(slice(p.at("embed.token.weight"), static_cast<std::size_t>(token) * width, width));
    for (int layer = 0; layer < shape.layers; ++layer) {
        const auto at = [&](const char* name) -> const Row<S>& {
            return p.at("block." + std::to_string(layer) + "." + name + ".weight");
        };
        std::vector<Row<S>> qkv;
        for (const Row<S>& x : stream) qkv.push_back(linear<S>(rms_norm(x, at("norm1")), at("attn.qkv"), nullptr));
        const std::vector<Row<S>> mixed = attend(shape, qkv);
        for (std::size_t t = 0; t < stream.size(); ++t) {
            stream[t] = add(stream[t], linear<S>(mixed[t], at("attn.proj"), nullptr));
            const Row<S> normed = rms_norm(stream[t], at("norm2"));
            const Row<S> gate = linear<S>(normed, at("mlp.gate"), nullptr),
                         up = linear<S>(normed, at("mlp.up"), nullptr);
            Row<S> hidden;
            for (std::size_t i = 0; i < gate.size(); ++i) hidden.push_back(silu(gate[i]) * up[i]);
            stream[t] = add(stream[t], linear<S>(hidden, at("mlp.down"), nullptr));
        }
    }
    const Row<S>& head = p.at(shape.tied ? "embed.token.weight" : "lm_head.weight");
    std::vector<Row<S>> out;
    for (const Row<S>& x : stream) out.push_back(linear<S>(rms_norm(x, p.at("final_norm.weight")), head, nullptr));
    return out;
}

std::map<std::string, std::size_t> parameter_sizes(const LlamaShape& shape) {
    if (shape.heads < 1 || shape.width % shape.heads != 0 || shape.width / shape.heads % 2 != 0)
        throw std::invalid_argument("oracle: heads must divide width into even parts");
    if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0)
        throw std::invalid_argument("oracle: kv_heads must divide heads");
    const auto c = static_cast<std::size_t>(shape.width), v = static_cast<std::size_t>(shape.vocabulary),
               f = static_cast<std::size_t>(shape.hidden), keys = static_cast<std::size_t>(shape.kv_heads),
               heads = static_cast<std::size_t>(shape.heads);
    std::map<std::string, std::size_t> sizes{{"embed.token.weight", v * c}, {"final_norm.weight", c}};
    if (!shape.tied) sizes["lm_head.weight"] = v * c;
    for (int layer = 0; layer < shape.layers; ++layer) {
        const std::string block = "block." + std::to_string(layer) + ".";
        sizes[block + "norm1.weight"] = sizes[block + "norm2.weight"] = c;
        sizes[block + "attn.qkv.weight"] = (c + 2 * keys * (c / heads)) * c;
        sizes[block + "attn.proj.weight"] = c * c;
        sizes[block + "mlp.gate.weight"] = sizes[block + "mlp.up.weight"] = f * c;
        sizes[block + "mlp.down.weight"] = c * f;
    }
    return sizes;
}

Parameters random_parameters(const LlamaShape& shape, std::uint64_t seed, double spread) {
    return reference::random_parameters(shape, seed, spread);
}

std::vector<double> logits(const LlamaShape& shape, const Parameters& parameters, std::span<const int> tokens,
                           int batch) {
    return reference::logits(shape, parameters, tokens, batch);
}

std::vector<double> token_losses(const LlamaShape& shape, const Parameters& parameters, std::span<const int> tokens,
                                 std::span<const int> targets, int batch) {
    return reference::token_losses(shape, parameters, tokens, targets, batch);
}

double loss(const LlamaShape& shape, const Parameters& parameters, std::span<const int> tokens,
            std::span<const int> targets, int batch) {
    return reference::loss(shape, parameters, tokens, targets, batch);
}

Parameters gradient(const LlamaShape& shape, const Parameters& parameters, std::span<const int> tokens,
                    std::span<const int> targets, int batch) {
    return reference::gradient(shape, parameters, tokens, targets, batch);
}

double finite_difference(const LlamaShape& shape, Parameters& parameters, std::span<const int> tokens,
                         std::span<const int> targets, int batch, const std::string& name, std::size_t index,
                         double* error) {
    return reference::finite_difference(shape, parameters, tokens, targets, batch, name, index, error);
}

}  // namespace macheps::oracle
