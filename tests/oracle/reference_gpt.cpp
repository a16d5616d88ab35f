// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/reference_gpt.hpp"

#include "tests/oracle/tape.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <stdexcept>

namespace macheps::oracle {
namespace {

template <class S>
using Row = std::vector<S>;
template <class S>
using Named = std::map<std::string, Row<S>>;

constexpr double layernorm_eps = 1e-5;

template <class S>
double greatest(const Row<S>& x) {
    double most = -std::numeric_limits<double>::infinity();
    for (const S& v : x) most = std::max(most, value_of(v));
    return most;
}

template <class S>
S sum(const Row<S>& x) {
    S total = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) total = total + x[i];
    return total;
}

template <class S>
Row<S> add(const Row<S>& a, const Row<S>& b) {
    Row<S> out;
    out.reserve(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) out.push_back(a[i] + b[i]);
    return out;
}

template <class S>
Row<S> linear(const Row<S>& x, const Row<S>& weight, const Row<S>* bias) {
    const std::span<const S> entries(weight);
    Row<S> out;
    out.reserve(weight.size() / x.size());
    for (std::size_t o = 0; o < weight.size() / x.size(); ++o) {
        const S product = dot(std::span<const S>(x), entries.subspan(o * x.size(), x.size()));
        out.push_back(bias ? product + (*bias)[o] : product);
    }
    return out;
}

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

/// The softmax does not change when a constant is taken from all of x, so its maximum is one: no derivative goes
/// through.
template <class S>
Row<S> softmax(const Row<S>& x) {
    using std::exp;
    const double most = greatest(x);
    Row<S> powers, out;
    for (const S& v : x) powers.push_back(exp(v - most));
    const S total = sum(powers);
    for (const S& power : powers) out.push_back(power / total);
    return out;
}

template <class S>
S cross_entropy(const Row<S>& x, int target) {
    using std::exp;
    using std::log;
    const double most = greatest(x);
    Row<S> powers;
    for (const S& v : x) powers.push_back(exp(v - most));
    return log(sum(powers)) - (x[static_cast<std::size_t>(target)] - most);
}

/// Channels [first, first + count) of a row.
template <class S>
Row<S> slice(const Row<S>& x, std::size_t first, std::size_t count) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first);
    return Row<S>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

/// Causal self-attention of one sample; qkv holds one row of 3C for every position.
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

/// Logits of one sample, a row of V for every position.
template <class S>
std::vector<Row<S>> forward(const GptShape& shape, const Named<S>& p, std::span<const int> tokens) {
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

void check(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens, int batch) {
    if (tokens.size() != static_cast<std::size_t>(batch) * static_cast<std::size_t>(shape.context))
        throw std::invalid_argument("oracle: tokens and targets must be batch * context long");
    for (const int token : tokens)
        if (token < 0 || token >= shape.vocabulary)
            throw std::invalid_argument("oracle: a token beyond the vocabulary");
    const auto sizes = parameter_sizes(shape);
    for (const auto& [name, size] : sizes) {
        const auto found = parameters.find(name);
        if (found == parameters.end()) throw std::invalid_argument("oracle: missing parameter " + name);
        if (found->second.size() != size) throw std::invalid_argument("oracle: wrong size of parameter " + name);
    }
    for (const auto& [name, values] : parameters)
        if (!sizes.contains(name)) throw std::invalid_argument("oracle: unknown parameter " + name);
}

std::span<const int> sample(const GptShape& shape, std::span<const int> tokens, int b) {
    const std::size_t context = static_cast<std::size_t>(shape.context);
    return tokens.subspan(static_cast<std::size_t>(b) * context, context);
}

/// Cross-entropy of every token of a batch whose shapes have been checked.
template <class S>
Row<S> token_losses_of(const GptShape& shape, const Named<S>& p, std::span<const int> tokens,
                       std::span<const int> targets, int batch) {
    Row<S> losses;
    for (int b = 0; b < batch; ++b) {
        const std::vector<Row<S>> rows = forward(shape, p, sample(shape, tokens, b));
        const std::span<const int> wanted = sample(shape, targets, b);
        for (std::size_t t = 0; t < rows.size(); ++t) losses.push_back(cross_entropy(rows[t], wanted[t]));
    }
    return losses;
}

}  // namespace

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
    std::mt19937_64 random(seed);  // its bits are fixed by the standard; those of the distributions are not
    Parameters parameters;
    for (const auto& [name, size] : parameter_sizes(shape)) {
        const bool is_norm_weight = name.find("norm") != std::string::npos && name.ends_with(".weight");
        std::vector<double>& values = parameters[name];
        for (std::size_t i = 0; i < size; ++i)
            values.push_back((is_norm_weight ? 1.0 : 0.0) +
                             spread * (static_cast<double>(random() >> 11) * 0x1p-52 - 1.0 + 0x1p-53));
    }
    return parameters;
}

std::vector<double> logits(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
                           int batch) {
    check(shape, parameters, tokens, batch);
    std::vector<double> out;
    for (int b = 0; b < batch; ++b)
        for (const Row<double>& row : forward<double>(shape, parameters, sample(shape, tokens, b)))
            out.insert(out.end(), row.begin(), row.end());
    return out;
}

std::vector<double> token_losses(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
                                 std::span<const int> targets, int batch) {
    check(shape, parameters, tokens, batch);
    check(shape, parameters, targets, batch);
    return token_losses_of<double>(shape, parameters, tokens, targets, batch);
}

double loss(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
            std::span<const int> targets, int batch) {
    return sum(token_losses(shape, parameters, tokens, targets, batch)) / static_cast<double>(targets.size());
}

Parameters gradient(const GptShape& shape, const Parameters& parameters, std::span<const int> tokens,
                    std::span<const int> targets, int batch) {
    check(shape, parameters, tokens, batch);
    check(shape, parameters, targets, batch);
    Parameters total;
    for (const auto& [name, values] : parameters) total[name].assign(values.size(), 0.0);
    for (int b = 0; b < batch; ++b) {  // one tape for each sample bounds the memory
        Tape tape;
        Named<Var> leaves;
        for (const auto& [name, values] : parameters)
            for (const double value : values) leaves[name].push_back(tape.leaf(value));
        const Row<Var> losses =
            token_losses_of<Var>(shape, leaves, sample(shape, tokens, b), sample(shape, targets, b), 1);
        const std::vector<double> adjoints = tape.adjoints(sum(losses) * (1.0 / static_cast<double>(targets.size())));
        for (const auto& [name, vars] : leaves)
            for (std::size_t i = 0; i < vars.size(); ++i) total[name][i] += adjoints[vars[i].index];
    }
    return total;
}

double finite_difference(const GptShape& shape, Parameters& parameters, std::span<const int> tokens,
                         std::span<const int> targets, int batch, const std::string& name, std::size_t index,
                         double* error) {
    check(shape, parameters, tokens, batch);
    check(shape, parameters, targets, batch);
    constexpr std::size_t rows = 7;
    double& entry = parameters.at(name).at(index);
    const double centre = entry;
    const auto at = [&](double x) {
        entry = x;
        return sum(token_losses_of<double>(shape, parameters, tokens, targets, batch)) /
               static_cast<double>(targets.size());
    };
    const double noise = 64 * 0x1p-53 * (1.0 + at(centre));

    // table[i][j]: step 2^-(3+i), the terms h^2 .. h^(2j) removed. Removing them weighs the new row by 4^j / (4^j - 1):
    // the noise grows by less than 2 in all.
    std::array<std::array<double, rows>, rows> table{};
    double best = 0, best_error = std::numeric_limits<double>::infinity(), step = 0.125;
    for (std::size_t i = 0; i < rows; ++i, step /= 2) {
        const double above = centre + step, below = centre - step;
        table[i][0] = (at(above) - at(below)) / (above - below);
        double power = 4;
        for (std::size_t j = 1; j <= i; ++j, power *= 4) {
            table[i][j] = (power * table[i][j - 1] - table[i - 1][j - 1]) / (power - 1);
            const double moved =
                std::max(std::fabs(table[i][j] - table[i][j - 1]), std::fabs(table[i][j] - table[i - 1][j - 1]));
            const double estimate = moved + 2 * noise / step;
            if (estimate < best_error) best = table[i][j], best_error = estimate;
        }
    }
    entry = centre;
    if (error) *error = best_error;
    return best;
}

}  // namespace macheps::oracle
