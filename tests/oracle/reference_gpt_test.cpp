// SPDX-License-Identifier: Apache-2.0
// Tests the reference model itself with finite differences, closed forms, and laws that hold for any GPT-2.
#include "tests/oracle/reference_gpt.hpp"

#include "tests/oracle/reference_adamw.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <numeric>

namespace reference_gpt_test {

using namespace macheps::oracle;

namespace {

constexpr int batch = 2;

/// Returns tokens of a small vocabulary in an irregular order.
std::vector<int> some_tokens(const GptShape& shape, int samples, int seed) {
    std::vector<int> tokens;
    for (int i = 0; i < samples * shape.context; ++i)
        tokens.push_back((seed + 7 * i + (i * i + seed) % 5 * 3) % shape.vocabulary);
    return tokens;
}

struct Setting {
    GptShape shape;
    Parameters parameters;
    std::vector<int> tokens, targets;
};

Setting setting(GptShape shape = {}, std::uint64_t seed = 1) {
    return {shape, random_parameters(shape, seed), some_tokens(shape, batch, 3), some_tokens(shape, batch, 8)};
}

double loss(const Setting& s) { return macheps::oracle::loss(s.shape, s.parameters, s.tokens, s.targets, batch); }

/// Relative tolerance for comparing the same fp64 loss, computed in two ways that differ only by rounding. It is 256
/// units of roundoff. For the rounding of a single loss, the oracle's finite_difference assumes 64 units.
constexpr double loss_rounding = 256 * 0x1p-53;

double greatest(const std::vector<double>& values) {
    double most = 0;
    for (const double v : values) most = std::max(most, std::fabs(v));
    return most;
}

}  // namespace

TEST_CASE("the tape's gradient agrees with the finite difference", "[oracle]") {
    struct Case {
        bool tied, gelu_tanh;
        std::size_t stride;  // tests every stride-th entry of each parameter
    };
    for (const Case c : {Case{true, false, 3}, Case{false, false, 7}, Case{false, true, 7}}) {
        CAPTURE(c.tied, c.gelu_tanh);
        Setting s = setting({.layers = 2, .tied = c.tied, .gelu_tanh = c.gelu_tanh});
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

TEST_CASE("finite_difference does not change the parameters", "[oracle]") {
    Setting s = setting();
    const Parameters before = s.parameters;
    finite_difference(s.shape, s.parameters, s.tokens, s.targets, batch, "block.0.mlp.up.weight", 3);
    CHECK(s.parameters == before);
}

TEST_CASE("uniform logits give the loss log V at every token", "[oracle]") {
    for (const int vocabulary : {2, 11, 64}) {
        const GptShape shape{.vocabulary = vocabulary, .tied = false};
        Setting s = setting(shape);
        s.parameters["lm_head.weight"].assign(s.parameters["lm_head.weight"].size(), 0.0);
        for (const double l : token_losses(shape, s.parameters, s.tokens, s.targets, batch))
            CHECK(l == Approx(std::log(vocabulary)).epsilon(loss_rounding));
    }
}

// Every vector in this model is a multiple of p = (1,-1,1,-1), so the whole forward pass can be written by hand.
TEST_CASE("the loss of a model whose vectors are all parallel agrees with a closed form", "[oracle]") {
    const bool by_tanh = GENERATE(false, true);
    const GptShape shape{
        .layers = 1, .width = 4, .heads = 2, .context = 2, .vocabulary = 2, .tied = false, .gelu_tanh = by_tanh};
    Parameters p;
    for (const auto& [name, size] : parameter_sizes(shape)) p[name].assign(size, 0.0);
    for (const char* norm : {"block.0.norm1.weight", "block.0.norm2.weight", "final_norm.weight"}) p[norm].assign(4, 1);
    p["embed.token.weight"] = {1, -1, 1, -1, -1, 1, -1, 1};
    for (std::size_t i = 0; i < 12; ++i) p["block.0.attn.qkv.weight"][i * 4 + i % 4] = 1;  // q = k = v = norm1(x)
    for (std::size_t i = 0; i < 4; ++i) p["block.0.attn.proj.weight"][i * 4 + i] = 1;
    p["block.0.mlp.up.weight"][0] = 1;
    p["block.0.mlp.up.bias"][0] = 0.25;
    for (std::size_t c = 0; c < 4; ++c) p["block.0.mlp.down.weight"][c * 16] = c % 2 == 0 ? 1 : -1;
    p["lm_head.weight"] = {0.25, -0.25, 0.25, -0.25, 0, 0, 0, 0};

    const auto norm = [](double x) { return x / std::sqrt(x * x + 1e-5); };
    const auto after_attention = [&](double x) {
        const double up = norm(x) + 0.25;
        const double pi = std::acos(-1.0);
        const double gelu = by_tanh ? 0.5 * up * (1 + std::tanh(std::sqrt(2 / pi) * (up + 0.044715 * up * up * up)))
                                    : 0.5 * up * std::erfc(-up / std::sqrt(2.0));
        return norm(x + gelu);
    };
    // Position 0 sees only itself. Heads have two channels. Therefore the scores of position 1 are -2 s^2 / sqrt(2) for
    // position 0 and 2 s^2 / sqrt(2) for itself.
    const double s = norm(1), other = 1 / (1 + std::exp(2 * std::sqrt(2.0) * s * s));
    const double logit0 = after_attention(1 + s), logit1 = after_attention(-1 + s * other - s * (1 - other));

    const std::vector<double> losses = token_losses(shape, p, std::vector<int>{0, 1}, std::vector<int>{0, 1}, 1);
    CHECK(losses[0] == Approx(std::log(1 + std::exp(-logit0))).epsilon(loss_rounding));
    CHECK(losses[1] == Approx(std::log(1 + std::exp(logit1))).epsilon(loss_rounding));
}

TEST_CASE("a token does not change the losses at earlier positions", "[oracle]") {
    Setting s = setting();
    const auto before = token_losses(s.shape, s.parameters, s.tokens, s.targets, batch);
    for (std::size_t changed = 0; changed < s.tokens.size(); ++changed) {
        std::vector<int> tokens = s.tokens;
        tokens[changed] = (tokens[changed] + 1) % s.shape.vocabulary;
        const auto after = token_losses(s.shape, s.parameters, tokens, s.targets, batch);
        const std::size_t context = static_cast<std::size_t>(s.shape.context);
        for (std::size_t i = 0; i < before.size(); ++i) {
            CAPTURE(changed, i);
            const bool sees = i / context == changed / context && i >= changed;
            CHECK((before[i] == after[i]) == !sees);
        }
    }
}

TEST_CASE("the samples of a batch are independent", "[oracle]") {
    const Setting s = setting();
    Setting swapped = s;
    const auto half = static_cast<std::ptrdiff_t>(s.tokens.size() / 2);
    std::rotate(swapped.tokens.begin(), swapped.tokens.begin() + half, swapped.tokens.end());
    std::rotate(swapped.targets.begin(), swapped.targets.begin() + half, swapped.targets.end());
    auto losses = token_losses(s.shape, s.parameters, s.tokens, s.targets, batch);
    std::rotate(losses.begin(), losses.begin() + half, losses.end());
    CHECK(losses == token_losses(s.shape, s.parameters, swapped.tokens, swapped.targets, batch));
    CHECK(loss(s) == Approx(loss(swapped)).epsilon(loss_rounding));
    // With two samples, the sum over samples does not depend on their order.
    CHECK(gradient(s.shape, s.parameters, s.tokens, s.targets, batch) ==
          gradient(s.shape, s.parameters, swapped.tokens, swapped.targets, batch));
}

TEST_CASE("renumbering hidden units and heads does not change the loss", "[oracle]") {
    const Setting s = setting();
    Setting renumbered = s;
    const std::size_t width = 8, hidden = 32;
    for (std::size_t u = 0; u < hidden; ++u) {  // hidden unit u becomes unit 31 - u
        const std::size_t to = hidden - 1 - u;
        for (std::size_t c = 0; c < width; ++c) {
            renumbered.parameters["block.1.mlp.up.weight"][to * width + c] =
                s.parameters.at("block.1.mlp.up.weight")[u * width + c];
            renumbered.parameters["block.1.mlp.down.weight"][c * hidden + to] =
                s.parameters.at("block.1.mlp.down.weight")[c * hidden + u];
        }
        renumbered.parameters["block.1.mlp.up.bias"][to] = s.parameters.at("block.1.mlp.up.bias")[u];
    }
    for (std::size_t r = 0; r < 3 * width; ++r) {  // exchanges the two heads in q, k and v
        const std::size_t to = r / width * width + (r + 4) % width;
        for (std::size_t c = 0; c < width; ++c)
            renumbered.parameters["block.0.attn.qkv.weight"][to * width + c] =
                s.parameters.at("block.0.attn.qkv.weight")[r * width + c];
        renumbered.parameters["block.0.attn.qkv.bias"][to] = s.parameters.at("block.0.attn.qkv.bias")[r];
    }
    CHECK(loss(s) != Approx(loss(renumbered)).epsilon(1e-6));  // proj still reads the heads in the old order
    for (std::size_t o = 0; o < width; ++o)
        for (std::size_t c = 0; c < width; ++c)
            renumbered.parameters["block.0.attn.proj.weight"][o * width + (c + 4) % width] =
                s.parameters.at("block.0.attn.proj.weight")[o * width + c];
    CHECK(loss(s) == Approx(loss(renumbered)).epsilon(loss_rounding));
}

TEST_CASE("gradients obey the model's symmetries", "[oracle]") {
    const Setting s = setting({.tied = false});
    const Parameters g = gradient(s.shape, s.parameters, s.tokens, s.targets, batch);
    constexpr std::size_t width = 8;
    // A row of attention sums to one, so the v bias reaches proj unchanged. The k bias shifts all scores of a row
    // equally.
    const auto& qkv_bias = g.at("block.0.attn.qkv.bias");
    const auto& proj = s.parameters.at("block.0.attn.proj.weight");
    for (std::size_t c = 0; c < width; ++c) {
        CAPTURE(c);
        double through_proj = 0;
        for (std::size_t o = 0; o < width; ++o) through_proj += g.at("block.0.attn.proj.bias")[o] * proj[o * width + c];
        CHECK(qkv_bias[2 * width + c] == Approx(through_proj).epsilon(1e-12).margin(1e-15));
        CHECK(std::fabs(qkv_bias[width + c]) < 1e-15);
        CHECK(std::fabs(qkv_bias[c]) > 1e-9);
        CHECK(std::fabs(g.at("block.0.attn.qkv.weight")[(width + c) * width]) > 1e-9);
        // Shifting all logits equally does not change the loss.
        double column = 0;
        for (std::size_t v = 0; v < 11; ++v) column += g.at("lm_head.weight")[v * width + c];
        CHECK(std::fabs(column) < 1e-15);
    }
    // Only LayerNorms read the residual stream, and they subtract the mean of the channels. Therefore the gradient of a
    // bias that is added to the stream sums to zero.
    for (const char* bias : {"block.0.attn.proj.bias", "block.0.mlp.down.bias", "block.1.mlp.down.bias"}) {
        const auto& values = g.at(bias);
        CHECK(std::fabs(std::accumulate(values.begin(), values.end(), 0.0)) < 1e-14 * greatest(values) * 8 + 1e-15);
    }
}

TEST_CASE("the gradient of a tied weight is the sum of the gradients of both uses", "[oracle]") {
    const Setting tied = setting();
    Setting untied = tied;
    untied.shape.tied = false;
    untied.parameters["lm_head.weight"] = tied.parameters.at("embed.token.weight");
    CHECK(loss(tied) == loss(untied));
    const Parameters one = gradient(tied.shape, tied.parameters, tied.tokens, tied.targets, batch);
    const Parameters two = gradient(untied.shape, untied.parameters, untied.tokens, untied.targets, batch);
    for (std::size_t i = 0; i < one.at("embed.token.weight").size(); ++i)
        CHECK(one.at("embed.token.weight")[i] ==
              Approx(two.at("embed.token.weight")[i] + two.at("lm_head.weight")[i]).epsilon(1e-12).margin(1e-15));
}

TEST_CASE("wrong shapes are refused", "[oracle]") {
    const Setting s = setting();
    CHECK_THROWS_AS(macheps::oracle::loss(s.shape, s.parameters, s.tokens, s.targets, batch + 1),
                    std::invalid_argument);
    CHECK_THROWS_AS(macheps::oracle::loss({.tied = false}, s.parameters, s.tokens, s.targets, batch),
                    std::invalid_argument);
    CHECK_THROWS_AS(parameter_sizes({.width = 8, .heads = 3}), std::invalid_argument);
    std::vector<int> tokens = s.tokens;
    tokens[0] = s.shape.vocabulary;
    CHECK_THROWS_AS(macheps::oracle::loss(s.shape, s.parameters, tokens, s.targets, batch), std::invalid_argument);
}

TEST_CASE("the learning rate warms up, then follows half a cosine", "[oracle]") {
    const Schedule lr{.base = 1e-3, .min_lr = 1e-4, .warmup = 4, .steps = 25};
    const auto [step, expected, why] =
        GENERATE(table<long, double, const char*>({{0, 0.25e-3, "the first step already moves"},
                                                   {3, 1e-3, "the last warm-up step"},
                                                   {4, 1e-3, "the top of the cosine"},
                                                   {9, 1e-4 + 0.5 * 9e-4 * (1 + std::sqrt(0.5)), "an eighth of a turn"},
                                                   {14, 5.5e-4, "half way"},
                                                   {24, 1e-4, "the last step"},
                                                   {99, 1e-4, "beyond the end"}}));
    CAPTURE(step, why);
    CHECK(lr(step) == Approx(expected).epsilon(1e-12));
    CHECK(Schedule{.warmup = 20, .steps = 21}(20) == 1e-3);
    CHECK(Schedule{.warmup = 0, .steps = 2}(0) == 1e-3);
}

TEST_CASE("clipping scales the global norm down to its bound, never up", "[oracle]") {
    Parameters g{{"a", {3, 0}}, {"b", {-4}}};
    CHECK(clip_by_global_norm(g, 0) == 5);
    CHECK(clip_by_global_norm(g, 10) == 5);
    CHECK(g.at("a")[0] == 3);
    CHECK(clip_by_global_norm(g, 1) == 5);
    CHECK(global_norm(g) == Approx(5 / (5 + 1e-6)).epsilon(1e-14));
    CHECK(g.at("b")[0] == Approx(-4 / (5 + 1e-6)).epsilon(1e-14));
}

TEST_CASE("the first two steps of AdamW agree with closed forms", "[oracle]") {
    Parameters p{{"x.weight", {1, 1, 1}}, {"norm1.weight", {1}}, {"x.bias", {1}}};
    const Parameters g{{"x.weight", {0.5, -2, 0}}, {"norm1.weight", {1e-8}}, {"x.bias", {-3}}};
    AdamW adamw{.weight_decay = 0.1};
    const double lr = 0.01;
    adamw.step(p, g, lr);  // bias correction makes the moments g and g^2
    CHECK(p.at("x.weight")[0] == Approx(0.999 - lr * 0.5 / (0.5 + 1e-8)).epsilon(1e-14));
    CHECK(p.at("x.weight")[1] == Approx(0.999 + lr * 2 / (2 + 1e-8)).epsilon(1e-14));
    CHECK(p.at("x.weight")[2] == Approx(0.999).epsilon(1e-15));
    CHECK(p.at("norm1.weight")[0] == Approx(1 - lr / 2).epsilon(1e-14));  // eps is added outside the root; no decay
    CHECK(p.at("x.bias")[0] == Approx(1 + lr).epsilon(1e-9));
    // Second step with the opposite sign: m = (0.9 * 0.1 - 0.1) g / (1 - 0.81), v = g^2 again.
    Parameters turned = g;
    for (auto& [name, values] : turned)
        for (double& v : values) v = -v;
    const double before = p.at("x.bias")[0];
    adamw.step(p, turned, lr);
    CHECK(p.at("x.bias")[0] - before == Approx(lr * (0.9 * 0.1 - 0.1) / 0.19).epsilon(1e-7));
}

}  // namespace reference_gpt_test
