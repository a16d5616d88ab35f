// SPDX-License-Identifier: Apache-2.0
// Tests that optimiser steps give the same bits on every engine, that their values are right, and that updates are lost
// in the known cases.
#include "emulation/adam.hpp"
#include "tests/emulation/backends.hpp"
#include "tests/emulation/bounded.hpp"

#include <array>

namespace optimizer_test {

using namespace macheps;
using namespace macheps::test;

namespace {

struct State {
    std::vector<float> p, g, m, v;
};

State state(Operands kind, std::int64_t n, std::uint32_t seed) {
    State s{operands(kind, n, seed), operands(kind, n, seed + 1), operands(kind, n, seed + 2),
            operands(kind, n, seed + 3)};
    if (kind == Operands::plain) {
        for (float& v : s.v) v = v * v;
    }
    return s;
}

struct Outcome {
    std::vector<float> values;  ///< p, m, v
    UpdateStats stats;
};

template <class Step>
Outcome run(Backend& b, const State& s, const Step& step) {
    const auto n = static_cast<std::int64_t>(s.p.size());
    Tensor p = uploaded(b, s.p, {n}), g = uploaded(b, s.g, {n}), m = uploaded(b, s.m, {n}), v = uploaded(b, s.v, {n});
    Outcome outcome;
    step(p, g, m, v, &outcome.stats);
    for (const Tensor& t : {p, m, v}) {
        const auto part = downloaded(b, t);
        outcome.values.insert(outcome.values.end(), part.begin(), part.end());
    }
    CHECK(downloaded(b, g).size() == s.g.size());
    return outcome;
}

bool same(const UpdateStats& a, const UpdateStats& b) {
    const auto equal = [](double x, double y) { return bit_cast<std::uint64_t>(x) == bit_cast<std::uint64_t>(y); };
    return a.count == b.count && a.nonzero == b.nonzero && a.lost == b.lost && a.frozen == b.frozen &&
           equal(a.wanted2, b.wanted2) && equal(a.moved2, b.moved2) && equal(a.moved_wanted, b.moved_wanted);
}

AdamW adam_settings() { return {.step_size = 0x1p-6f, .sqrt_bias2 = 0.4f}; }

struct AdamCase {
    const char* why;
    AdamW args;
};

std::vector<AdamCase> adam_cases() {
    std::vector<AdamCase> cases{{"fp32 throughout", adam_settings()}};
    const auto with = [&](const char* why, auto change) {
        cases.push_back({why, adam_settings()});
        change(cases.back().args);
    };
    with("decoupled decay", [](AdamW& a) { a.decay = 0x1p-9f; });
    with("bf16 parameters", [](AdamW& a) { a.value_cast.format = bf16; });
    with("stochastic bf16 parameters", [](AdamW& a) {
        a.value_cast = {.format = bf16, .round = Round::stochastic, .key = {.seed = 7, .step = 3, .site = 11}};
    });
    with("bf16 updates of fp32 parameters", [](AdamW& a) { a.update_cast.format = bf16; });
    with("stochastic e5m2 updates of bf16 parameters", [](AdamW& a) {
        a.update_cast = {.format = e5m2, .round = Round::stochastic, .key = {.seed = 9}};
        a.value_cast.format = bf16;
    });
    with("stochastic with 8 random bits", [](AdamW& a) {
        a.value_cast = {.format = e4m3fn,
                        .round = Round::stochastic,
                        .overflow = Overflow::saturate,
                        .key = {.seed = 7},
                        .random_bits = 8};
    });
    with("moments in e4m3fn and e5m2", [](AdamW& a) {
        a.moment1_cast = {.format = e4m3fn, .overflow = Overflow::saturate};
        a.moment2_cast = {.format = e5m2, .round = Round::up};
    });
    with("bf16 arithmetic", [](AdamW& a) {
        a.arithmetic = bf16;
        a.value_cast.format = a.moment1_cast.format = a.moment2_cast.format = bf16;
    });
    with("fp16 arithmetic with decay", [](AdamW& a) {
        a.arithmetic = fp16;
        a.decay = 0x1p-9f;
        a.value_cast.format = a.moment1_cast.format = a.moment2_cast.format = fp16;
    });
    with("arithmetic narrower than the stored values", [](AdamW& a) { a.arithmetic = e5m2; });
    return cases;
}

/// Returns the settings of a framework's Adam kernel at the third step.
Adam kernel_settings(adam::Kernel kernel) {
    return {.kernel = kernel,
            .lr = 1.3e-2,
            .beta1 = 0.9,
            .beta2 = 0.98,
            .weight_decay = 0.1,
            .bias_correction1 = 1 - 0.9 * 0.9 * 0.9,
            .bias_correction2 = 1 - 0.98 * 0.98 * 0.98};
}

struct KernelCase {
    const char* why;
    Adam args;
};

std::vector<KernelCase> kernel_cases() {
    std::vector<KernelCase> cases;
    for (const adam::Kernel& kernel : adam::kernels) {
        const auto with = [&](const char* why, auto change) {
            cases.push_back({why, kernel_settings(kernel)});
            change(cases.back().args);
        };
        const auto in = [](const Format& format) {
            return [format](Adam& a) {
                a.arithmetic = a.value_cast.format = a.moment1_cast.format = a.moment2_cast.format = format;
            };
        };
        with("fp32 throughout", [](Adam&) {});
        with("Adam with L2", [](Adam& a) { a.adds_decay_to_gradient = true; });
        with("no decay, another momentum", [](Adam& a) { a.weight_decay = 0, a.beta1 = 0.25; });
        with("bf16 throughout", in(bf16));
        with("fp16 throughout", in(fp16));
        with("bf16 and L2", [&](Adam& a) { in(bf16)(a), a.adds_decay_to_gradient = true; });
        with("an arithmetic format that only the definition supports", in(e4m3fnuz));
        with("bf16 arithmetic, stores in other formats", [](Adam& a) {
            a.arithmetic = bf16;
            a.value_cast = {.format = e4m3fn, .round = Round::stochastic, .key = {.seed = 7}, .random_bits = 8};
            a.moment1_cast = {.format = e5m2, .round = Round::up};
            a.moment2_cast = {.format = bf16, .round = Round::stochastic, .key = {.seed = 8, .step = 3, .site = 1}};
        });
    }
    return cases;
}

}  // namespace

TEST_CASE("every engine takes the same optimiser step, bit for bit, and reports the same statistics",
          "[emulation][optimizer]") {
    const auto engines = backends({1, 3});
    for (const std::int64_t n : {1, 15, 16, 17, 31, 32, 33, 63, 100, 1023, 1024, 1025, 2049, 90000}) {
        for (const Operands kind : {Operands::plain, Operands::wild, Operands::hostile, Operands::all_bits}) {
            if (n > 10000 && kind != Operands::wild) continue;
            const State s = state(kind, n, static_cast<std::uint32_t>(n));
            const auto compare = [&](const char* why, const auto& step) {
                const Outcome expected = run(*engines[0], s, [&](auto&&... args) { step(*engines[0], args...); });
                for (std::size_t e = 1; e < engines.size(); ++e) {
                    const Outcome actual = run(*engines[e], s, [&](auto&&... args) { step(*engines[e], args...); });
                    const auto found = differences(actual.values, expected.values);
                    if (found.empty() && same(actual.stats, expected.stats)) continue;
                    FAIL_CHECK(why << ", " << n << " elements on " << engines[e]->name() << ":\n" << found);
                }
            };
            for (const AdamCase& c : adam_cases()) {
                compare(c.why, [&](Backend& b, View p, ConstView g, View m, View v, UpdateStats* stats) {
                    b.adamw(p, g, m, v, c.args, stats);
                });
            }
            for (const KernelCase& c : kernel_cases()) {
                const std::string why = std::string(c.args.kernel.name) + ", " + c.why;
                compare(why.c_str(), [&](Backend& b, View p, ConstView g, View m, View v, UpdateStats* stats) {
                    b.adam(p, g, m, v, c.args, stats);
                });
            }
            for (const auto& [momentum, decay] : {std::pair{0.0f, 0.0f}, {0.9f, 0.0f}, {0.0f, 0.1f}, {0.9f, 0.1f}}) {
                const Sgd args{.lr = 0.1f,
                               .momentum = momentum,
                               .decay = decay,
                               .value_cast = {.format = fp16},
                               .update_cast = {.format = bf16}};
                compare("sgd", [&](Backend& b, View p, ConstView g, View m, View, UpdateStats* stats) {
                    b.sgd(p, g, m, args, stats);
                });
            }
        }
    }
    SUCCEED();
}

TEST_CASE("SGD adds the decay to the gradient before the momentum", "[emulation][optimizer]") {
    // All numbers are dyadic, so the expected results are exact. d = 0.5 + 0.25 * 2 = 1.
    const State s{.p = {2}, .g = {0.5f}, .m = {1}, .v = {0}};
    struct Case {
        float momentum, decay;
        std::vector<float> p_and_m;
    };
    const Case cases[] = {
        {0, 0, {1.75f, 1}},            // p - 0.5 * 0.5
        {0, 0.25f, {1.5f, 1}},         // p - 0.5 * d
        {0.5f, 0, {1.5f, 1}},          // b = 0.5 * 1 + 0.5 = 1
        {0.5f, 0.25f, {1.25f, 1.5f}},  // b = 0.5 * 1 + d = 1.5
    };
    for (const auto& engine : backends({1})) {
        for (const Case& one : cases) {
            CAPTURE(engine->name(), one.momentum, one.decay);
            const Sgd args{.lr = 0.5f, .momentum = one.momentum, .decay = one.decay};
            const Outcome outcome = run(*engine, s, [&](View p, ConstView g, View m, View, UpdateStats* stats) {
                engine->sgd(p, g, m, args, stats);
            });
            CHECK(std::vector<float>(outcome.values.begin(), outcome.values.begin() + 2) == one.p_and_m);
        }
    }
}

TEST_CASE("requesting statistics does not change a step", "[emulation][optimizer]") {
    for (const auto& engine : backends({2})) {
        const State s = state(Operands::wild, 3000, 1);
        AdamW args = adam_settings();
        args.value_cast.format = bf16;
        const auto with = run(*engine, s, [&](View p, ConstView g, View m, View v, UpdateStats* stats) {
            engine->adamw(p, g, m, v, args, stats);
        });
        const auto without = run(
            *engine, s, [&](View p, ConstView g, View m, View v, UpdateStats*) { engine->adamw(p, g, m, v, args); });
        CHECK(differences(with.values, without.values) == "");
        CHECK(without.stats.count == 0);
        CHECK(with.stats.count == 3000);
    }
}

TEST_CASE("a second moment that should change but does not is counted", "[emulation][optimizer]") {
    // With beta2 = 0.999, rounding to bf16 leaves the second moment unchanged if the gradient is small. An element is
    // not counted if its moment and its gradient are both 0, because its moment should not change.
    const std::vector<float> g{0, 0, 1, 1e-4f, 0, 4}, v{0, 1, 0, 1, 0x1p-120f, 1};
    for (const auto& engine : backends({1})) {
        CAPTURE(engine->name());
        const auto frozen = [&](const Format& format) {
            const std::vector<float> ones(v.size(), 1.0f);
            const auto n = static_cast<std::int64_t>(v.size());
            Tensor p = uploaded(*engine, ones, {n}), m = uploaded(*engine, ones, {n}),
                   moment = uploaded(*engine, v, {n}), grad = uploaded(*engine, g, {n});
            UpdateStats stats, same_by_own;
            Adam args = kernel_settings(adam::Fused{});
            args.beta2 = 0.999;
            args.moment2_cast.format = format;
            engine->adam(p, grad, m, moment, args, &stats);
            Tensor again = uploaded(*engine, v, {n});
            const AdamW own{.beta2 = 0.999f, .one_minus_beta2 = 0.001f, .moment2_cast = {.format = format}};
            engine->adamw(p, grad, m, again, own, &same_by_own);
            CHECK(stats.frozen == same_by_own.frozen);
            CHECK(stats.count == v.size());
            return stats.frozen;
        };
        CHECK(frozen(fp32) == 0);
        CHECK(frozen(bf16) == 3);  // elements 1, 3 and 4; the gradient 4 changes the last element's moment
    }
}

TEST_CASE("an fp32 AdamW step is within its running error bounds", "[emulation][optimizer]") {
    CpuBackend b(1);
    const std::int64_t n = 1000;
    const State s = state(Operands::plain, n, 1);
    for (const float decay : {0.0f, 0x1p-9f}) {
        AdamW a = adam_settings();
        a.decay = decay;
        const auto actual =
            run(b, s, [&](View p, ConstView g, View m, View v, UpdateStats* stats) { b.adamw(p, g, m, v, a, stats); });
        double wanted2 = 0, wanted2_error = 0;
        std::size_t outside = 0;
        for (std::size_t i = 0; i < s.p.size(); ++i) {
            const auto is = [](float x) { return Bounded(double{x}); };
            const Bounded p = is(s.p[i]), g = is(s.g[i]);
            const Bounded m = is(a.beta1) * is(s.m[i]) + is(a.one_minus_beta1) * g;
            const Bounded v = is(a.beta2) * is(s.v[i]) + is(a.one_minus_beta2) * (g * g);
            const Bounded u = -(is(a.decay) * p + (is(a.step_size) * m) / (sqrt(v) / is(a.sqrt_bias2) + is(a.eps)));
            const Bounded moved = p + u;
            const std::array want{moved, m, v};
            for (std::size_t t = 0; t < 3; ++t) {
                outside += !(std::fabs(actual.values[t * s.p.size() + i] - want[t].value) <= want[t].error);
                outside += !(want[t].error < 1e-5);  // with very wide bounds, the test would pass for any step
            }
            wanted2 += u.value * u.value;
            wanted2_error += 2 * std::fabs(u.value) * u.error + u.error * u.error;
        }
        CHECK(outside == 0);
        CHECK(std::fabs(actual.stats.wanted2 - wanted2) <= wanted2_error);
        // In fp32 nearly all of each update is applied. The weight moves by u with an error of half an ulp of p, which
        // is below 2^-23.
        CHECK(std::fabs(actual.stats.moved_wanted - wanted2) <=
              wanted2_error + 0x1p-23 * std::sqrt(wanted2 * double(n)));
        CHECK(actual.stats.nonzero == static_cast<std::uint64_t>(n));
    }
}

TEST_CASE("bf16 arithmetic rounds after every tensor operation of torch's single-tensor Adam, in torch's order",
          "[emulation][optimizer]") {
    const auto bf = [](double x) {
        return quantize(bf16, static_cast<float>(x), Round::nearest_even, Overflow::nonsaturate);
    };
    AdamW a = adam_settings();
    a.arithmetic = bf16;
    a.value_cast.format = a.moment1_cast.format = a.moment2_cast.format = bf16;
    State s = state(Operands::plain, 500, 4);
    for (auto* values : {&s.p, &s.g, &s.m, &s.v}) {
        for (float& x : *values) x = bf(x);
    }
    CpuBackend b(1);
    const auto actual =
        run(b, s, [&](View p, ConstView g, View m, View v, UpdateStats* stats) { b.adamw(p, g, m, v, a, stats); });
    std::vector<float> p_want, m_want, v_want;
    for (std::size_t i = 0; i < s.p.size(); ++i) {
        float difference = s.g[i] - s.m[i];
        difference *= a.one_minus_beta1;
        const float m = bf(s.m[i] + difference);
        float v = bf(s.v[i] * a.beta2), square = a.one_minus_beta2 * s.g[i];
        square *= s.g[i];
        v = bf(v + square);
        float t = bf(std::sqrt(v));
        t = bf(t / a.sqrt_bias2);
        t = bf(t + a.eps);
        float change = m / t;
        change *= a.step_size;
        p_want.push_back(bf(s.p[i] - change));
        m_want.push_back(m);
        v_want.push_back(v);
    }
    p_want.insert(p_want.end(), m_want.begin(), m_want.end());
    p_want.insert(p_want.end(), v_want.begin(), v_want.end());
    CHECK(differences(actual.values, p_want) == "");
}

TEST_CASE("an update below half an ulp of a bf16 weight is lost", "[emulation][optimizer]") {
    struct Case {
        float weight, update;
        bool lost;
        const char* why;
    };
    const auto [weight, update, lost, why] = GENERATE(table<float, float, bool, const char*>({
        {0.02f, 1e-5f, true, "half an ulp in [2^-6, 2^-5) is 2^-14 = 6.1e-5"},
        {0.02f, 1e-4f, false, "above half an ulp"},
        {0.5f, 1e-4f, true, "half an ulp is 2^-9"},
        {1.0f, 1e-3f, true, "half an ulp is 2^-8"},
        {1.0f, 0x1p-8f, true, "a tie goes to the even 1"},
        {0x1.02p0f, 0x1p-8f, false, "a tie goes to the even neighbour"},
    }));
    CAPTURE(weight, update, why);
    for (const auto& engine : backends({1})) {
        Backend& b = *engine;
        const float stored = quantize(bf16, weight, Round::nearest_even, Overflow::nonsaturate);
        UpdateStats stats;
        const std::vector<float> before(40, stored), gradient(40, -update);
        Tensor p = uploaded(b, before, {40});
        b.sgd(p, uploaded(b, gradient, {40}), Tensor{}.view(), {.lr = 1, .value_cast = {.format = bf16}}, &stats);
        CHECK((downloaded(b, p) == before) == lost);
        CHECK(stats.nonzero == 40);
        CHECK(stats.lost == (lost ? 40 : 0));
        CHECK(stats.wanted2 == 40 * (double{update} * double{update}));
        const double moved = double{downloaded(b, p)[0]} - double{stored};
        CHECK(stats.moved2 == 40 * (moved * moved));
        CHECK(stats.moved_wanted == 40 * (moved * double{update}));
    }
}

TEST_CASE("update_cast rounds an update before it is added to the weight", "[emulation][optimizer]") {
    for (const auto& engine : backends({1})) {
        Backend& b = *engine;
        Tensor p = uploaded(b, {0.0f, 1.0f}, {2});
        UpdateStats stats;
        // -(1 + 2^-9) is between two bf16 numbers and nearest to -1.
        b.sgd(p, uploaded(b, {0x1.008p0f, 0x1.008p0f}, {2}), Tensor{}.view(),
              {.lr = 1, .update_cast = {.format = bf16}}, &stats);
        CHECK(downloaded(b, p) == std::vector<float>{-1.0f, 0.0f});
        CHECK(stats.wanted2 == 2 * 0x1.008p0 * 0x1.008p0);
    }
}

TEST_CASE("neither a zero update nor a NaN counts as lost", "[emulation][optimizer]") {
    const float nan = bit_cast<float>(0x7fc00000u);
    for (const auto& engine : backends({1})) {
        Backend& b = *engine;
        UpdateStats stats;
        Tensor p = uploaded(b, {1, 1, 1, nan}, {4});
        b.sgd(p, uploaded(b, {0, 0x1p-40f, nan, 1}, {4}), Tensor{}.view(), {.lr = 1}, &stats);
        CHECK(stats.count == 4);
        CHECK(stats.nonzero == 3);
        CHECK(stats.lost == 1);
        CHECK(bit_cast<std::uint64_t>(stats.wanted2) == 0x7ff8000000000000);
    }
}

TEST_CASE("a bf16 second moment stops decaying when beta2 is near 1", "[emulation][optimizer]") {
    // `unchanged` is the number of the 128 significands of a binade for which beta2 * v rounds back to v.
    struct Case {
        double beta2;
        int unchanged;
    };
    const auto [beta2, unchanged] =
        GENERATE(table<double, int>({{0.999, 128}, {0.9985, 128}, {0.998, 122}, {0.997, 38}, {0.996, 0}, {0.95, 0}}));
    const Format arithmetic = GENERATE(fp32, bf16);
    CAPTURE(beta2, arithmetic.bits);
    std::vector<float> v(128);
    for (std::size_t i = 0; i < v.size(); ++i)
        v[i] = bit_cast<float>(0x3f800000u | static_cast<std::uint32_t>(i) << 16);
    for (const auto& engine : backends({1})) {
        Backend& b = *engine;
        const std::vector<float> zeros(128, 0.0f);
        Tensor p = uploaded(b, zeros, {128}), m = uploaded(b, zeros, {128}), moment = uploaded(b, v, {128});
        const AdamW args{.beta2 = static_cast<float>(beta2),
                         .one_minus_beta2 = static_cast<float>(1 - beta2),
                         .arithmetic = arithmetic,
                         .moment2_cast = {.format = bf16}};
        b.adamw(p, uploaded(b, zeros, {128}), m, moment, args);
        const auto after = downloaded(b, moment);
        int same_count = 0;
        for (std::size_t i = 0; i < v.size(); ++i) same_count += after[i] == v[i];
        CHECK(same_count == unchanged);
    }
}

TEST_CASE("stochastic rounding applies, on average, updates that rounding to nearest would lose",
          "[emulation][optimizer]") {
    CpuBackend b(1);
    const std::int64_t n = 1 << 16;
    const std::vector<float> ones(static_cast<std::size_t>(n), 1.0f), gradient(static_cast<std::size_t>(n), -0x1p-10f);
    Tensor p = uploaded(b, ones, {n});
    UpdateStats stats;
    b.sgd(p, uploaded(b, gradient, {n}), Tensor{}.view(),
          {.lr = 1, .value_cast = {.format = bf16, .round = Round::stochastic, .key = {.seed = 5}}}, &stats);
    // Each weight moves by an ulp, 2^-7, with probability 1/8. The number of weights that move is binomial. It must be
    // within five standard deviations of its mean.
    const double moved = double(n - static_cast<std::int64_t>(stats.lost)),
                 deviation = std::sqrt(double(n) * (1.0 / 8) * (7.0 / 8));
    CHECK(std::fabs(moved - double(n) / 8) <= 5 * deviation);
    // The index of an element in the tensor selects its random bits, wherever chunks begin.
    const auto values = downloaded(b, p);
    std::size_t wrong = 0;
    const Cast cast{.format = bf16, .round = Round::stochastic, .key = {.seed = 5}};
    for (std::size_t i = 0; i < values.size(); ++i)
        wrong += values[i] != definition::cast_element(cast, 1 + 0x1p-10f, i);
    CHECK(wrong == 0);
}

}  // namespace optimizer_test
