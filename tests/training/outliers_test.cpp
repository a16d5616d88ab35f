// SPDX-License-Identifier: Apache-2.0
// Tests the outliers of a stressed model. Training in fp32, tf32 and bf16 gives the same bits as without outliers, and
// fp16 overflows.
#include "experiments/training/model/outliers.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/run/step.hpp"
#include "tests/test.hpp"
#include "tests/training/trained.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace outliers_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;
using macheps::test::TinyRun;

namespace {

/// Returns a preset, with a stress if `outliers` is positive.
Policy preset(const std::string& name, double outliers) {
    Policy policy = load_policy(name);
    if (outliers > 0) policy.training.stress.outliers = outliers;
    return policy;
}

TrainOptions options() {
    TrainOptions o = TinyRun::tiny_options();
    o.batch = 2;
    o.probe_every = 1;
    return o;
}

/// Returns the losses of a few steps and the final weights, as bits.
std::vector<std::uint64_t> trained_bits(const std::string& name, double outliers, const ModelConfig& model, int steps) {
    TinyRun run(preset(name, outliers), model, options());
    std::vector<std::uint64_t> bits;
    for (const StepResult& step : run.run(steps)) bits.push_back(std::bit_cast<std::uint64_t>(step.loss));
    for (const auto& parameter : run.step.model().parameters()) {
        for (const float value : test::values_of(run.backend, parameter->value))
            bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
    return bits;
}

/// Returns the site rows of the first step.
std::vector<SiteRow> first_sites(const std::string& name, double outliers, const ModelConfig& model) {
    TinyRun run(preset(name, outliers), model, options());
    run.step.run(0, Sampling::sites);
    return run.step.probe().site_rows("run", name, 0, 0);
}

float amax_at(const std::vector<SiteRow>& rows, const std::string& site) {
    for (const SiteRow& row : rows) {
        if (row.site == site) return row.amax;
    }
    FAIL("no row of " + site);
    return 0;
}

ModelConfig sized_model(const char* size, ModelKind kind) {
    ModelConfig model = named_size(size, kind).model;
    model.context = 16, model.layers = 2, model.vocabulary = 64;
    return model;
}

}  // namespace

TEST_CASE("outliers do not change a bit of training in fp32, tf32 or bf16, for either kind of model",
          "[experiments][outliers]") {
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        const ModelConfig model = test::tiny_model(kind);
        for (const std::string name : {"fp32", "tf32", "amp-bf16", "pure-bf16", "pure-bf16-sr"}) {
            CAPTURE(name, to_string(kind));
            CHECK(trained_bits(name, 0x1p11, model, 6) == trained_bits(name, 0, model, 6));
        }
        // Rounding with a narrow range or a scale gives different results, which shows that the outliers exist.
        for (const std::string name : {"amp-fp16", "fp8-tensorwise"}) {
            CAPTURE(name, to_string(kind));
            CHECK(trained_bits(name, 0x1p11, model, 2) != trained_bits(name, 0, model, 2));
        }
    }
}

TEST_CASE("outliers of 2^11 overflow fp16 in the first step of every size, and only at mlp.act",
          "[experiments][outliers]") {
    for (const char* size : {"tiny", "small", "base"}) {
        for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
            const ModelConfig model = sized_model(size, kind);
            CAPTURE(size, to_string(kind));
            const std::vector<SiteRow> plain = first_sites("fp32", 0, model),
                                       stressed = first_sites("fp32", 0x1p11, model);
            for (const SiteRow& row : plain) CHECK((row.site.find(":forward") == std::string::npos || row.amax < 32));
            for (int block = 0; block < 2; ++block) {
                const std::string site = fmt::format("block.{}.mlp.down:forward.a", block);
                CHECK(amax_at(stressed, site) > 65504);
                CHECK(amax_at(stressed, site) < 0x1p24);
            }
            std::set<std::string> overflowed;
            for (const SiteRow& row : first_sites("amp-fp16", 0x1p11, model)) {
                if (row.overflow > 0 && row.site.find(":forward") != std::string::npos) overflowed.insert(row.site);
            }
            CHECK(overflowed.contains("block.0.mlp.act:forward.out"));
            for (const std::string& site : overflowed) CHECK(site.find(".mlp.act:") != std::string::npos);
            // With a stress of 1, no forward value overflows. The overflows above are therefore caused by the size of
            // the outliers.
            for (const SiteRow& row : first_sites("amp-fp16", 1, model)) {
                if (row.site.find(":forward") != std::string::npos) CHECK(row.overflow == 0);
            }
        }
    }
}

TEST_CASE("the outlier channels have the rms that the stress test requests", "[experiments][outliers]") {
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        for (const std::int64_t width : {64, 128, 384, 1024}) {
            ModelConfig model{.kind = kind, .width = width, .heads = 4};
            const std::vector<float> factors = outlier_factors(model, 0x1p11);
            REQUIRE(static_cast<std::int64_t>(factors.size()) == model.hidden_width());
            std::multiset<float> kinds(factors.begin(), factors.end());
            CHECK(kinds.count(1.0f) == factors.size() - 2);
            const float factor = *kinds.rbegin();
            int exponent = 0;
            CHECK(std::frexp(factor, &exponent) == 0.5f);
            // Computes the rms of one outlier channel in the input of mlp.down with functions of libm. Integrates over
            // normally distributed outputs of mlp.up (in a llama, also of mlp.gate).
            const double deviation = 0.02 * std::sqrt(static_cast<double>(width));
            double square = 0, weight = 0;
            for (double z = -8; z <= 8; z += 1.0 / 64) {
                const double x = deviation * z, density = std::exp(-z * z / 2);
                const double gelu = x / 2 * std::erfc(-x / std::sqrt(2.0)), silu = x / (1 + std::exp(-x));
                const double value = kind == ModelKind::llama ? silu * deviation : gelu;
                square += density * value * value, weight += density;
            }
            const double rms = std::sqrt(square / weight) * factor / 0x1p16;
            CAPTURE(width, rms);
            CHECK(rms >= 1);
            CHECK(rms < 4);  // rounding up to a power of two and a slope above 1/2 each at most double it
        }
    }
}

}  // namespace outliers_test
