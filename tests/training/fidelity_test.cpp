// SPDX-License-Identifier: Apache-2.0
// Tests the statistics of sampled steps, except counts: the errors of casts, the comparison of gradients with fp32, and
// the formats of matmul operands.
#include "experiments/training/model/matmul_formats.hpp"
#include "experiments/training/run/evaluator.hpp"
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/watch/cast_fidelity.hpp"
#include "experiments/training/run/watch/gradient_shadow.hpp"
#include "reports/rows/csv.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"
#include "tests/training/trained.hpp"

#include <fmt/format.h>

#include <cmath>
#include <random>

namespace fidelity_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;
using macheps::test::TinyRun;

namespace {

/// Casts x [rows, columns] by `rule` and returns the row that a probe records about this cast.
SiteRow row_of(const CastRule& rule, const std::vector<float>& x, std::int64_t columns,
               Contraction contraction = Contraction::last) {
    CpuBackend backend(1);
    Probe probe(backend);
    probe.begin(true, false);
    Rounder rounder(backend, 0);
    rounder.observe(&probe);
    rounder.begin(0, 0);
    Slot slot;
    slot.name = "site:forward.a";
    slot.rule = rule;
    Tensor in = backend.empty({static_cast<std::int64_t>(x.size()) / columns, columns}), buffer;
    backend.upload(x, in);
    rounder.apply(slot, {.view = in.view()}, buffer, contraction);
    return probe.site_rows("run", "policy", 0, 0).at(0);
}

CastRule scaled(Format format, const char* granularity, const char* rule) {
    return {.format = format,
            .overflow = Overflow::saturate,
            .granularity = find_granularity(granularity),
            .scale_rule = find_scale_rule(rule)};
}

std::vector<float> normal(std::size_t count, float spread = 1) {
    std::mt19937 random(7);
    std::normal_distribution<float> draw;
    std::vector<float> values(count);
    for (float& value : values) value = draw(random) * std::exp(spread * draw(random) - spread);
    return values;
}

}  // namespace

TEST_CASE("a cast is skipped only if it changes no value of the tensor's format", "[fidelity]") {
    const float infinite = std::numeric_limits<float>::infinity();
    CpuBackend backend(1);
    Rounder rounder(backend, 0);
    for (const Overflow overflow : {Overflow::nonsaturate, Overflow::saturate}) {
        for (const Format held : {fp16, bf16}) {
            Slot slot;
            slot.name = "site:forward.a";
            slot.rule = {.format = fp16, .overflow = overflow};
            Tensor in = backend.empty({1, 3}), buffer;
            backend.upload(std::vector<float>{infinite, -infinite, 1.0f}, in);
            const std::vector<float> out =
                test::values_of(backend, rounder.apply(slot, {.view = in.view(), .held = held}, buffer).view);
            const float limit = overflow == Overflow::saturate ? 65504.0f : infinite;
            CHECK(out == std::vector<float>{limit, -limit, 1.0f});
            CHECK(rounder.passes(slot, held) == (held == fp16 && overflow == Overflow::nonsaturate));
        }
    }
}

TEST_CASE("the errors of a cast are computed from its values", "[fidelity]") {
    // In e4m3fn, 464 is a tie that rounds to 448, and 465 overflows. 2^-9 is the smallest positive number, 1.5 times
    // 2^-9 is a tie that rounds to 2^-8, and 1 is exact.
    const SiteRow row = row_of({.format = e4m3fn, .overflow = Overflow::saturate},
                               {464, -465, 0x1p-9f, 0x1.8p-9f, -1, 0, 0x1p-10f, 1.0625f}, 8);
    CHECK(row.overflow == 2);
    CHECK(row.overflow_rounded.value() == 1);
    CHECK(row.to_subnormal == 2);
    CHECK(row.subnormal_inexact.value() == 1);
    CHECK_FALSE(row.block_flush.has_value());
    CHECK(row.dynamic_range.value() == Approx(std::log2(465.0) + 10));
    CHECK(row.headroom_bits.value() == Approx(std::log2(448 / 465.0)));
    // 464 and 465 become 448, two values are exact, 1.5 times 2^-9 grows by 1/3, 2^-10 underflows, and 1.0625 is a tie
    // that rounds to 1.
    const double errors[] = {16 / 464.0, 17 / 465.0, 0, 1 / 3.0, 0, 1, 0.0625 / 1.0625};
    double sum = 0;
    for (const double error : errors) sum += error;
    CHECK(row.rel_err_mean.value() == Approx(sum / 7));
    CHECK(row.rel_err_max.value() == 1);
    const double lost = -16.0 - 17 + 0x1p-10 - 0x1p-10 - 0.0625,
                 size = 464 + 465 + 0x1p-9 + 0x1.8p-9 + 1 + 0x1p-10 + 1.0625;
    CHECK(row.bias_rel.value() == Approx(lost / size));
}

TEST_CASE("values above the tie after the largest number overflow; the tie overflows if the largest number is odd",
          "[fidelity]") {
    struct Case {
        Format format;
        float first;  ///< the smallest magnitude that overflows
    };
    for (const Case& c :
         {Case{e4m3fn, std::nextafter(464.0f, 500.0f)}, Case{e5m2, 61440}, Case{e2m1fn, 7}, Case{fp16, 65520}}) {
        const CastRule rule{.format = c.format, .overflow = Overflow::saturate};
        CHECK(row_of(rule, {c.first, -c.first}, 2).overflow_rounded.value() == 2);
        CHECK(row_of(rule, {std::nextafter(c.first, 0.0f)}, 1).overflow_rounded.value() == 0);
    }
}

TEST_CASE("the statistics of a scaled cast describe the scaled values, for block scales and tensor scales",
          "[fidelity]") {
    const std::vector<float> x = normal(64 * 128, 2);
    const double largest = 448;
    // Computes the statistics from their definitions. The floor rule gives each block of 32 a power of two as its
    // scale. With these scales, the largest values of some blocks saturate.
    std::uint64_t beyond = 0, inexact = 0, flushed = 0;
    double most = 0, signed_error = 0, size = 0;
    for (std::size_t first = 0; first < x.size(); first += 32) {
        double amax = 0;
        for (std::size_t i = first; i < first + 32; ++i) amax = std::max(amax, std::abs(double{x[i]}));
        const double scale = std::exp2(8 - std::floor(std::log2(amax)));
        bool has_output = false;
        for (std::size_t i = first; i < first + 32; ++i) {
            const double z = x[i] * scale;
            const double q =
                decode64(e4m3fn, encode(e4m3fn, static_cast<float>(z), Round::nearest_even, Overflow::saturate));
            most = std::max(most, std::abs(z));
            beyond += std::abs(z) > 464 ? 1 : 0;
            inexact += q != 0 && std::abs(q) < 0x1p-6 && q != z ? 1 : 0;
            has_output |= q != 0;
            signed_error += (x[i] < 0 ? -1 : 1) * (q / scale - double{x[i]});
            size += std::abs(double{x[i]});
        }
        flushed += has_output ? 0 : 1;
    }
    REQUIRE(beyond > 10);
    REQUIRE(inexact > 10);
    const SiteRow row = row_of(scaled(e4m3fn, "mx32", "ao_floor"), x, 128);
    CHECK(row.overflow_rounded.value() == beyond);
    CHECK(row.subnormal_inexact.value() == inexact);
    CHECK(row.block_flush.value() == flushed);
    CHECK(row.headroom_bits.value() == Approx(std::log2(largest / most)));
    CHECK(row.bias_rel.value() == Approx(signed_error / size));
    // If scales are rounded up, no value saturates. A single scale for the whole tensor maps the amax to the largest
    // number of the format. Apart from the rounding of the scale, no headroom remains.
    CHECK(row_of(scaled(e4m3fn, "mx32", "ao_rceil"), x, 128).overflow_rounded.value() == 0);
    CHECK(row_of(scaled(e4m3fn, "mx32", "ao_rceil"), x, 128).headroom_bits.value() >= 0);
    CHECK(row_of(scaled(e4m3fn, "tensor", "ao_fp8"), x, 128).headroom_bits.value() == Approx(0).margin(1e-6));
    CHECK(row_of(scaled(e4m3fn, "tensor", "ao_fp8"), x, 128).block_flush.value() == 0);
}

TEST_CASE("a block counts as flushed if it has nonzero inputs and all of its outputs are zero", "[fidelity]") {
    // In NVFP4, a block whose amax is at most 2^-20 times the tensor's amax has a scale of 0.
    std::vector<float> x(4 * 32, 0.0f);
    x[0] = 1;                                           // block 0 of row 0
    for (int i = 0; i < 16; ++i) x[32 + i] = 0x1p-22f;  // block 0 of row 1: flushed
    x[64 + 20] = 0x1p-22f;                              // block 1 of row 2: flushed
    x[96 + 3] = 0x1p-4f;                                // kept; all other blocks are zero, so they lose nothing
    const CastRule rule = scaled(e2m1fn, "nvfp4", "te_nvfp4");
    CHECK(row_of(rule, x, 32).block_flush.value() == 2);
    // Along the first axis, a block is one column of the four rows. The 1 keeps column 0, and 2^-4 keeps column 3. The
    // small values of row 1 are lost in the other 14 of its 16 columns, and the small value of row 2 in column 20.
    CHECK(row_of(rule, x, 32, Contraction::first).block_flush.value() == 15);
}

TEST_CASE("decode scales are counted by their exponents", "[fidelity]") {
    std::vector<float> x(4 * 32, 0.5f);
    x[5] = 448, x[32] = -448, x[64 + 31] = 7;
    std::fill(x.begin() + 96, x.end(), 0.0f);
    CHECK(row_of(scaled(e4m3fn, "mx32", "te_mxfp8"), x, 32).scale_exp_hist.value() == "-127:1;-6:1;0:2");
    CHECK(row_of(scaled(e4m3fn, "mx32", "te_mxfp8"), x, 128).scale_exp_hist.value() == "-127:1;-6:1;0:2");
    CHECK(row_of(scaled(e4m3fn, "tensor", "te_current"), x, 32).scale_exp_hist.value() == "0:1");
    CHECK(row_of(scaled(e2m1fn, "nvfp4", "te_nvfp4"), x, 32).scale_exp_hist.value() == "zero:2;-4:3;0:1;6:2");
    x[5] = std::numeric_limits<float>::quiet_NaN();
    CHECK(row_of(scaled(e4m3fn, "mx32", "ao_rceil"), x, 32).scale_exp_hist.value() == "-127:1;-6:1;0:1;nan:1");
    CHECK_FALSE(row_of({.format = bf16}, x, 32).scale_exp_hist.has_value());
}

TEST_CASE("the errors for normally distributed numbers agree with published values", "[fidelity]") {
    const std::vector<float> x = normal(256 * 1024, 0);
    const SiteRow tensor = row_of(scaled(e4m3fn, "tensor", "ao_fp8"), x, 1024);
    CHECK(tensor.sqnr_db.value() == Approx(31.54).margin(0.05));
    CHECK(tensor.proj.value() - 1 == Approx(-8e-4).margin(2e-4));
    const SiteRow ceil = row_of(scaled(e4m3fn, "mx32", "ao_rceil"), x, 1024),
                  floor = row_of(scaled(e4m3fn, "mx32", "ao_floor"), x, 1024);
    CHECK(ceil.sqnr_db.value() == Approx(31.53).margin(0.05));
    CHECK(floor.sqnr_db.value() == Approx(30.64).margin(0.05));
    CHECK(floor.proj.value() - 1 == Approx(-2.8e-3).margin(2e-4));
    CHECK(floor.bias_rel.value() < ceil.bias_rel.value());  // saturation shrinks values
}

TEST_CASE("an fp32 policy has no gradient error, and statistics of other policies agree with a direct computation",
          "[fidelity]") {
    const auto shadowed = [](const char* name) {
        TinyRun run(load_policy(name));
        CpuBackend backend(1);
        const RunSetup setup{.policy = run.resolved,
                             .fp32 = run.fp32_policy,
                             .model = run.model,
                             .options = run.run_options,
                             .data = run.data,
                             .seed = 0,
                             .drawn = run.run_options.batch};
        Evaluator evaluator(run.backend, setup, 1);
        GradientShadow shadow(run.backend, setup, evaluator.fp32_model(), run.step);
        run.step.attach(shadow);
        run.next();
        run.step.release();
        REQUIRE(shadow.result().has_value());
        return *shadow.result();
    };
    const GradientFidelity same = shadowed("fp32");
    CHECK(same.cosine == 1);
    CHECK(same.proj == 1);
    CHECK(same.min_cosine == 1);
    CHECK(std::isinf(same.snr_db));

    const GradientFidelity bf16_like = shadowed("amp-bf16"), fp8 = shadowed("fp8-tensorwise");
    CHECK(bf16_like.cosine > 0.9999);
    CHECK(bf16_like.cosine < 1);
    CHECK(fp8.cosine < bf16_like.cosine);
    CHECK(fp8.cosine > 0.998);                 // the embedding's gradient is not fp8
    CHECK(fp8.snr_db < bf16_like.snr_db - 8);  // fp8 has four bits fewer, but at most two of them affect the SNR
    CHECK(fp8.min_cosine < fp8.cosine);
    CHECK(fp8.min_parameter.starts_with("block."));

    // Computes the statistics independently from the gradients of fp32 and of the policy, in a step without clipping.
    TrainOptions options = TinyRun::tiny_options();
    options.clip = 0;
    TinyRun exact(load_policy("fp32"), ModelKind::gpt2, options),
        low(load_policy("fp8-tensorwise"), ModelKind::gpt2, options);
    exact.next(), low.next();
    double xx = 0, yy = 0, xy = 0, error = 0;
    for (const Parameter& parameter : exact.sites.parameters) {
        const std::vector<float> x = exact.gradient(parameter.name), y = low.gradient(parameter.name);
        for (std::size_t i = 0; i < x.size(); ++i) {
            xx += double{x[i]} * x[i], yy += double{y[i]} * y[i], xy += double{x[i]} * y[i];
            error += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
        }
    }
    CHECK(fp8.cosine == Approx(xy / std::sqrt(xx * yy)).epsilon(1e-9));
    CHECK(fp8.proj == Approx(xy / xx).epsilon(1e-9));
    CHECK(fp8.snr_db == Approx(10 * std::log10(xx / error)).epsilon(1e-6));
}

TEST_CASE("the first diverging site is the first site whose values are far from those of fp32", "[fidelity]") {
    const auto sites_of = [](const std::string& rule) {
        TinyRun run(parse_policy("extends = \"fp32\"\n" + rule, "mine.toml"));
        const RunSetup setup{.policy = run.resolved,
                             .fp32 = run.fp32_policy,
                             .model = run.model,
                             .options = run.run_options,
                             .data = run.data,
                             .seed = 0,
                             .drawn = run.run_options.batch};
        Evaluator evaluator(run.backend, setup, 1);
        GradientShadow shadow(run.backend, setup, evaluator.fp32_model(), run.step);
        run.step.attach(shadow);
        run.next();
        run.step.release();
        return shadow.divergence();
    };
    CHECK(sites_of("").first.empty());
    CHECK(sites_of("").distance == 0);
    // The outputs of block.1.mlp.up are so small that they are lost if they are rounded to e2m1fn without a scale. If
    // its operands are cast to e4m3fn with a scale, three fraction bits remain, and all values stay close to fp32.
    const std::string up = "[[rule]]\nsites = \"block.1.mlp.up\"\n";
    const SiteDivergence lost = sites_of(up + "forward = { out = \"e2m1fn\" }\n");
    CHECK(lost.first == "block.1.mlp.up:forward.out");
    CHECK(lost.distance >= 1);
    const SiteDivergence close = sites_of(up + "forward = { a = \"e4m3fn/tensor\", b = \"e4m3fn/tensor\" }\n");
    CHECK(close.first.empty());
    CHECK(close.distance > 0);
    // The first diverging site can be a gradient. The forward pass is then the same as in fp32.
    CHECK(sites_of(up + "input_grad = { out = \"e2m1fn\" }\n").first == "block.1.mlp.up:input_grad.out");
}

TEST_CASE("comparing gradients with fp32 does not depend on the loss scale, token weight, micro-batches or ranks",
          "[fidelity]") {
    const test::TemporaryFolder folder;
    Experiment experiment;
    for (const char* name : {"fp32", "static-1024", "amp-bf16"}) experiment.policies.push_back(load_policy(name));
    experiment.model = test::tiny_model(ModelKind::gpt2);
    experiment.options = TinyRun::tiny_options();
    experiment.options.steps = 4;
    experiment.options.batch = 4;
    experiment.options.micro_batches = 2;
    experiment.options.ranks = 2;
    experiment.options.token_weight = 0x1p-3;
    experiment.options.probe_every = 2;
    experiment.options.eval_batches = 1;
    const std::atomic<bool> never{false};
    const auto steps_of = [&](std::int64_t probe_every) {
        experiment.options.probe_every = probe_every;
        experiment.directory = folder / std::to_string(probe_every);
        experiment.hash_sites = true;
        CpuBackend backend(1);
        run_experiment(backend, experiment, {}, never);
        return CsvReader<StepRow>(experiment.directory / StepRow::file).rows();
    };
    const std::vector<StepRow> sampled = steps_of(2), counted = steps_of(0);
    REQUIRE(sampled.size() == 12);
    for (std::size_t i = 0; i < sampled.size(); ++i) {
        const StepRow& row = sampled[i];
        CAPTURE(row.run, row.step);
        // Gradients are compared with fp32 only in sampled steps, and only for policies other than fp32.
        CHECK(row.grad_cosine.has_value() == (row.policy != "fp32" && row.step % 2 == 0));
        if (row.grad_cosine) {
            CHECK(*row.grad_cosine > 0.999);
            CHECK(row.grad_proj.value() == Approx(1).margin(0.01));
            CHECK(row.grad_least_parameter.has_value());
            CHECK(row.farthest_distance.value() < 0.2);
            CHECK(row.farthest_distance.value() > 0);
            CHECK(row.first_diverging_site.value_or("").empty());
        }
        CHECK(row.effective_lr.value() == Approx(double{row.lr} * row.update_eff.value()).epsilon(1e-6));
        CHECK(row.update_stagnation.value() >= 0);
        CHECK(row.loss == counted[i].loss);
        CHECK_FALSE(counted[i].grad_cosine.has_value());
    }
    // Sampling did not change a bit of any tensor in any step.
    CHECK(csv::read_text(folder / "2/hashes.csv") == csv::read_text(folder / "0/hashes.csv"));
}

TEST_CASE("the multiply-adds of a step are counted by the formats of its matmuls' operands", "[fidelity]") {
    const ModelConfig model = test::tiny_model(ModelKind::gpt2);
    const SiteList sites = model_sites(model);
    const auto formats = [&](const char* policy) {
        return matmul_formats(model, sites, resolve(load_policy(policy), sites));
    };
    const std::int64_t c = model.width, t = model.context, layers = model.layers;
    const std::int64_t hidden = 3 * t * layers * 12 * c * c, attention = 3 * layers * 2 * t * t * c,
                       head = 3 * t * model.vocabulary * c;
    CHECK(formats("fp32") == fmt::format("fp32*fp32:{}", hidden + attention + head));
    CHECK(formats("tf32") == fmt::format("tf32*tf32:{}", hidden + attention + head));
    // The forward pass multiplies e4m3 by e4m3, and both gradients multiply e5m2 by e4m3. Attention and head use bf16.
    CHECK(formats("fp8-tensorwise") ==
          fmt::format("e4m3fn*e4m3fn:{};e5m2*e4m3fn:{};bf16*bf16:{}", hidden / 3, hidden / 3 * 2, attention + head));
    // Only scales of blocks that a matrix unit applies are part of the text.
    CHECK(formats("te-nvfp4").find("e2m1fn/nvfp4") != std::string::npos);
    CHECK(formats("dsv3").find('/') == std::string::npos);
    const auto hidden_on = [&](const std::string& machine) {
        const std::string a_and_b = "a = \"e4m3fn/mx32\", b = \"e4m3fn/mx32\", machine = \"" + machine + "\"";
        const std::string text = "name = \"mx\"\n[[rule]]\nsites = \"block.*.mlp.up\"\nforward = { " + a_and_b + " }\n";
        return matmul_formats(model, sites, resolve(parse_policy(text, "mx.toml"), sites));
    };
    CHECK(hidden_on("sm100.tcgen05.mxfp8").find("e4m3fn/mx32*e4m3fn/mx32:") != std::string::npos);
    CHECK(hidden_on("fp32.chain").find("e4m3fn/mx32*e4m3fn/mx32:") != std::string::npos);
    CHECK(hidden_on("sm90.wgmma.fp8").find("e4m3fn*e4m3fn:") != std::string::npos);  // software applies the scales
}

}  // namespace fidelity_test
