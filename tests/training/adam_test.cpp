// SPDX-License-Identifier: Apache-2.0
// Tests the optimisers. Compares each Adam kernel with a transcription of its source code, and checks which parameters
// decay. Also tests the loss of a step.
#include "experiments/training/run/optimizer/adam_kernels.hpp"
#include "tests/oracle/reference_adamw.hpp"
#include "tests/training/trained.hpp"

#include <cmath>
#include <map>
#include <random>
#include <utility>

namespace adam_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using test::TinyRun;
using test::to_bf16;
using test::values_of;

namespace {

adam::Kernel kernel(std::string_view name) {
    for (const AdamKernel& one : adam_kernels) {
        if (one.name == name) return engine_kernel(one);
    }
    FAIL("no kernel");
    return adam::Single{};
}

float same(float x) { return x; }

struct Moved {
    float p, m, v;
    bool operator==(const Moved&) const = default;
};

/// Returns a weight and its moments after one Adam step of the backend.
Moved moved(Moved x, float g, const Adam& step) {
    CpuBackend backend(1);
    Tensor p = backend.empty({1}), gradient = backend.empty({1}), m = backend.empty({1}), v = backend.empty({1});
    backend.upload(std::vector<float>{x.p}, p);
    backend.upload(std::vector<float>{g}, gradient);
    backend.upload(std::vector<float>{x.m}, m);
    backend.upload(std::vector<float>{x.v}, v);
    UpdateStats stats;
    backend.adam(p, gradient, m, v, step, &stats);
    CHECK(stats.count == 1);
    return {test::values_of(backend, p)[0], test::values_of(backend, m)[0], test::values_of(backend, v)[0]};
}

float fp32_of(double x) { return static_cast<float>(x); }

/// Computes torch/optim/adam.py line by line; `r` rounds to the tensor's format after each line.
Moved by_lines(Moved x, float g, const Adam& s, float (*r)(float)) {
    if (s.adds_decay_to_gradient)
        g = r(g + fp32_of(s.weight_decay) * x.p);  // grad.add(param, alpha=weight_decay)
    else
        x.p = r(x.p * fp32_of(1 - s.lr * s.weight_decay));  // param.mul_
    const float weight = fp32_of(1 - s.beta1);
    // exp_avg.lerp_, which starts from the nearer end
    x.m = weight < 0.5f ? r(x.m + weight * (g - x.m)) : r(g - (g - x.m) * (1.0f - weight));
    x.v = r(x.v * fp32_of(s.beta2));                                          // exp_avg_sq.mul_
    x.v = r(x.v + fp32_of(1 - s.beta2) * g * g);                              // .addcmul_
    const float root = r(std::sqrt(x.v));                                     // .sqrt()
    const float divided = r(root / fp32_of(std::sqrt(s.bias_correction2)));   // / bias_correction2_sqrt
    const float denominator = r(divided + fp32_of(s.eps));                    // .add_(eps)
    x.p = r(x.p - fp32_of(s.lr / s.bias_correction1) * (x.m / denominator));  // param.addcdiv_
    return x;
}

/// Computes adam_math of torch's fused kernel; `r` rounds each stored number.
Moved by_fused(Moved x, float g, const Adam& s, float (*r)(float)) {
    float p = x.p, m = x.m, v = x.v;
    if (s.adds_decay_to_gradient)
        g = fp32_of(double{g} + double{p} * s.weight_decay);
    else
        p = fp32_of(double{p} - s.lr * s.weight_decay * double{p});
    m = fp32_of(s.beta1 * double{m} + (1 - s.beta1) * double{g});
    v = fp32_of(s.beta2 * double{v} + (1 - s.beta2) * double{g} * double{g});
    const float step_size = fp32_of(s.lr / double{fp32_of(s.bias_correction1)});
    const float root = std::sqrt(v) / fp32_of(std::sqrt(s.bias_correction2));
    const float denominator = fp32_of(double{root} + s.eps);
    p -= step_size * m / denominator;
    return {r(p), r(m), r(v)};
}

/// Computes torch/optim/adam.py with fused multiply-adds, as torch's vector code on a CPU does. `fused` uses long
/// double, which holds a product of two fp32 numbers exactly. If `is_foreach`, `r` also rounds the factors of `mul_`.
Moved by_cpu_lines(Moved x, float g, const Adam& s, float (*r)(float), bool is_foreach = false) {
    const auto factor = [&](double number) { return is_foreach ? r(fp32_of(number)) : fp32_of(number); };
    const auto fused = [](float a, float b, float c) {
        return static_cast<float>(static_cast<long double>(a) * b + static_cast<long double>(c));
    };
    if (s.adds_decay_to_gradient)
        g = r(fused(fp32_of(s.weight_decay), x.p, g));
    else
        x.p = r(x.p * factor(1 - s.lr * s.weight_decay));
    const float weight = fp32_of(1 - s.beta1);
    x.m = weight < 0.5f ? r(fused(weight, g - x.m, x.m)) : r(fused(weight - 1.0f, g - x.m, g));
    x.v = r(x.v * factor(s.beta2));
    x.v = r(fused(fp32_of(1 - s.beta2) * g, g, x.v));
    const float divided = r(r(std::sqrt(x.v)) / fp32_of(std::sqrt(s.bias_correction2)));
    const float denominator = r(divided + fp32_of(s.eps));
    x.p = r(x.p - fp32_of(s.lr / s.bias_correction1) * x.m / denominator);
    return x;
}

/// Computes AdamFunctor of Apex and DeepSpeed: ADAM_MODE_0 adds the decay to the gradient, ADAM_MODE_1 to the update.
/// `r` rounds each stored number.
Moved by_multi_tensor(Moved x, float g, const Adam& s, float (*r)(float)) {
    const float beta1 = fp32_of(s.beta1), beta2 = fp32_of(s.beta2), decay = fp32_of(s.weight_decay);
    if (s.adds_decay_to_gradient) g = g + decay * x.p;
    x.m = beta1 * x.m + (1.0f - beta1) * g;
    x.v = beta2 * x.v + (1.0f - beta2) * g * g;
    const float mean = x.m / fp32_of(s.bias_correction1), square = x.v / fp32_of(s.bias_correction2);
    float update = mean / (std::sqrt(square) + fp32_of(s.eps));
    if (!s.adds_decay_to_gradient) update = update + decay * x.p;
    x.p = x.p - fp32_of(s.lr) * update;
    return {r(x.p), r(x.m), r(x.v)};
}

Adam step_of(std::string_view name, Format format) {
    return {.kernel = kernel(name),
            .lr = 1.3e-3,
            .beta1 = 0.9,
            .beta2 = 0.98,
            .eps = 1e-8,
            .weight_decay = 0.1,
            .bias_correction1 = 1 - 0.9 * 0.9 * 0.9,
            .bias_correction2 = 1 - 0.98 * 0.98 * 0.98,
            .arithmetic = format,
            .value_cast = {.format = format},
            .moment1_cast = {.format = format},
            .moment2_cast = {.format = format}};
}

}  // namespace

TEST_CASE("each Adam kernel rounds where its source code rounds, with every option, in bf16 and in fp32",
          "[experiments][optimizer]") {
    using ByHand = Moved (*)(Moved, float, const Adam&, float (*)(float));
    const std::pair<const char*, ByHand> kernels[] = {
        {"single", by_lines},
        {"fused", by_fused},
        {"single-cpu", [](Moved x, float g, const Adam& s, float (*r)(float)) { return by_cpu_lines(x, g, s, r); }},
        {"foreach-cpu",
         [](Moved x, float g, const Adam& s, float (*r)(float)) { return by_cpu_lines(x, g, s, r, true); }},
        {"multi-tensor", by_multi_tensor}};
    std::mt19937 words(7);
    std::normal_distribution<float> normal;
    // Number of results of each kernel that differ from those of `fused`. For `foreach-cpu`, those of `single-cpu`.
    std::map<std::string, int> differ;
    for (const bool is_low : {false, true}) {
        float (*r)(float) = is_low ? to_bf16 : same;
        const Format format = is_low ? bf16 : fp32;
        for (const double beta1 : {0.9, 0.5, 0.25}) {
            for (const bool coupled : {false, true}) {
                for (int i = 0; i < 80; ++i) {
                    // Some second moments are so small that their root is at most eps.
                    const float g = r(i % 8 == 0 ? 0.0f : normal(words) * 1e-3f), size = i % 4 == 0 ? 1e-17f : 1e-6f;
                    const Moved x{r(normal(words) * 0.02f), r(normal(words) * 1e-3f),
                                  r(std::abs(normal(words)) * size)};
                    const auto step = [&](std::string_view name) {
                        Adam s = step_of(name, format);
                        s.beta1 = beta1, s.adds_decay_to_gradient = coupled;
                        return s;
                    };
                    CAPTURE(i, is_low, beta1, coupled, g, x.p, x.m, x.v);
                    const Moved fused = moved(x, g, step("fused")), cpu = moved(x, g, step("single-cpu"));
                    for (const auto& [name, by_hand] : kernels) {
                        CAPTURE(name);
                        const Moved result = moved(x, g, step(name));
                        CHECK(result == by_hand(x, g, step(name), r));
                        differ[name] += result == (std::string_view(name) == "foreach-cpu" ? cpu : fused) ? 0 : 1;
                    }
                    if (!is_low) CHECK(moved(x, g, step("fused-cpu")) == cpu);
                    if (!is_low) CHECK(moved(x, g, step("foreach-cpu")) == cpu);
                }
            }
        }
    }
    // The kernels differ on these inputs, so the test can distinguish them.
    CHECK(differ["single"] > 100);
    CHECK(differ["multi-tensor"] > 10);
    CHECK(differ["foreach-cpu"] > 10);
}

TEST_CASE("weight decay shrinks matrices, but neither biases nor norms", "[experiments][optimizer]") {
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        for (const char* policy : {"fp32", "amp-bf16"}) {
            TrainOptions options = TinyRun::tiny_options();
            TinyRun plain(load_policy(policy), kind, options);
            options.weight_decay = 0.1;
            TinyRun decayed(load_policy(policy), kind, options);
            const auto before = plain.state();
            plain.next(), decayed.next();
            std::size_t matrices = 0, vectors = 0;
            for (const auto& parameter : plain.step.model().parameters()) {
                CAPTURE(policy, parameter->name);
                const std::vector<float> start = before.at(parameter->name + ":value");
                const std::vector<float> a = values_of(plain.backend, plain.parameter(parameter->name).value);
                const std::vector<float> b = values_of(decayed.backend, decayed.parameter(parameter->name).value);
                // The oracle decays every weight that does not belong to a norm (tests/oracle/reference_adamw.hpp).
                if (!oracle::AdamW::decays(parameter->name)) {
                    ++vectors;
                    CHECK(a == b);
                    continue;
                }
                ++matrices;
                double largest = 0;
                for (std::size_t i = 0; i < a.size(); ++i) {
                    // Except for a few roundings to fp32, b must be equal to a - lr * decay * start.
                    const double wanted = double{a[i]} - options.lr * options.weight_decay * double{start[i]};
                    largest = std::max(largest, std::abs(double{b[i]} - wanted) /
                                                    (0x1p-22 * std::max(1.0, std::abs(double{start[i]}))));
                }
                CHECK(largest <= 1);
                CHECK(a != b);
            }
            CHECK(matrices > 4);
            CHECK(vectors > 2);
        }
    }
}

TEST_CASE("the loss of a step is the mean over its micro-batches and ranks", "[experiments][ranks]") {
    for (const std::int64_t ranks : {1, 2, 4}) {
        for (const std::int64_t micro_batches : {1, 3}) {
            CAPTURE(ranks, micro_batches);
            TrainOptions options = TinyRun::tiny_options();
            options.ranks = ranks, options.micro_batches = micro_batches;
            options.batch = 4 * ranks;
            TinyRun run(load_policy("fp32"), ModelKind::gpt2, options);
            const StepResult result = run.next();
            // In fp32, the policy's loss differs from the exact loss by the rounding of a few numbers near 3.
            CHECK(result.loss == Approx(std::log(24.0)).epsilon(0.2));
            CHECK(std::abs(double{result.loss_rounded} - result.loss) < 1e-5);
        }
    }
}

}  // namespace adam_test
