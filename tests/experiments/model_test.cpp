// SPDX-License-Identifier: Apache-2.0
// The model against the tests' own fp64 model, which shares no code with it.
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/model/transformer.hpp"
#include "tests/oracle/reference_gpt.hpp"
#include "tests/test.hpp"

#include <cmath>

using namespace macheps;

namespace {

struct Case {
    ModelConfig model;
    std::int64_t batch;
    const char* why;
};

std::vector<Case> cases() {
    const ModelConfig small{.layers = 2, .width = 8, .heads = 2, .context = 5, .vocabulary = 11};
    ModelConfig untied = small, tanh = small, odd = small, one = small;
    untied.tied = false;
    tanh.gelu = Gelu::tanh;
    odd = {.layers = 3, .width = 15, .heads = 3, .context = 7, .vocabulary = 13, .tied = false};
    one = {.layers = 1, .width = 4, .heads = 1, .context = 1, .vocabulary = 3};
    return {{small, 3, "tied"},
            {untied, 3, "untied"},
            {tanh, 2, "tanh GELU"},
            {odd, 2, "odd sizes"},
            {one, 1, "one token"}};
}

oracle::GptShape oracle_shape(const ModelConfig& m) {
    return {.layers = static_cast<int>(m.layers),
            .width = static_cast<int>(m.width),
            .heads = static_cast<int>(m.heads),
            .context = static_cast<int>(m.context),
            .vocabulary = static_cast<int>(m.vocabulary),
            .tied = m.tied,
            .gelu_tanh = m.gelu == Gelu::tanh};
}

std::vector<std::int32_t> some_tokens(std::int64_t count, std::int64_t vocabulary, std::uint32_t stream) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < count; ++i) {
        tokens.push_back(static_cast<std::int32_t>(random_bits({7, 0, stream}, static_cast<std::uint64_t>(i)) %
                                                   static_cast<std::uint32_t>(vocabulary)));
    }
    return tokens;
}

/// The model's gradients with the oracle's parameters, rounded to fp32, over `parts` micro-batches.
struct Trained {
    float loss = 0;
    oracle::Parameters gradient;
};

Trained run_model(const ModelConfig& config, std::int64_t batch, int parts, const oracle::Parameters& parameters,
                  const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& targets) {
    CpuBackend backend(2);
    const ResolvedPolicy policy = resolve(load_policy("fp32"), model_sites(config));
    Transformer model(backend, config, batch / parts, policy, 0);
    for (const auto& p : model.parameters()) {
        const auto& values = parameters.at(p->name);
        backend.upload(std::vector<float>(values.begin(), values.end()), p->value);
    }
    model.parameters_changed();
    model.clear_gradients();
    const TokenTensor in = backend.empty_tokens({batch / parts, config.context}),
                      out = backend.empty_tokens({batch / parts, config.context});
    Trained result;
    const auto count = static_cast<std::size_t>(in.count());
    for (int part = 0; part < parts; ++part) {
        backend.upload(std::span(tokens).subspan(part * count, count), in);
        backend.upload(std::span(targets).subspan(part * count, count), out);
        result.loss += model.forward(in, out) / static_cast<float>(parts);
        model.backward(1.0f / static_cast<float>(parts));
    }
    for (const auto& p : model.parameters()) {
        std::vector<float> host(static_cast<std::size_t>(p->grad.count()));
        backend.download(p->grad, host);
        result.gradient[p->name] = {host.begin(), host.end()};
    }
    return result;
}

/// fp32-representable parameters, so that both models start from the same numbers.
oracle::Parameters rounded_parameters(const oracle::GptShape& shape) {
    oracle::Parameters parameters = oracle::random_parameters(shape, 5, 0.5);
    for (auto& [name, values] : parameters) {
        for (double& value : values) value = static_cast<float>(value);
    }
    return parameters;
}

double norm(const std::vector<double>& x) {
    double sum = 0;
    for (const double v : x) sum += v * v;
    return std::sqrt(sum);
}

void check_against_oracle(const Case& c, int parts) {
    CAPTURE(c.why, parts);
    const oracle::GptShape shape = oracle_shape(c.model);
    const oracle::Parameters parameters = rounded_parameters(shape);
    const auto tokens = some_tokens(c.batch * c.model.context, c.model.vocabulary, 1);
    const auto targets = some_tokens(c.batch * c.model.context, c.model.vocabulary, 2);
    const Trained ours = run_model(c.model, c.batch, parts, parameters, tokens, targets);
    const double loss = oracle::loss(shape, parameters, tokens, targets, static_cast<int>(c.batch));
    const oracle::Parameters gradient = oracle::gradient(shape, parameters, tokens, targets, static_cast<int>(c.batch));

    // A product over k terms errs by at most k u of its terms' magnitudes. Every block has products of at most 4C, C,
    // C, T, D terms forward and twice that many backward, and a gradient meets each block once; the norms, softmax and
    // GELU add a few u each. In the 2-norm of a tensor that makes (blocks + 1) * 3 * (7 C + T + D + V + 64) u; the head
    // room of four is for the growth of an error on its way through later blocks, whose factors are near one at these
    // weights.
    const double u = fp32.unit_roundoff();
    const auto terms =
        static_cast<double>(7 * c.model.width + c.model.context + c.model.head_width() + c.model.vocabulary + 64);
    const double tolerance = 4 * static_cast<double>(c.model.layers + 1) * 3 * terms * u;
    CHECK(std::abs(ours.loss - loss) <= tolerance * (1 + loss));
    double whole = 0;
    for (const auto& [name, reference] : gradient) whole = std::max(whole, norm(reference));
    REQUIRE(ours.gradient.size() == gradient.size());
    for (const auto& [name, reference] : gradient) {
        const auto& mine = ours.gradient.at(name);
        REQUIRE(mine.size() == reference.size());
        std::vector<double> difference(mine.size());
        for (std::size_t i = 0; i < mine.size(); ++i) difference[i] = mine[i] - reference[i];
        CAPTURE(name, norm(reference), tolerance);
        // Relative to the largest tensor too: a gradient that cancels to nearly nothing keeps the error of its terms.
        CHECK(norm(difference) <= tolerance * std::max(norm(reference), whole));
        if (norm(reference) > 1e-3 * whole) CHECK(norm(difference) < 1e-2 * norm(reference));
    }
}

}  // namespace

TEST_CASE("loss and gradients equal the fp64 model's to fp32 rounding", "[experiments][model]") {
    for (const Case& c : cases()) check_against_oracle(c, 1);
}

TEST_CASE("gradients of micro-batches add up to those of the whole batch", "[experiments][model]") {
    const Case whole{{.layers = 2, .width = 8, .heads = 2, .context = 5, .vocabulary = 11}, 4, "two and four parts"};
    check_against_oracle(whole, 2);
    check_against_oracle(whole, 4);
}

TEST_CASE("the same seed gives every policy the same initial weights, rounded as it says", "[experiments][model]") {
    const ModelConfig config = named_size("tiny").model;
    CpuBackend backend(1);
    const auto weights = [&](const char* name) {
        const ResolvedPolicy policy = resolve(load_policy(name), model_sites(config));
        Transformer model(backend, config, 1, policy, 3);
        model.initialise(3);
        std::vector<float> all;
        for (const auto& p : model.parameters()) {
            std::vector<float> host(static_cast<std::size_t>(p->value.count()));
            backend.download(p->value, host);
            all.insert(all.end(), host.begin(), host.end());
        }
        return all;
    };
    const auto reference = weights("fp32"), amp = weights("amp-fp16"), pure = weights("pure-bf16");
    CHECK(reference == amp);
    REQUIRE(reference.size() == pure.size());
    bool all_rounded = true;
    for (std::size_t i = 0; i < pure.size(); ++i) {
        all_rounded =
            all_rounded && pure[i] == quantize(bf16, reference[i], Round::nearest_even, Overflow::nonsaturate);
    }
    CHECK(all_rounded);
    double sum2 = 0;
    const std::size_t tokens = 64 * 64;  // the token embedding stands first: N(0, 0.02)
    for (std::size_t i = 0; i < tokens; ++i) sum2 += static_cast<double>(reference[i]) * reference[i];
    // The variance of n normals has relative deviation sqrt(2/n); five of them.
    CHECK(std::abs(sum2 / tokens / 4e-4 - 1) < 5 * std::sqrt(2.0 / tokens));
}

TEST_CASE("every preset's first loss lies within its format's rounding of fp32's", "[experiments][model]") {
    const ModelConfig config = named_size("tiny").model;
    CpuBackend backend(2);
    const auto tokens = some_tokens(4 * config.context, config.vocabulary, 1),
               targets = some_tokens(4 * config.context, config.vocabulary, 2);
    const auto first_loss = [&](std::string_view name) {
        const ResolvedPolicy policy = resolve(load_policy(name), model_sites(config));
        Transformer model(backend, config, 4, policy, 0);
        model.initialise(0);
        const TokenTensor in = backend.empty_tokens({4, config.context}),
                          out = backend.empty_tokens({4, config.context});
        backend.upload(tokens, in);
        backend.upload(targets, out);
        return model.forward(in, out);
    };
    const float reference = first_loss("fp32");
    CHECK(std::abs(reference - std::log(64.0)) < 0.1);
    for (const std::string_view name : preset_names()) {
        CAPTURE(name);
        // The loss is about log V; bf16 with its u of 2^-8 is the coarsest format that a loss is stored in.
        CHECK(std::abs(first_loss(name) - reference) <= 2 * bf16.unit_roundoff() * reference);
    }
}
