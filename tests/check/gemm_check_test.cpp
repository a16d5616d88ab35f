// SPDX-License-Identifier: Apache-2.0
// Tests checks of matrix products. Correct kernels pass with every common order of summation, and wrong kernels fail. A
// check reports the wrong kernels that it cannot catch.
#include "core/error.hpp"
#include "tests/check/problems.hpp"

#include <limits>

namespace gemm_check_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using check::Outcome;
using kernels::Gemm;
using kernels::Order;

namespace {

Gemm random_gemm(std::size_t m, std::size_t n, std::size_t k, std::mt19937& random, Store in, float sigma = 1) {
    return {.m = m, .n = n, .k = k, .a = normal(m * k, random, 0, sigma, in), .b = normal(k * n, random, 0, 1, in)};
}

std::vector<StoredArray> arrays_of(const Gemm& g, const Floats& out, Store in, Store store) {
    const auto m = static_cast<std::int64_t>(g.m), n = static_cast<std::int64_t>(g.n),
               k = static_cast<std::int64_t>(g.k);
    std::vector<StoredArray> all{array("a", {m, k}, g.a, in), array("b", {k, n}, g.b, in),
                                 array("out", {m, n}, out, store)};
    if (!g.bias.empty()) all.push_back(array("bias", {n}, g.bias));
    if (!g.c.empty()) all.push_back(array("c", {m, n}, g.c));
    return all;
}

check::Verdict verdict_on(const Gemm& g, const Floats& out, Store in, Store store, const check::Options& options = {}) {
    check::Declaration d = declare("gemm", store, in);
    d.alpha = g.alpha;
    d.beta = g.beta;
    return judge_arrays(d, arrays_of(g, out, in, store), options);
}

}  // namespace

TEST_CASE("none of 500 legal matrix products is refused", "[check]") {
    std::mt19937 random(20260101);
    const std::vector<Order> orders = kernels::orders();
    double rho = 0, z = 0;
    for (int trial = 0; trial < 500; ++trial) {
        const std::size_t m = 4 + random() % 13, n = 4 + random() % 13, k = 1 + random() % 400;
        const Store in = random() % 2 ? Store::bf16 : Store::fp16, out = static_cast<Store>(random() % 3);
        Gemm g = random_gemm(m, n, k, random, in);
        if (trial % 5 == 1) {  // positive
            for (float& x : g.a) x = std::fabs(x);
            for (float& x : g.b) x = std::fabs(x);
        }
        if (trial % 5 == 2) {  // integers
            for (float& x : g.a) x = std::round(2 * x);
            for (float& x : g.b) x = std::round(2 * x);
        }
        if (trial % 5 == 3) {  // exponents far apart
            for (float& x : g.a) x = kernels::stored(in, std::ldexp(x, static_cast<int>(random() % 16) - 8));
        }
        if (trial % 2) g.bias = normal(n, random);
        if (trial % 3 == 0) g.c = normal(m * n, random), g.alpha = 0.7f, g.beta = -1.3f;
        if (trial % 7 == 0) g.bias.clear(), g.c.clear(), g.alpha = 1, g.beta = 1;
        const std::size_t order = random() % (orders.size() + 1);
        const check::Verdict v = verdict_on(g, g.run(out, order == orders.size() ? nullptr : &orders[order]), in, out);
        CAPTURE(trial, m, n, k, static_cast<int>(out), order, codes(v));
        REQUIRE((v.outcome == Outcome::pass || v.outcome == Outcome::weak));
        rho = std::max(rho, v.judgement.rho);
        z = std::max({z, v.judgement.z, v.judgement.z_part});
    }
    CHECK(rho <= 1);
    CHECK(rho > 0.9);  // some roundings to 16 bits almost attain their bound
    CHECK(z < 3);
}

TEST_CASE("a wrong matrix product fails, and the reason code names the test that refused it", "[check]") {
    std::mt19937 random(1000);
    const std::size_t m = 48, n = 40, k = 500;
    Gemm g = random_gemm(m, n, k, random, Store::bf16);
    g.bias = normal(n, random, 0, 0.02f);
    const Floats right = g.run(Store::bf16, nullptr);
    const auto outcome = [&](const Floats& out) { return verdict_on(g, out, Store::bf16, Store::bf16); };
    CHECK(codes(outcome(right)) == "");
    CHECK(outcome(right).outcome == Outcome::pass);

    CHECK(codes(outcome(Floats(m * n))).starts_with("KC020"));                   // zeros
    CHECK(codes(outcome(g.run(Store::bf16, nullptr, 1))).starts_with("KC020"));  // last k dropped
    CHECK(codes(outcome(g.run(Store::bf16, nullptr, k % 32))).starts_with("KC020"));
    Floats stale = right;
    stale[77] = right[76];
    const check::Verdict one = outcome(stale);
    REQUIRE(codes(one).starts_with("KC020"));
    CHECK(one.reasons.front().index == 77);
    CHECK(one.reasons.front().count == 1);
    Gemm without = g;
    without.bias.clear();
    CHECK(outcome(without.run(Store::bf16, nullptr)).outcome == Outcome::fail);
    Floats cut = g.run(Store::fp32, nullptr);
    for (float& x : cut) x = kernels::truncated_to_bf16(x);
    CHECK(codes(outcome(cut)).find("KC031") != std::string::npos);  // truncation has a bias
    Floats narrow(m * n);                                           // partial sums in bf16
    for (std::size_t i = 0; i < m * n; ++i) {
        float s = 0;
        for (std::size_t p = 0; p < k; ++p) s = kernels::to_bf16(std::fma(g.a[i / n * k + p], g.b[p * n + i % n], s));
        narrow[i] = kernels::to_bf16(s + g.bias[i % n]);
    }
    CHECK(codes(outcome(narrow)).starts_with("KC020"));
    Floats tile = right;  // a tile whose accumulators are fp16
    for (std::size_t i = 16; i < 32; ++i) {
        for (std::size_t j = 16; j < 32; ++j) {
            float s = 0;
            for (std::size_t p = 0; p < k; ++p) s = kernels::to_fp16(std::fma(g.a[i * k + p], g.b[p * n + j], s));
            tile[i * n + j] = kernels::to_bf16(s + g.bias[j]);
        }
    }
    CHECK(outcome(tile).outcome == Outcome::fail);
}

TEST_CASE("NaN and infinities must be where the exact result has them, and nowhere else", "[check]") {
    std::mt19937 random(3);
    Gemm g = random_gemm(5, 6, 7, random, Store::fp16);
    g.a[2 * 7 + 3] = NAN;
    g.a[4 * 7 + 1] = INFINITY;
    const Floats right = g.run(Store::fp16, nullptr);
    CHECK(verdict_on(g, right, Store::fp16, Store::fp16).outcome != Outcome::fail);
    for (const auto& [index, value] :
         {std::pair<std::size_t, float>{2 * 6 + 1, 0.0f}, {4 * 6 + 2, 65504.0f}, {0, NAN}, {1, INFINITY}}) {
        Floats wrong = right;
        wrong[index] = value;
        const check::Verdict v = verdict_on(g, wrong, Store::fp16, Store::fp16);
        CAPTURE(index, codes(v));
        REQUIRE(!v.reasons.empty());
        CHECK(v.reasons.front().code == "KC010");
        CHECK(v.reasons.front().index == static_cast<std::int64_t>(index));
    }
    // The largest fp16 number is 65504. From 65520 on, results round to infinity, and 255 * 257 = 65535.
    Gemm large{.m = 1, .n = 1, .k = 1, .a = {255}, .b = {257}};
    CHECK(codes(verdict_on(large, {INFINITY}, Store::fp16, Store::fp16)).find("KC010") == std::string::npos);
    CHECK(codes(verdict_on(large, {65504}, Store::fp16, Store::fp16)).find("KC010") != std::string::npos);
}

TEST_CASE("sums of small integers are exact, so only one output code is correct", "[check]") {
    std::mt19937 random(5);
    Gemm g = random_gemm(33, 35, 96, random, Store::bf16);
    for (float& x : g.a) x = std::round(2 * x);
    for (float& x : g.b) x = std::round(2 * x);
    Floats out = g.run(Store::bf16, nullptr);
    const check::Verdict right = verdict_on(g, out, Store::bf16, Store::bf16);
    CHECK(right.judgement.exact_outputs == 33 * 35);
    CHECK(codes(right).empty());
    // A tie between two codes of bf16: 257 lies between 256 and 258.
    Gemm tie{.m = 1, .n = 2, .k = 2, .a = {256, 1}, .b = {1, 1, 1, 3}};
    CHECK(codes(verdict_on(tie, {256, 260}, Store::bf16, Store::bf16)).find("KC041") == std::string::npos);
    CHECK(codes(verdict_on(tie, {258, 260}, Store::bf16, Store::bf16)).find("KC041") != std::string::npos);
}

TEST_CASE("a check that could not catch a wrong kernel is weak, and its report names this kernel", "[check]") {
    std::mt19937 random(9);
    // All outputs are equal, so a shifted or transposed tile contains the right numbers.
    Gemm g{.m = 32, .n = 32, .k = 64, .a = Floats(32 * 64, 1.5f), .b = Floats(64 * 32, 0.25f)};
    const check::Verdict v = verdict_on(g, g.run(Store::bf16, nullptr), Store::bf16, Store::bf16);
    CHECK(v.outcome == Outcome::weak);
    REQUIRE(!v.reasons.empty());
    CHECK(v.reasons.front().code == "KC050");
    CHECK(v.blind(check::Power::structure).size() >= 3);
    CHECK(
        verdict_on(g, g.run(Store::bf16, nullptr), Store::bf16, Store::bf16, {.require = check::Power::null}).outcome ==
        Outcome::weak);  // a kernel with a constant output also passes

    Gemm usual = random_gemm(32, 32, 64, random, Store::bf16);
    const Floats out = usual.run(Store::bf16, nullptr);
    const check::Verdict strong = verdict_on(usual, out, Store::bf16, Store::bf16);
    CHECK(strong.outcome == Outcome::pass);
    for (const auto& mutant : strong.mutants) {
        CAPTURE(mutant.name);
        CHECK((mutant.caught || mutant.required_by >= check::Power::precision));
    }
    CHECK(strong.sharpness.dropped_terms == 1);
    CHECK(strong.sharpness.scale_of_all < 0.01);
    CHECK(verdict_on(usual, out, Store::bf16, Store::bf16, {.require = check::Power::precision}).outcome ==
          Outcome::weak);  // a kernel that rounds ties away from zero also passes
}

TEST_CASE("a tolerance or a metric limit that meaningless outputs satisfy is refused", "[check]") {
    std::mt19937 random(11);
    const Gemm g = random_gemm(24, 24, 1024, random, Store::bf16);
    const Floats out = g.run(Store::bf16, nullptr);
    check::Options options;
    options.atol = options.rtol = 21;
    CHECK(verdict_on(g, out, Store::bf16, Store::bf16, options).outcome == Outcome::refused);
    options.atol = options.rtol = 0.05;
    CHECK(verdict_on(g, out, Store::bf16, Store::bf16, options).outcome == Outcome::pass);
    options.atol = options.rtol = 1e-5;
    CHECK(verdict_on(g, out, Store::bf16, Store::bf16, options).outcome == Outcome::fail);
    CHECK(verdict_on(g, out, Store::bf16, Store::bf16, {.metric_limits = {{"cosine", -0.1}}}).outcome ==
          Outcome::refused);
    CHECK(verdict_on(g, out, Store::bf16, Store::bf16, {.metric_limits = {{"calc_diff", 1.0}}}).outcome ==
          Outcome::refused);
    // This matrix is so small that the SQNR falls below 50 dB if one tile is zero. A limit of 50 dB would detect such a
    // tile and is therefore accepted.
    CHECK(verdict_on(g, out, Store::bf16, Store::bf16, {.metric_limits = {{"sqnr", 50}}}).outcome == Outcome::pass);
    CHECK(verdict_on(g, out, Store::bf16, Store::bf16, {.metric_limits = {{"sqnr", 70}}}).outcome == Outcome::fail);
}

TEST_CASE("the certain bound for sums in any order is k u sum(|a b|), and the probable bound is smaller", "[check]") {
    Gemm g{.m = 1, .n = 1, .k = 1000, .a = Floats(1000), .b = Floats(1000, 1)};
    std::mt19937 random(4);
    double magnitudes = 0;
    for (float& x : g.a) x = kernels::to_bf16(std::fabs(normal(1, random)[0])), magnitudes += x;
    // This term has so many bits that the sum is inexact. If a sum is exact, its bound is zero.
    g.b[0] = 0x1.01p-20f;
    magnitudes += g.a[0] * (0x1.01p-20 - 1);
    check::Declaration d = declare("gemm", Store::fp32, Store::bf16);
    const auto arrays = arrays_of(g, g.run(Store::fp32, nullptr), Store::bf16, Store::fp32);
    const check::Verdict any = judge_arrays(d, arrays);
    CHECK(any.limits->certain[0] == Approx(1000 * 0x1p-24 * magnitudes).epsilon(1e-6));
    CHECK(any.limits->probable[0] < any.limits->certain[0]);
}

TEST_CASE("the products of a batch are judged separately, and they may share one operand b", "[check]") {
    std::mt19937 random(21);
    const std::size_t m = 16, n = 18, k = 40;
    Floats a, b, out, b_one = normal(k * n, random, 0, 1, Store::bf16), out_one;
    for (int batch = 0; batch < 3; ++batch) {
        Gemm g = random_gemm(m, n, k, random, Store::bf16);
        a.insert(a.end(), g.a.begin(), g.a.end());
        b.insert(b.end(), g.b.begin(), g.b.end());
        const Floats y = g.run(Store::bf16, nullptr);
        out.insert(out.end(), y.begin(), y.end());
        g.b = b_one;
        const Floats z = g.run(Store::bf16, nullptr);
        out_one.insert(out_one.end(), z.begin(), z.end());
    }
    const check::Declaration d = declare("gemm", Store::bf16, Store::bf16);
    const auto verdict = [&](const Floats& y, const Floats& terms, std::vector<std::int64_t> shape) {
        return judge_arrays(d,
                            {array("a", {3, 16, 40}, a, Store::bf16), array("b", std::move(shape), terms, Store::bf16),
                             array("out", {3, 16, 18}, y, Store::bf16)});
    };
    CHECK(verdict(out, b, {3, 40, 18}).outcome == Outcome::pass);
    CHECK(verdict(out_one, b_one, {40, 18}).outcome == Outcome::pass);
    std::copy_n(out.begin(), m * n, out.begin() + m * n);
    CHECK(verdict(out, b, {3, 40, 18}).outcome == Outcome::fail);
}

TEST_CASE("shapes that disagree and formats that contradict the file are reported with their place", "[check]") {
    const Floats six(6, 1.0f), four(4, 1.0f);
    const auto text = [](const check::Declaration& d, const std::vector<StoredArray>& arrays) {
        try {
            judge_arrays(d, arrays);
        } catch (const Error& error) {
            return std::to_string(static_cast<int>(error.exit())) + " " + error.what();
        }
        return std::string("accepted");
    };
    const check::Declaration d = declare("gemm", Store::fp32);
    CHECK(text(d, {array("a", {2, 3}, six), array("b", {2, 3}, six), array("out", {2, 3}, six)})
              .starts_with("3 test (out): shapes disagree: a [2, 3], b [2, 3], out [2, 3]"));
    CHECK(text(d, {array("a", {2, 3}, six), array("b", {3, 2}, six)}).starts_with("3 test: there is no array 'out'"));
    CHECK(text(d, {array("a", {2, 0}, {}), array("b", {0, 2}, {}), array("out", {2, 2}, four)})
              .starts_with("3 test (a): the array is empty"));
    CHECK(text(declare("gemm", Store::bf16),
               {array("a", {2, 3}, six), array("b", {3, 2}, six), array("out", {2, 2}, four)})
              .starts_with("3 test (out): the file says <f4 (fp32), but the declaration says bf16"));
    CHECK(text(d, {array("a", {2, 3}, six), array("b", {3, 2}, six), array("out", {2, 2}, four),
                   array("bias", {3}, {1, 2, 3})})
              .starts_with("3 test (bias): the shape [3] does not fit outputs of shape [2, 2]"));
    CHECK(text(d, {array("a", {2, 3}, six, Store::bf16), array("b", {3, 2}, six), array("out", {2, 2}, four)})
              .find("does not state the format") != std::string::npos);
    CHECK(text(declare("rmsnorm", Store::fp32), {array("x", {2, 3}, six), array("out", {2, 3}, six)})
              .starts_with("2 --eps"));
}

}  // namespace gemm_check_test
