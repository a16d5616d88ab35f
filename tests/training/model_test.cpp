// SPDX-License-Identifier: Apache-2.0
// Compares the model with an fp64 model in tests/oracle, which shares no code with it.
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/model/initialise.hpp"
#include "experiments/training/model/memory.hpp"
#include "experiments/training/model/transformer.hpp"
#include "tests/oracle/reference_gpt.hpp"
#include "tests/oracle/reference_llama.hpp"
#include "tests/test.hpp"

#include "core/error.hpp"

#include <cmath>

namespace model_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

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
    tanh.activation = elementwise::GeluTanh{};
    odd = {.layers = 3, .width = 15, .heads = 3, .context = 7, .vocabulary = 13, .tied = false};
    one = {.layers = 1, .width = 4, .heads = 1, .context = 1, .vocabulary = 3};
    const ModelConfig llama{.kind = ModelKind::llama,
                            .layers = 2,
                            .width = 16,
                            .heads = 4,
                            .context = 5,
                            .vocabulary = 11,
                            .hidden = 20,
                            .tied = false};
    ModelConfig tied = llama, pairs = llama, shared = llama, odd_llama = llama, one_llama = llama;
    tied.tied = true;
    pairs.kv_heads = 2;
    shared.kv_heads = 1;
    shared.rope_theta = 100;
    odd_llama = {.kind = ModelKind::llama,
                 .layers = 3,
                 .width = 30,
                 .heads = 3,
                 .context = 7,
                 .vocabulary = 13,
                 .kv_heads = 1,
                 .hidden = 17};
    one_llama = {.kind = ModelKind::llama, .layers = 1, .width = 2, .heads = 1, .context = 1, .vocabulary = 3};
    return {{small, 3, "tied"},
            {untied, 3, "untied"},
            {tanh, 2, "tanh GELU"},
            {odd, 2, "odd sizes"},
            {one, 1, "one token"},
            {llama, 3, "llama, untied"},
            {tied, 3, "llama, tied"},
            {pairs, 2, "llama, two query heads per key head"},
            {shared, 2, "llama, one key head, faster rotary positions"},
            {odd_llama, 2, "llama, odd sizes"},
            {one_llama, 1, "llama, one token, usual hidden width"}};
}

oracle::LlamaShape llama_shape(const ModelConfig& m) {
    return {.layers = static_cast<int>(m.layers),
            .width = static_cast<int>(m.width),
            .heads = static_cast<int>(m.heads),
            .kv_heads = static_cast<int>(m.kv_heads == 0 ? m.heads : m.kv_heads),
            .hidden = static_cast<int>(m.hidden == 0 ? 32 : m.hidden),
            .context = static_cast<int>(m.context),
            .vocabulary = static_cast<int>(m.vocabulary),
            .rope_theta = m.rope_theta,
            .tied = m.tied};
}

oracle::GptShape gpt_shape(const ModelConfig& m) {
    return {.layers = static_cast<int>(m.layers),
            .width = static_cast<int>(m.width),
            .heads = static_cast<int>(m.heads),
            .context = static_cast<int>(m.context),
            .vocabulary = static_cast<int>(m.vocabulary),
            .tied = m.tied,
            .gelu_tanh = m.activation == elementwise::GeluTanh{}};
}

std::vector<std::int32_t> some_tokens(std::int64_t count, std::int64_t vocabulary, std::uint32_t stream) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < count; ++i) {
        tokens.push_back(static_cast<std::int32_t>(random_bits({7, 0, stream}, static_cast<std::uint64_t>(i)) %
                                                   static_cast<std::uint32_t>(vocabulary)));
    }
    return tokens;
}

/// Losses and gradients of the model with given parameters.
struct Trained {
    double exact = 0;
    float loss = 0;  ///< with the policy's roundings
    oracle::Parameters gradient;
};

Trained run_model(const ModelConfig& config, std::int64_t batch, int parts, const oracle::Parameters& parameters,
                  const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& targets,
                  const Policy& chosen = load_policy("fp32")) {
    CpuBackend backend(2);
    const ResolvedPolicy policy = resolve(chosen, model_sites(config));
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
        const Loss loss = model.forward(in, out);
        result.exact += loss.exact / parts;
        result.loss += loss.rounded / static_cast<float>(parts);
        model.backward(1.0f / static_cast<float>(parts));
    }
    for (const auto& p : model.parameters()) {
        std::vector<float> host(static_cast<std::size_t>(p->grad.count()));
        backend.download(p->grad, host);
        result.gradient[p->name] = {host.begin(), host.end()};
    }
    return result;
}

/// Returns random parameters rounded to fp32, so that both models start from the same numbers.
template <class OracleShape>
oracle::Parameters rounded_parameters(const OracleShape& shape) {
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

template <class OracleShape>
void check_against(const OracleShape& shape, const Case& c, int parts) {
    CAPTURE(c.why, parts);
    const oracle::Parameters parameters = rounded_parameters(shape);
    const auto tokens = some_tokens(c.batch * c.model.context, c.model.vocabulary, 1);
    const auto targets = some_tokens(c.batch * c.model.context, c.model.vocabulary, 2);
    const Trained ours = run_model(c.model, c.batch, parts, parameters, tokens, targets);
    const double loss = oracle::loss(shape, parameters, tokens, targets, static_cast<int>(c.batch));
    const oracle::Parameters gradient = oracle::gradient(shape, parameters, tokens, targets, static_cast<int>(c.batch));

    // Let F be the hidden width, C the width, T the context, D the width of a head and V the vocabulary. A product over
    // k terms has an error of at most k u times the sum of its terms' magnitudes. In the forward pass, each block has
    // products of at most F, C, C, T and D terms. In the backward pass, there are twice as many products. A gradient
    // passes through each block once. The norms, softmax, GELU or SiLU, and rotary positions add a few u each. (An fp32
    // angle of at most T radians has an error of T u.) In the 2-norm of a tensor, the error is at most
    // (blocks + 1) * 3 * (F + 3 C + T + D + V + 64) u. The factor of four allows for the growth of an error in later
    // blocks, whose factors are near one at these weights.
    const double u = fp32.unit_roundoff();
    const auto terms = static_cast<double>(c.model.hidden_width() + 3 * c.model.width + c.model.context +
                                           c.model.head_width() + c.model.vocabulary + 64);
    const double tolerance = 4 * static_cast<double>(c.model.layers + 1) * 3 * terms * u;
    CHECK(std::abs(ours.loss - loss) <= tolerance * (1 + loss));
    CHECK(std::abs(ours.exact - loss) <= tolerance * (1 + loss));
    double whole = 0;
    for (const auto& [name, reference] : gradient) whole = std::max(whole, norm(reference));
    REQUIRE(ours.gradient.size() == gradient.size());
    for (const auto& [name, reference] : gradient) {
        const auto& mine = ours.gradient.at(name);
        REQUIRE(mine.size() == reference.size());
        std::vector<double> difference(mine.size());
        for (std::size_t i = 0; i < mine.size(); ++i) difference[i] = mine[i] - reference[i];
        CAPTURE(name, norm(reference), tolerance);
        // The tolerance is relative to the largest gradient of all tensors. If the terms of a gradient cancel almost
        // completely, the gradient is small, but its error is still that of its terms.
        CHECK(norm(difference) <= tolerance * std::max(norm(reference), whole));
        if (norm(reference) > 1e-3 * whole) CHECK(norm(difference) < 1e-2 * norm(reference));
    }
}

void check_against_oracle(const Case& c, int parts) {
    if (c.model.kind == ModelKind::llama) return check_against(llama_shape(c.model), c, parts);
    check_against(gpt_shape(c.model), c, parts);
}

}  // namespace

TEST_CASE("loss and gradients equal those of the fp64 model up to fp32 rounding", "[experiments][model]") {
    for (const Case& c : cases()) check_against_oracle(c, 1);
}

TEST_CASE("the gradients of micro-batches add up to the gradient of the whole batch", "[experiments][model]") {
    const Case whole{{.layers = 2, .width = 8, .heads = 2, .context = 5, .vocabulary = 11}, 4, "two and four parts"};
    check_against_oracle(whole, 2);
    check_against_oracle(whole, 4);
    const ModelConfig llama{.kind = ModelKind::llama,
                            .layers = 2,
                            .width = 16,
                            .heads = 4,
                            .context = 5,
                            .vocabulary = 11,
                            .kv_heads = 2,
                            .hidden = 24};
    check_against_oracle({llama, 4, "llama in two and four parts"}, 2);
    check_against_oracle({llama, 4, "llama in two and four parts"}, 4);
}

TEST_CASE("the named sizes of a llama have the documented widths and parameter counts", "[experiments][model]") {
    struct Row {
        const char* size;
        std::int64_t hidden, parameters;
    };
    // C is the width, K the number of key heads, D the width of a head, F the hidden width and V the vocabulary. Each
    // block has 2 C + C (C + 2 K D) + C C + 3 F C parameters. In addition, there are V C parameters twice (the head is
    // untied) and one norm.
    for (const Row& row : {Row{"tiny", 192, 2 * (2 * 64 + 4 * 64 * 64 + 3 * 192 * 64) + 2 * 64 * 64 + 64},
                           Row{"small", 352, 4 * (2 * 128 + 4 * 128 * 128 + 3 * 352 * 128) + 2 * 256 * 128 + 128},
                           Row{"base", 1024, 6 * (2 * 384 + 4 * 384 * 384 + 3 * 1024 * 384) + 2 * 256 * 384 + 384}}) {
        CAPTURE(row.size);
        const ModelConfig model = named_size(row.size, ModelKind::llama).model;
        CHECK(model.hidden_width() == row.hidden);
        CHECK(parameter_count(model) == row.parameters);
        CHECK_FALSE(model.tied);
        CHECK_NOTHROW(validate(model));
    }
    ModelConfig grouped = named_size("tiny", ModelKind::llama).model;
    grouped.kv_heads = 2;
    CHECK(grouped.qkv_width() == 64 + 2 * 32);
}

TEST_CASE("a framework's estimated memory is the sum of the tensors that training and autograd keep",
          "[experiments][model]") {
    const ModelConfig gpt2{.layers = 2, .width = 24, .heads = 4, .context = 5, .vocabulary = 11};
    ModelConfig llama = gpt2, wider = gpt2;
    llama.kind = wider.kind = ModelKind::llama;
    llama.kv_heads = 2;
    llama.tied = false;
    wider.hidden = 40;
    const char* const masters =
        "name = \"masters\"\n[[rule]]\nparams = \"*.weight\"\nvalue = \"bf16\"\ngrad = \"bf16\"\nmaster = \"fp32\"\n"
        "moment1 = \"bf16\"\nmoment2 = \"fp16\"\n[[rule]]\nsites = \"*:forward.normed\"\ncast = \"bf16\"\n"
        "[[rule]]\nsites = \"block.*.mlp.*:forward.*\"\ncast = \"e4m3fn\"\n";
    struct Estimated {
        ModelConfig model;
        std::string policy;
        int moments;
        std::int64_t parameters, gradients, master, optimizer, activations;
    };
    // The expected values were computed by listing every site individually. In amp-fp16, the log-probabilities (165
    // numbers) are fp16. In a llama in bf16, the probabilities (600 numbers) are fp32.
    for (const Estimated& e : {Estimated{gpt2, "fp32", 2, 59520, 59520, 0, 119040, 52680},
                               Estimated{gpt2, "amp-fp16", 1, 59520, 59520, 0, 59520, 34740},
                               Estimated{gpt2, "pure-bf16-sr", 2, 29760, 29760, 0, 59520, 26340},
                               Estimated{llama, "h100-fp8-promoted", 2, 53280, 53280, 0, 106560, 48990},
                               Estimated{llama, "pure-bf16-sr", 1, 26640, 26640, 0, 26640, 36030},
                               Estimated{llama, masters, 2, 26640, 26640, 53280, 53280, 42360},
                               Estimated{wider, "amp-fp16", 2, 43008, 43008, 0, 86016, 46110}}) {
        CAPTURE(e.policy, to_string(e.model.kind));
        const Policy policy = e.policy == masters ? parse_policy(masters, "test") : load_policy(e.policy);
        const SiteList sites = model_sites(e.model);
        const MemoryEstimate memory = estimate_memory(sites, resolve(policy, sites), 3, e.moments);
        CHECK(memory.parameters == e.parameters);
        CHECK(memory.gradients == e.gradients);
        CHECK(memory.master == e.master);
        CHECK(memory.optimizer == e.optimizer);
        CHECK(memory.activations == e.activations);
    }
}

TEST_CASE("an impossible model is refused, and the error names the field", "[experiments][model]") {
    struct Bad {
        ModelConfig model;
        const char* field;
    };
    const ModelKind llama = ModelKind::llama;
    const Bad cases[] = {{{.width = 10, .heads = 3}, "heads"},
                         {{.heads = 4, .kv_heads = 2}, "kv_heads"},
                         {{.kind = llama, .heads = 4, .kv_heads = 3}, "kv_heads"},
                         {{.kind = llama, .heads = 4, .kv_heads = -1}, "kv_heads"},
                         {{.kind = llama, .width = 12, .heads = 4}, "heads"},
                         {{.kind = llama, .hidden = -3}, "hidden"},
                         {{.kind = llama, .rope_theta = 1}, "rope_theta"}};
    for (const Bad& bad : cases) {
        CAPTURE(bad.field);
        try {
            validate(bad.model);
            FAIL_CHECK("accepted");
        } catch (const Error& error) {
            CHECK(error.parts().where == bad.field);
            CHECK(error.exit() == Exit::usage);
        }
    }
    CHECK(parse_model_kind("llama") == llama);
    CHECK_THROWS_WITH(parse_model_kind("lama"), Catch::Contains("did you mean 'llama'?"));
}

TEST_CASE("a policy that names fp32 everywhere gives the same bits as the default", "[experiments][model]") {
    const Policy spelled = parse_policy(
        "name = \"spelled\"\n[[rule]]\nsites = \"*:*\"\ncast = \"fp32\"\n[[rule]]\nparams = \"*\"\nvalue = \"fp32\"\n"
        "grad = \"fp32\"\n",
        "spelled.toml");
    for (const Case& c : cases()) {
        CAPTURE(c.why);
        const auto tokens = some_tokens(c.batch * c.model.context, c.model.vocabulary, 1),
                   targets = some_tokens(c.batch * c.model.context, c.model.vocabulary, 2);
        const auto parameters = c.model.kind == ModelKind::llama ? rounded_parameters(llama_shape(c.model))
                                                                 : rounded_parameters(gpt_shape(c.model));
        const Trained one = run_model(c.model, c.batch, 1, parameters, tokens, targets),
                      other = run_model(c.model, c.batch, 1, parameters, tokens, targets, spelled);
        CHECK(one.loss == other.loss);
        CHECK(one.gradient == other.gradient);
    }
}

TEST_CASE("grouped queries give the same bits as one copy of the key head for each query head",
          "[experiments][model]") {
    // Compares a model with four query heads and two key heads with a model with four of each. In the second model,
    // both query heads of a group have copies of the group's keys and values.
    const ModelConfig grouped{.kind = ModelKind::llama,
                              .layers = 1,
                              .width = 16,
                              .heads = 4,
                              .context = 6,
                              .vocabulary = 11,
                              .kv_heads = 2,
                              .hidden = 24};
    ModelConfig repeated = grouped;
    repeated.kv_heads = 4;
    const auto parameters = rounded_parameters(llama_shape(grouped));
    auto copies = parameters;
    const auto& from = parameters.at("block.0.attn.qkv.weight");
    auto& to = copies["block.0.attn.qkv.weight"];
    to.assign(from.begin(), from.begin() + 16 * 16);
    for (const int part : {16, 16 + 8}) {
        for (int head = 0; head < 4; ++head) {
            const auto rows = from.begin() + (part + head / 2 * 4) * 16;
            to.insert(to.end(), rows, rows + 4 * 16);
        }
    }
    const auto tokens = some_tokens(2 * 6, 11, 1), targets = some_tokens(2 * 6, 11, 2);
    const Trained few = run_model(grouped, 2, 1, parameters, tokens, targets),
                  many = run_model(repeated, 2, 1, copies, tokens, targets);
    CHECK(few.loss == many.loss);
    CHECK(few.gradient.at("block.0.mlp.gate.weight") == many.gradient.at("block.0.mlp.gate.weight"));
}

TEST_CASE("a llama has the same gradients with any number of threads and any instruction set", "[experiments][model]") {
    ModelConfig config = named_size("tiny", ModelKind::llama).model;
    config.kv_heads = 2;
    const auto tokens = some_tokens(4 * config.context, config.vocabulary, 1),
               targets = some_tokens(4 * config.context, config.vocabulary, 2);
    const auto gradients = [&](Backend& backend, const char* name) {
        const ResolvedPolicy policy = resolve(load_policy(name), model_sites(config));
        Transformer model(backend, config, 4, policy, 0);
        model.initialise(0);
        model.clear_gradients();
        const TokenTensor in = backend.empty_tokens({4, config.context}),
                          out = backend.empty_tokens({4, config.context});
        backend.upload(tokens, in);
        backend.upload(targets, out);
        std::vector<float> all{model.forward(in, out).rounded};
        model.backward(1);
        for (const auto& p : model.parameters()) {
            std::vector<float> host(static_cast<std::size_t>(p->grad.count()));
            backend.download(p->grad, host);
            all.insert(all.end(), host.begin(), host.end());
        }
        return all;
    };
    for (const char* name : {"fp32", "amp-fp16", "pure-bf16"}) {
        CpuBackend reference(1, Simd::scalar);
        const auto expected = gradients(reference, name);
        for (const Simd simd : available_simd()) {
            CpuBackend backend(3, simd);
            CAPTURE(name, backend.name());
            CHECK(gradients(backend, name) == expected);
        }
    }
}

TEST_CASE("a seed gives every policy the same initial weights, rounded to the policy's format",
          "[experiments][model]") {
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
    const std::size_t tokens = 64 * 64;  // the token embedding comes first; its weights are N(0, 0.02)
    for (std::size_t i = 0; i < tokens; ++i) sum2 += static_cast<double>(reference[i]) * reference[i];
    // The variance of n normal numbers has the relative standard deviation sqrt(2/n). Five deviations are allowed.
    CHECK(std::abs(sum2 / tokens / 4e-4 - 1) < 5 * std::sqrt(2.0 / tokens));
}

TEST_CASE("initial weights have the standard deviation of their kind, norm weights are 1, and biases are 0",
          "[experiments][model]") {
    for (const std::int64_t layers : {1, 2, 8}) {
        for (const char* name : {"wte.weight", "block.0.attn.qkv.weight", "block.1.mlp.up.weight",
                                 "block.1.attn.proj.weight", "block.0.mlp.down.weight"}) {
            const std::string_view parameter = name;
            const bool ends_branch = parameter.ends_with("proj.weight") || parameter.ends_with("down.weight");
            const double variance = 4e-4 / (ends_branch ? 2.0 * static_cast<double>(layers) : 1.0);
            const std::vector<float> x = initial_values(parameter, {128, 64}, layers, 5);
            double sum2 = 0;
            for (const float each : x) sum2 += double{each} * each;
            CAPTURE(name, layers);
            // The variance of n normal numbers has the relative standard deviation sqrt(2/n). Five deviations are
            // allowed.
            const auto n = static_cast<double>(x.size());
            CHECK(std::abs(sum2 / n / variance - 1) < 5 * std::sqrt(2.0 / n));
        }
        CHECK(initial_values("block.0.norm1.weight", {3}, layers, 5) == std::vector<float>{1, 1, 1});
        CHECK(initial_values("block.0.norm1.bias", {3}, layers, 5) == std::vector<float>{0, 0, 0});
        CHECK(initial_values("block.0.attn.proj.bias", {3}, layers, 5) == std::vector<float>{0, 0, 0});
    }
}

TEST_CASE("under every preset, the first loss equals the fp32 loss up to the rounding of the preset's formats",
          "[experiments][model]") {
    ModelConfig config = named_size("tiny", GENERATE(ModelKind::gpt2, ModelKind::llama)).model;
    if (config.kind == ModelKind::llama) config.kv_heads = 2;
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
        return model.forward(in, out).rounded;
    };
    const float reference = first_loss("fp32");
    CHECK(std::abs(reference - std::log(64.0)) < 0.1);
    for (const std::string_view name : preset_names()) {
        CAPTURE(name);
        // The loss is about log V. The coarsest format in which a loss is stored is bf16, whose u is 2^-8.
        CHECK(std::abs(first_loss(name) - reference) <= 2 * bf16.unit_roundoff() * reference);
    }
}

}  // namespace model_test
