// SPDX-License-Identifier: Apache-2.0
// Tests the reference model itself with finite differences, a closed form, and laws that hold for any Llama.
#include "tests/oracle/reference_llama.hpp"

#include "tests/test.hpp"

#include <cmath>

namespace reference_llama_test {

using namespace macheps::oracle;

namespace {

constexpr int batch = 2;

std::vector<int> some_tokens(const LlamaShape& shape, int samples, int seed) {
    std::vector<int> tokens;
    for (int i = 0; i < samples * shape.context; ++i)
        tokens.push_back((seed + 7 * i + (i * i + seed) % 5 * 3) % shape.vocabulary);
    return tokens;
}

struct Setting {
    LlamaShape shape;
    Parameters parameters;
    std::vector<int> tokens, targets;
};

Setting setting(LlamaShape shape = {}) {
    return {shape, random_parameters(shape, 1), some_tokens(shape, batch, 3), some_tokens(shape, batch, 8)};
}

double loss(const Setting& s) { return macheps::oracle::loss(s.shape, s.parameters, s.tokens, s.targets, batch); }

/// Relative tolerance for comparing the same fp64 loss, computed in two ways that differ only by rounding. It is 256
/// units of roundoff. For the rounding of a single loss, the oracle's finite_difference assumes 64 units.
constexpr double loss_rounding = 256 * 0x1p-53;

}  // namespace

TEST_CASE("the llama tape's gradient agrees with the finite difference", "[oracle]") {
    struct Case {
        LlamaShape shape;
        std::size_t stride;  // tests every stride-th entry of each parameter
    };
    for (const Case& c : {Case{{}, 5}, Case{{.heads = 4, .kv_heads = 2, .tied = true}, 7}}) {
        Setting s = setting(c.shape);
        CAPTURE(c.shape.kv_heads, c.shape.tied);
        const Parameters exact = gradient(s.shape, s.parameters, s.tokens, s.targets, batch);
        REQUIRE(exact.size() == s.parameters.size());
        double worst_bound = 0;
        std::size_t wrong = 0, nonzero = 0, seen = 0;
        for (const auto& [name, values] : exact)
            for (std::size_t i = 0; i < values.size(); i += c.stride) {
                double bound = 0;
                const double difference =
                    finite_difference(s.shape, s.parameters, s.tokens, s.targets, batch, name, i, &bound);
                worst_bound = std::max(worst_bound, bound);
                nonzero += values[i] != 0, ++seen;
                if (std::fabs(values[i] - difference) <= bound) continue;
                if (wrong++ < 10) UNSCOPED_INFO(name << "[" << i << "] " << values[i] << " but " << difference);
            }
        CHECK(wrong == 0);
        CHECK(worst_bound < 1e-6);  // a bound that is too loose would let everything pass
        CHECK(nonzero > seen / 10 * 9);
    }
}

// This model has width 2, one head and one block. q, k and v are equal to the normed input, which is (s, s) or (-s, s).
// Therefore the whole forward pass can be written by hand.
TEST_CASE("the loss of a llama of two channels agrees with a closed form", "[oracle]") {
    const LlamaShape shape{
        .layers = 1, .width = 2, .heads = 1, .kv_heads = 1, .hidden = 1, .context = 2, .vocabulary = 2};
    Parameters p;
    for (const auto& [name, size] : parameter_sizes(shape)) p[name].assign(size, 0.0);
    for (const char* norm : {"block.0.norm1.weight", "block.0.norm2.weight", "final_norm.weight"}) p[norm].assign(2, 1);
    p["embed.token.weight"] = {1, 1, -1, 1};
    for (std::size_t i = 0; i < 6; ++i) p["block.0.attn.qkv.weight"][i * 2 + i % 2] = 1;
    p["block.0.attn.proj.weight"] = {1, 0, 0, 1};
    p["block.0.mlp.gate.weight"] = {1, 0};
    p["block.0.mlp.up.weight"] = {0, 2};
    p["block.0.mlp.down.weight"] = {0.5, -0.25};
    p["lm_head.weight"] = {1, 0, 0, 1};

    // Position 0 sees only itself. Position 1 rotates by one radian, because the first frequency is 1 for every theta.
    // So the query and key of position 1 are (-s, s) rotated by one radian, at an angle of 135 degrees plus one radian.
    // The key of position 0 is (s, s) without rotation, at 45 degrees.
    const double s = 1 / std::sqrt(1 + 1e-5), length2 = 2 * s * s, pi = std::acos(-1.0);
    const double score0 = length2 * std::cos(pi / 2 + 1) / std::sqrt(2.0), score1 = length2 / std::sqrt(2.0);
    const double first = 1 / (1 + std::exp(score1 - score0));
    const double stream[2][2] = {{1 + s, 1 + s}, {-1 + first * s - (1 - first) * s, 1 + s}};
    const std::vector<double> losses = token_losses(shape, p, std::vector<int>{0, 1}, std::vector<int>{0, 1}, 1);
    for (std::size_t t = 0; t < 2; ++t) {
        const double x = stream[t][0], y = stream[t][1], size = std::sqrt((x * x + y * y) / 2 + 1e-5);
        const double gate = x / size, hidden = gate / (1 + std::exp(-gate)) * (2 * y / size);
        const double u = x + 0.5 * hidden, v = y - 0.25 * hidden, last = std::sqrt((u * u + v * v) / 2 + 1e-5);
        const double margin = (t == 0 ? v - u : u - v) / last;  // the other logit minus the target's
        CHECK(losses[t] == Approx(std::log1p(std::exp(margin))).epsilon(loss_rounding));
    }
}

TEST_CASE("attention scores depend on positions, but not on a common rotation of queries and keys", "[oracle]") {
    const Setting s = setting({.layers = 1});
    const double turning = loss(s);
    Setting slower = s;
    slower.shape.rope_theta = 1e300;  // only the first pair rotates
    CHECK(turning != Approx(loss(slower)).epsilon(1e-9));
    // Rotates each pair of channels of queries and keys by an angle that is the same at every position. This does not
    // change any score.
    Setting turned = s;
    auto& qkv = turned.parameters["block.0.attn.qkv.weight"];
    const std::size_t c = 8, half = 2;
    for (const std::size_t start : {std::size_t{0}, std::size_t{4}, std::size_t{8}, std::size_t{12}}) {
        for (std::size_t i = 0; i < half; ++i) {
            const double angle = 0.3 + static_cast<double>(i);
            for (std::size_t k = 0; k < c; ++k) {
                double &a = qkv[(start + i) * c + k], &b = qkv[(start + half + i) * c + k];
                const double x = a, y = b;
                a = x * std::cos(angle) - y * std::sin(angle);
                b = x * std::sin(angle) + y * std::cos(angle);
            }
        }
    }
    CHECK(turning == Approx(loss(turned)).epsilon(loss_rounding));
}

TEST_CASE("in a llama, a token does not change the losses at earlier positions", "[oracle]") {
    Setting s = setting({.heads = 4, .kv_heads = 1});
    const auto before = token_losses(s.shape, s.parameters, s.tokens, s.targets, batch);
    for (std::size_t changed = 0; changed < s.tokens.size(); ++changed) {
        std::vector<int> tokens = s.tokens;
        tokens[changed] = (tokens[changed] + 1) % s.shape.vocabulary;
        const auto after = token_losses(s.shape, s.parameters, tokens, s.targets, batch);
        const auto context = static_cast<std::size_t>(s.shape.context);
        for (std::size_t i = 0; i < before.size(); ++i) {
            CAPTURE(changed, i);
            CHECK((before[i] == after[i]) == !(i / context == changed / context && i >= changed));
        }
    }
}

TEST_CASE("grouped queries give the same loss as separate heads with repeated keys and values", "[oracle]") {
    const Setting grouped = setting({.heads = 4, .kv_heads = 2});
    Setting repeated = grouped;
    repeated.shape.kv_heads = 4;
    const std::size_t c = 8, d = 2;
    for (const char* block : {"block.0.", "block.1."}) {
        const auto& from = grouped.parameters.at(std::string(block) + "attn.qkv.weight");
        std::vector<double> to(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(c * c));
        for (const std::size_t part : {c, c + 2 * d}) {  // where keys and values begin
            for (std::size_t head = 0; head < 4; ++head) {
                const auto rows = from.begin() + static_cast<std::ptrdiff_t>((part + head / 2 * d) * c);
                to.insert(to.end(), rows, rows + static_cast<std::ptrdiff_t>(d * c));
            }
        }
        repeated.parameters[std::string(block) + "attn.qkv.weight"] = to;
    }
    CHECK(loss(grouped) == loss(repeated));
}

TEST_CASE("wrong llama shapes are refused", "[oracle]") {
    CHECK_THROWS_AS(parameter_sizes(LlamaShape{.width = 6, .heads = 2}), std::invalid_argument);
    CHECK_THROWS_AS(parameter_sizes(LlamaShape{.width = 12, .heads = 3, .kv_heads = 2}), std::invalid_argument);
    const Setting s = setting();
    CHECK_THROWS_AS(macheps::oracle::loss(LlamaShape{.tied = true}, s.parameters, s.tokens, s.targets, batch),
                    std::invalid_argument);
}

}  // namespace reference_llama_test
