// SPDX-License-Identifier: Apache-2.0
// A synthetic run directory whose curves look like those of real training. It is computed with basic arithmetic and
// ldexp, so its bytes are the same on every machine.
#pragma once
#include "reports/rows/csv.hpp"
#include "tests/scratch.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace macheps::test {

/// A made-up policy. Its gap to fp32 converges to `bias`. A loss scale of 0 means no loss scaling. The policy diverges
/// at step `breaks`; -1 means never.
struct SamplePolicy {
    std::string name;
    std::string format = "fp32";
    double bias = 0, underflow = 0, lost = 0, efficiency = 1;
    float loss_scale = 0;
    std::int64_t breaks = -1;
    double memory = 1, slowdown = 1;
};

inline std::vector<SamplePolicy> sample_policies() {
    return {
        {.name = "fp32"},
        {.name = "amp-bf16", .format = "bf16", .bias = 1e-4, .memory = 0.8, .slowdown = 1.4},
        {.name = "amp-fp16",
         .format = "fp16",
         .bias = 2e-4,
         .underflow = 2e-3,
         .loss_scale = 65536,
         .memory = 0.8,
         .slowdown = 1.5},
        {.name = "pure-bf16",
         .format = "bf16",
         .bias = 0.04,
         .lost = 0.3,
         .efficiency = 0.93,
         .memory = 0.5,
         .slowdown = 1.2},
        {.name = "fp16-no-scaler", .format = "fp16", .bias = 0.12, .underflow = 0.3, .memory = 0.5, .slowdown = 1.2},
        {.name = "fp8-tensorwise",
         .format = "e4m3fn",
         .bias = 2e-3,
         .underflow = 0.012,
         .memory = 0.7,
         .slowdown = 1.9},
        {.name = "fp8-e5m2 <b>&\"</script>",
         .format = "e5m2",
         .bias = 8e-3,
         .underflow = 1e-4,
         .memory = 0.7,
         .slowdown = 1.8},
        {.name = "fp16-broken", .format = "fp16", .bias = 0, .underflow = 0.02, .breaks = 200, .memory = 0.5}};
}

struct SampleOptions {
    std::vector<SamplePolicy> policies = sample_policies();
    std::int64_t steps = 300, seeds = 1, layers = 2, sample_every = 10, first_seed = 0;
    bool with_manifest = true;
};

/// Returns a number from -1 to 1 that depends on (policy, seed, step, purpose).
inline double sample_noise(std::uint64_t policy, std::uint64_t seed, std::uint64_t step, std::uint64_t purpose) {
    std::uint64_t x = policy * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u + step * 0x94d049bb133111ebu + purpose;
    for (int i = 0; i < 3; ++i) x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return double(x >> 11) * 0x1p-52 - 1;
}

/// Writes the run directory `folder`.
inline void write_sample_run(const std::filesystem::path& folder, const SampleOptions& options = {}) {
    std::filesystem::create_directories(folder);
    reports::CsvWriter<reports::RunRow> runs{folder / reports::RunRow::file};
    reports::CsvWriter<reports::StepRow> steps{folder / reports::StepRow::file};
    reports::CsvWriter<reports::EvalRow> evals{folder / reports::EvalRow::file};
    reports::CsvWriter<reports::SiteRow> sites{folder / reports::SiteRow::file};
    reports::CsvWriter<reports::ExponentRow> exponents{folder / reports::ExponentRow::file};
    const std::vector<std::string> kinds{"attn.qkv:forward.a",     "attn.qkv:forward.b",     "attn.qkv:input_grad.a",
                                         "attn.qkv:weight_grad.a", "attn.scores:forward.a",  "attn.softmax:forward.out",
                                         "attn.proj:forward.a",    "attn.proj:input_grad.a", "mlp.up:forward.a",
                                         "mlp.up:forward.b",       "mlp.up:input_grad.a",    "mlp.up:weight_grad.a",
                                         "mlp.act:forward.out",    "mlp.down:forward.a",     "mlp.down:input_grad.a"};
    for (std::int64_t seed = options.first_seed; seed < options.first_seed + options.seeds; ++seed) {
        std::vector<double> baseline;
        for (std::size_t p = 0; p < options.policies.size(); ++p) {
            const SamplePolicy& policy = options.policies[p];
            const std::string run = policy.name + "." + std::to_string(seed);
            float scale = policy.loss_scale > 0 ? policy.loss_scale * 16 : 1;
            double best = INFINITY, last = 0;
            std::int64_t growth = 0, skipped = 0, diverged = -1;
            for (std::int64_t step = 1; step <= options.steps; ++step) {
                const double t = double(step);
                const double shared =
                    2.25 + 1.9 / (1 + t / 25) + 0.05 * sample_noise(99, std::uint64_t(seed), std::uint64_t(step), 1);
                const double own = p == 0 ? 0 : 0.002 * sample_noise(p, std::uint64_t(seed), std::uint64_t(step), 2);
                double loss = shared + own + policy.bias * (t / (t + 60)) +
                              (p == 0 ? 0 : 0.0008 * sample_noise(p, std::uint64_t(seed), 0, 3));
                if (policy.breaks >= 0 && step >= policy.breaks) loss = NAN, diverged = policy.breaks;
                if (p == 0) baseline.push_back(loss);
                const bool is_skipped = policy.loss_scale > 0 && (step <= 4 || step == 120 || step == 121);
                reports::StepRow row{
                    .run = run, .policy = policy.name, .seed = seed, .step = step, .tokens = step * 512};
                row.loss = loss;
                row.loss_rounded = float(loss);
                row.baseline_loss = baseline[std::size_t(step - 1)];
                row.gap = row.loss - *row.baseline_loss;
                row.grad_norm = is_skipped ? INFINITY : float(0.8 + 1.2 / (1 + t / 40));
                row.update_norm = is_skipped ? 0.0f : 0.01f;
                row.lr = float(1e-3 * std::min(1.0, t / 20));
                row.loss_scale = scale;
                row.growth_tracker = growth;
                row.skipped = is_skipped;
                row.overflow_site = is_skipped ? "block.1.mlp.up:input_grad.out" : "";
                row.underflow = std::uint64_t(policy.underflow * 1e5);
                row.lost_updates = is_skipped ? 0 : std::uint64_t(policy.lost * 110000 * (1 + 0.4 * t / (t + 100)));
                if (!is_skipped) {
                    row.update_eff =
                        policy.efficiency + (policy.efficiency < 1 ? 0.01 : 1e-7) *
                                                sample_noise(p, std::uint64_t(seed), std::uint64_t(step), 4);
                }
                steps.append(row);
                last = row.loss, best = row.loss < best ? row.loss : best;
                skipped += is_skipped;
                growth = is_skipped ? 0 : growth + 1;
                if (is_skipped) scale /= 2;
                if (policy.loss_scale > 0 && growth == 100) scale *= 2, growth = 0;
                if (step % 50 == 0) {
                    evals.append({.run = run,
                                  .policy = policy.name,
                                  .seed = seed,
                                  .step = step,
                                  .eval_loss = loss + 0.01,
                                  .eval_loss_fp32 = loss + 0.009,
                                  .perplexity = 12.5,
                                  .entropy_floor = 2.2});
                }
                if (step != 1 && step % options.sample_every != 0) continue;
                for (std::int64_t layer = 0; layer < options.layers; ++layer) {
                    for (std::size_t k = 0; k < kinds.size(); ++k) {
                        const bool is_gradient = kinds[k].find("grad") != std::string::npos;
                        const std::uint64_t count = 65536;
                        const double noise = 1 + 0.5 * sample_noise(p, k, std::uint64_t(step), 5);
                        const double rate =
                            policy.underflow * noise * (is_gradient ? 1.5 : 0.02) * (layer == 0 ? 1 : 0.3);
                        const bool is_scaled = policy.format[0] == 'e';
                        const std::string site = "block." + std::to_string(layer) + "." + kinds[k];
                        const int center = is_gradient ? -17 : -1;
                        reports::SiteRow row{.run = run,
                                             .policy = policy.name,
                                             .seed = seed,
                                             .step = step,
                                             .site = site,
                                             .format = policy.format};
                        row.scale_inv_min = row.scale_inv_max = is_scaled ? float(std::ldexp(1.37, center - 5)) : 1.0f;
                        row.count = count;
                        row.zero_in = kinds[k] == "mlp.act:forward.out" ? 900 : 3;
                        row.underflow = std::uint64_t(rate * double(count));
                        row.to_subnormal = std::uint64_t(3 * rate * double(count));
                        row.saturated = is_scaled ? 1 : 0;
                        row.amax = float(std::ldexp(1.9, center + 4));
                        row.amin_nz = float(std::ldexp(1.0, center - 18));
                        row.mse = 1e-6, row.sqnr_db = 31.5, row.cosine = 0.9997, row.proj = 0.9995;
                        sites.append(row);
                        exponents.append({.run = run,
                                          .step = step,
                                          .site = site,
                                          .exponent = {.kind = reports::ExponentBin::Kind::zero},
                                          .count = row.zero_in});
                        std::uint64_t left = count - row.zero_in;
                        for (int e = center + 4; e >= center - 18 && left > 0; --e) {
                            const std::uint64_t here = e == center + 4 ? 40 : e > center ? left / 6 : left * 9 / 20 + 1;
                            exponents.append(
                                {.run = run, .step = step, .site = site, .exponent = {.exponent = e}, .count = here});
                            left -= here;
                        }
                    }
                }
            }
            reports::RunRow row{
                .run = run, .policy = policy.name, .seed = seed, .status = diverged > 0 ? "diverged" : "ok"};
            row.steps = options.steps, row.tokens = options.steps * 512;
            row.final_loss = last, row.best_loss = best;
            row.skipped_steps = skipped;
            if (diverged > 0) row.diverged_step = diverged;
            row.seconds = 4.5 * policy.slowdown, row.tokens_per_second = double(row.tokens) / row.seconds;
            row.bytes_params = std::int64_t(440000 * policy.memory),
            row.bytes_grads = std::int64_t(440000 * policy.memory);
            row.bytes_optimizer = std::int64_t(880000 * policy.memory);
            row.bytes_activations = std::int64_t(2000000 * policy.memory);
            runs.append(row);
        }
    }
    runs.flush(), steps.flush(), evals.flush(), sites.flush(), exponents.flush();
    if (!options.with_manifest) return;
    std::ofstream(folder / "manifest.json")
        << R"({"schema": 1, "command": ["macheps", "train", "--policies", "fp32,amp bf16", "--steps", "300"],
  "created_by": "macheps 0.1.0", "git": "0123abc", "device": "cpu: test, avx2, 2 threads", "seeds": [0, 1],
  "model": {"size": "tiny", "layers": 2, "width": 64, "heads": 4, "context": 32, "vocabulary": 64, "parameters": 112000},
  "data": {"kind": "synthetic", "name": "</script><b>&", "entropy_floor": 2.2},
  "train": {"steps": 300, "batch": 16, "lr": 0.001, "warmup": 20, "token_weight": 4096, "clip": 1.0},
  "policies": {"fp32": {"toml": "name = \"fp32\"\n", "resolved": [{"site": "embed", "slot": "forward.out", "cast": "fp32", "rule": "none"}]},
               "amp-bf16": {"toml": "name = \"amp-bf16\" # <i>\n"}}}
)";
}

}  // namespace macheps::test
