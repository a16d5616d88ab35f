// SPDX-License-Identifier: Apache-2.0
// What recipes do to the gradients and to the loss of a small transformer, beside the figures of the specification's prototype
// (fp8-recipes 10.2 and 10.3): its model T128, its language, the same settings; other random numbers and another order of sums.
#include "experiments/train/evaluator.hpp"
#include "experiments/train/gradient_shadow.hpp"
#include "reports/student.hpp"
#include "tests/experiments/trained.hpp"
#include "tests/test.hpp"

#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace macheps;

namespace {

/// Of every token: with 0.45 one of four successors of the last one, with 0.40 the first successor of the last but one by a
/// second table, else any.
class PrototypeLanguage final : public Data {
  public:
    PrototypeLanguage() {
        std::mt19937 random(0);
        for (auto* table : {&first_, &second_}) {
            for (std::int32_t& token : *table) token = static_cast<std::int32_t>(random() % 64);
        }
    }
    Batch batch(Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                std::int64_t context) const override {
        std::seed_seq words{static_cast<std::uint32_t>(split == Split::train ? 1 : 2), static_cast<std::uint32_t>(seed), step};
        std::mt19937 random(words);
        Batch made;
        for (std::int64_t sample = 0; sample < batch; ++sample) {
            std::int32_t before = 0, last = 0;
            for (std::int64_t t = -2; t <= context; ++t) {
                const std::uint32_t choice = random() % 100, word = random();
                std::int32_t next = static_cast<std::int32_t>(word % 64);
                if (choice < 45) {
                    next = first_[static_cast<std::size_t>(last * 4) + word % 4];
                } else if (choice < 85) {
                    next = second_[static_cast<std::size_t>(before * 4)];
                }
                if (t >= 0 && t < context) made.tokens.push_back(next);
                if (t >= 1) made.targets.push_back(next);
                before = last;
                last = next;
            }
        }
        made.entropy_floor = std::nan("");
        return made;
    }
    std::int64_t vocabulary() const override { return 64; }
    std::string describe() const override { return "the prototype's language"; }

  private:
    std::array<std::int32_t, 256> first_{}, second_{};
};

const std::string linears = "sites = \"block.*.{attn.qkv,attn.proj,mlp.up,mlp.down}\"\n";

Policy named(const std::string& name) { return load_policy(name); }

/// The recipe with what a rule says besides.
Policy changed(const std::string& base, const std::string& rule) {
    return parse_policy("extends = \"" + base + "\"\n[[rule]]\n" + linears + rule, base + " and a rule");
}

/// All operands of all three matmuls by `text`; gradients by `gradient`.
Policy all_by(const std::string& text, const std::string& gradient) {
    const auto key = [](const char* matmul, const std::string& a, const std::string& b, const char* more = "") {
        return std::string(matmul) + " = { a = \"" + a + "\", b = \"" + b + "\"" + more + " }\n";
    };
    return changed("amp-bf16", key("forward", text, text) + key("input_grad", gradient, text) +
                                   key("weight_grad", gradient, text, ", out = \"fp32\""));
}

Policy current_with_e4m3() {
    return changed("te-current",
                   "input_grad = { a = \"e4m3fn/tensor:te_current\" }\nweight_grad = { a = \"e4m3fn/tensor:te_current\" }\n");
}
Policy nvfp4_without_stochastic() {
    return changed("te-nvfp4", "input_grad = { a = \"e2m1fn/nvfp4\" }\nweight_grad = { a = \"e2m1fn/nvfp4:hadamard\" }\n");
}
Policy nvfp4_without_hadamard() {
    return changed("te-nvfp4",
                   "weight_grad = { a = \"e2m1fn/nvfp4:stochastic:random_bits=8\", b = \"e2m1fn/nvfp4\" }\n");
}
Policy nvfp4_with_flat_weights() {
    return changed("te-nvfp4", "forward = { b = \"e2m1fn/nvfp4\" }\ninput_grad = { b = \"e2m1fn/nvfp4\" }\n");
}
Policy nvfp4_plain() { return all_by("e2m1fn/nvfp4", "e2m1fn/nvfp4"); }
Policy mxfp4(const std::string& rule, bool stochastic) {
    const std::string text = "e2m1fn/mx32:" + rule;
    return all_by(text, stochastic ? text + ":stochastic:random_bits=8" : text);
}

ModelConfig t128() {
    return {.layers = 2,
            .width = 128,
            .heads = 4,
            .context = 64,
            .vocabulary = 64,
            .hidden = 512,
            .tied = false,
            .activation = elementwise::GeluTanh{}};
}

TrainOptions t128_options() {
    TrainOptions o;
    o.steps = 300;
    o.batch = 16;
    o.lr = o.min_lr = 2e-3;
    return o;
}

/// A model under a policy.
struct Run {
    explicit Run(const Policy& policy, std::int64_t seed = 0)
        : sites(model_sites(model)),
          resolved(resolve(policy, sites)),
          fp32(resolve(load_policy("fp32"), sites)),
          options(options_under(policy.training, t128_options())),
          setup{.policy = resolved,
                .fp32 = fp32,
                .model = model,
                .options = options,
                .data = data,
                .seed = seed,
                .drawn = options.batch},
          step(backend, setup) {}

    static inline const PrototypeLanguage data{};
    CpuBackend backend{1};
    ModelConfig model = t128();
    SiteList sites;
    ResolvedPolicy resolved, fp32;
    TrainOptions options;
    RunSetup setup;
    Step step;
};

/// The gradient of step `at` beside fp32's, of the weights in `start`, or of the first ones.
GradientFidelity gradient_of(const Policy& policy, std::int64_t at, const Checkpoint* start) {
    Run run(policy);
    if (start != nullptr) run.step.load(*start);
    Evaluator evaluator(run.backend, run.setup, 1);
    GradientShadow shadow(run.backend, run.setup, evaluator.fp32_model(), run.step);
    run.step.attach(shadow);
    run.step.run(at, Sampling::counts);
    run.step.release();
    REQUIRE(shadow.result().has_value());
    return *shadow.result();
}

/// Figures of a line, once with the first weights and once after 150 steps of fp32; 0 where it has none.
struct Figures {
    double cosine, snr_db, proj;
};

}  // namespace

TEST_CASE("10.2: recipes leave of fp32's gradient what the specification's prototype measured", "[recipe]") {
    struct Line {
        const char* name;
        Policy policy;
        Figures first, trained;
    };
    const std::vector<Line> lines{
        {"bf16 only", named("amp-bf16"), {0.99999, 48.7, 1.000}, {0.99999, 46.7, 1.000}},
        {"te_current (e5m2 grads)", named("te-current"), {0.9977, 23.4, 0.994}, {0.9973, 22.6, 0.991}},
        {"current, e4m3 grads", current_with_e4m3(), {0.9985, 25.2, 0.999}, {0.9985, 25.2, 1.000}},
        {"ao_rowwise", named("ao-rowwise"), {0.9985, 25.2, 0.995}, {0.9983, 24.8, 0.994}},
        {"te_block", named("te-block"), {0.9985, 25.2, 0.995}, {0.9983, 24.8, 0.994}},
        {"mxfp8 RCEIL", named("te-mxfp8"), {0.9985, 25.2, 0.995}, {0.9983, 24.8, 0.994}},
        {"ao_rowwise_gw_hp", named("ao-rowwise-gw-hp"), {0.9988, 26.2, 0.997}, {0.9989, 26.6, 0.997}},
        {"mxfp8 FLOOR", named("ao-mxfp8-floor"), {0.9980, 23.9, 0.989}, {0.9970, 22.1, 0.986}},
        {"nvfp4 full", named("te-nvfp4"), {0.974, 12.8, 0}, {0.968, 0, 0.971}},
        {"nvfp4 no SR", nvfp4_without_stochastic(), {0.977, 13.5, 0}, {0.973, 0, 0.967}},
        {"nvfp4 no RHT", nvfp4_without_hadamard(), {0.974, 12.8, 0}, {0.969, 0, 0.974}},
        {"nvfp4 1-D W", nvfp4_with_flat_weights(), {0.978, 13.5, 0}, {0.972, 0, 0.975}},
        {"mxfp4 RCEIL", mxfp4("ao_rceil", false), {0.970, 0, 0.944}, {0.958, 0, 0.947}},
        {"mxfp4 FLOOR", mxfp4("ao_floor", false), {0.970, 0, 0.914}, {0.928, 0, 0.893}},
        {"mxfp4 RCEIL+SR", mxfp4("ao_rceil", true), {0.966, 0, 0.964}, {0.951, 0, 0.979}},
    };
    Run fp32(load_policy("fp32"));
    for (int step = 0; step < 150; ++step) fp32.step.run(step, Sampling::counts);
    Checkpoint trained;
    fp32.step.save(trained);
    std::map<std::string, std::array<GradientFidelity, 2>> found;
    for (const Line& line : lines) {
        found[line.name] = {gradient_of(line.policy, 0, nullptr), gradient_of(line.policy, 150, &trained)};
    }
    for (const Line& line : lines) {
        for (const bool is_trained : {false, true}) {
            const GradientFidelity& f = found[line.name][is_trained ? 1 : 0];
            const Figures& wanted = is_trained ? line.trained : line.first;
            CAPTURE(line.name, is_trained, f.cosine, f.snr_db, f.proj);
            // Another sample of weights and tokens moves the noise by some tenths of its size, and here the gradients of
            // the embedding and the head count, which no recipe touches; amp-bf16 rounds those of attention and head too.
            CHECK(1 - f.cosine > (1 - wanted.cosine) / 1.5 - 6e-6);
            CHECK(1 - f.cosine < (1 - wanted.cosine) * 1.5 + 1.2e-5);
            if (wanted.snr_db > 0) CHECK(std::fabs(f.snr_db - wanted.snr_db) < (wanted.snr_db > 40 ? 3.0 : 1.6));
            if (wanted.proj > 0) CHECK(std::fabs(f.proj - wanted.proj) < 0.004 + 0.55 * std::fabs(1 - wanted.proj));
        }
    }
    // "SR lowers cosine and SNR but raises proj": of NVFP4's and MXFP4's gradients; FLOOR shows as low proj.
    for (const int i : {0, 1}) {
        const auto at = [&](const char* name) { return found.at(name)[static_cast<std::size_t>(i)]; };
        CHECK(at("nvfp4 full").cosine < at("nvfp4 no SR").cosine);
        CHECK(at("mxfp4 RCEIL+SR").cosine < at("mxfp4 RCEIL").cosine);
        CHECK(at("mxfp4 RCEIL+SR").proj > at("mxfp4 RCEIL").proj);
        // Of the first weights e2m1's FLOOR leaves as much as RCEIL here; trained ones tell them apart.
        if (i == 1) CHECK(at("mxfp4 FLOOR").proj < at("mxfp4 RCEIL").proj - 0.02);
        CHECK(at("mxfp8 FLOOR").proj < at("mxfp8 RCEIL").proj);
        CHECK(at("te_current (e5m2 grads)").snr_db < at("current, e4m3 grads").snr_db);
    }
}

namespace {

/// What one run gave: the mean loss of the last 50 of 300 steps, and the underflows of X, W and dY in percent.
struct Trained {
    double loss = 0;
    std::array<double, 3> underflow{};
};

/// Steps whose casts are counted site by site: the first, which is like no other, and every thirtieth.
Trained train(const Policy& policy, std::int64_t seed) {
    Run run(policy, seed);
    Trained trained;
    std::array<double, 3> first{}, later{};
    int samples = 0;
    for (std::int64_t step = 0; step < run.options.steps; ++step) {
        const bool is_sampled = step % 30 == 0;
        const StepResult result = run.step.run(step, is_sampled ? Sampling::sites : Sampling::counts);
        if (step >= run.options.steps - 50) trained.loss += result.loss / 50;
        if (!is_sampled) continue;
        std::array<double, 3> lost{}, count{};
        for (const SiteRow& row : run.step.probe().site_rows("", "", 0, step)) {
            const std::array<const char*, 3> slots{":forward.a", ":forward.b", ":input_grad.a"};
            for (std::size_t i = 0; i < slots.size(); ++i) {
                if (!row.site.starts_with("block.") || !row.site.ends_with(slots[i])) continue;
                if (row.site.find("attn.scores") != std::string::npos || row.site.find("attn.mix") != std::string::npos) continue;
                lost[i] += static_cast<double>(row.underflow);
                count[i] += static_cast<double>(row.count);
            }
        }
        for (std::size_t i = 0; i < 3; ++i) {
            if (count[i] > 0) (step == 0 ? first : later)[i] += 100 * lost[i] / count[i];
        }
        samples += step == 0 ? 0 : 1;
    }
    const auto steps = static_cast<double>(run.options.steps);
    for (std::size_t i = 0; i < 3; ++i) trained.underflow[i] = (first[i] + (steps - 1) * later[i] / samples) / steps;
    return trained;
}

}  // namespace

TEST_CASE("10.3: 300 steps under recipes end as far from fp32 as the specification's prototype", "[recipe][slow]") {
    struct Line {
        const char* name;
        Policy policy;
        double gap, half_width;
        std::array<double, 3> underflow;
        int bits;
    };
    const std::vector<Line> lines{
        {"bf16, no fp8", named("amp-bf16"), 0.0000, 0.0001, {-1, -1, -1}, 16},
        {"current, e4m3 grads", current_with_e4m3(), 0.0004, 0.0008, {0.002, 0.001, 0.04}, 8},
        {"ao_rowwise_gw_hp", named("ao-rowwise-gw-hp"), 0.0004, 0.0002, {0.001, 0.001, 0.015}, 8},
        {"ao_rowwise", named("ao-rowwise"), 0.0006, 0.0009, {0.001, 0.001, 0.018}, 8},
        {"mxfp8 RCEIL", named("te-mxfp8"), 0.0006, 0.0005, {0.001, 0.001, 0.009}, 8},
        {"te_current (e5m2 grads)", named("te-current"), 0.0008, 0.0004, {0.002, 0.001, 0.001}, 8},
        {"te_block", named("te-block"), 0.0009, 0.0004, {0.001, 0, 0.012}, 8},
        {"te_delayed max 1024", named("te-delayed"), 0.0012, 0.0008, {0.004, 0.02, 0.14}, 8},
        {"te_delayed most_recent 16", changed("te-delayed", "recipe = \"te-delayed:most_recent:history=16\"\n"), 0.0013, 0.0015,
         {0.004, 0.02, 0.14}, 8},
        {"mxfp8 FLOOR", named("ao-mxfp8-floor"), 0.0014, 0.0008, {0.001, 0.001, 0.009}, 8},
        {"nvfp4 no SR", nvfp4_without_stochastic(), 0.0081, 0.0030, {7.3, 10.1, 9.1}, 4},
        {"nvfp4 1-D W", nvfp4_with_flat_weights(), 0.0086, 0.0006, {7.3, 6.7, 8.9}, 4},
        {"nvfp4 plain", nvfp4_plain(), 0.0086, 0.0051, {7.3, 6.7, 12.6}, 4},
        {"nvfp4 full", named("te-nvfp4"), 0.0092, 0.0043, {7.3, 10.1, 8.9}, 4},
        {"nvfp4 no RHT", nvfp4_without_hadamard(), 0.0097, 0.0017, {7.2, 10.1, 12.2}, 4},
        {"mxfp4 RCEIL", mxfp4("ao_rceil", false), 0.0138, 0.0044, {13.0, 11.0, 20.1}, 4},
        {"mxfp4 FLOOR", mxfp4("ao_floor", false), 0.0155, 0.0025, {-1, -1, -1}, 4},
        {"mxfp4 RCEIL+SR", mxfp4("ao_rceil", true), 0.0165, 0.0080, {-1, -1, -1}, 4},
    };
    constexpr std::int64_t seeds = 4;
    std::array<double, seeds> base{};
    double base_mean = 0;
    for (std::int64_t seed = 0; seed < seeds; ++seed) {
        base[static_cast<std::size_t>(seed)] = train(load_policy("fp32"), seed).loss;
        base_mean += base[static_cast<std::size_t>(seed)] / seeds;
    }
    std::cout << "fp32: " << base_mean << " nats" << std::endl;
    CHECK(std::fabs(base_mean - 2.3666) < 0.1);  // another draw of the language's tables
    double worst_of_eight = 0, best_of_four = 1;
    for (const Line& line : lines) {
        std::vector<double> gaps;
        std::array<double, 3> underflow{};
        for (std::int64_t seed = 0; seed < seeds; ++seed) {
            const Trained run = train(line.policy, seed);
            gaps.push_back(run.loss - base[static_cast<std::size_t>(seed)]);
            for (std::size_t i = 0; i < 3; ++i) underflow[i] += run.underflow[i] / seeds;
        }
        const PairedMean gap = paired_mean(gaps);
        std::cout << line.name << ": gap " << gap.mean << " +- " << *gap.half_width_95 << ", underflow " << underflow[0] << " / "
                  << underflow[1] << " / " << underflow[2] << std::endl;
        CAPTURE(line.name, gap.mean, *gap.half_width_95, underflow[0], underflow[1], underflow[2]);
        // Two means of four seeds each: their difference has the half widths of both, added at the worst.
        CHECK(std::fabs(gap.mean - line.gap) < line.half_width + *gap.half_width_95);
        // Bounds of a healthy run (fp8-recipes 7).
        CHECK(gap.mean < (line.bits == 4 ? 0.015 : 0.0025) * base_mean);
        if (line.bits == 8) worst_of_eight = std::max(worst_of_eight, gap.mean);
        if (line.bits == 4) best_of_four = std::min(best_of_four, gap.mean);
        for (std::size_t i = 0; i < 3; ++i) {
            if (line.underflow[i] < 0) continue;
            // In 8 bits they are a few in 10^5, and differ from sample to sample.
            const double slack = line.bits == 4 ? 0.12 * line.underflow[i] : 0.004 + 0.8 * line.underflow[i];
            CHECK(std::fabs(underflow[i] - line.underflow[i]) < slack);
        }
    }
    // "8-bit versus 4-bit separates by a factor of about 10 and without overlap."
    CHECK(best_of_four > 2 * worst_of_eight);
}
