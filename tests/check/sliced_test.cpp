// SPDX-License-Identifier: Apache-2.0
// Tests checks of matrix products that are summed in fp32 over slices of k. A check assumes this kind of summation if
// no machine is declared. It must accept every common order of summation. It must also detect errors that the wider
// bound for arbitrary orders would permit.
#include "experiments/check/checked.hpp"
#include "tests/check/product_checks.hpp"

#include <bit>
#include <numeric>

namespace sliced_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using check::Outcome;

namespace {

/// Returns an order of summation that divides k into blocks. In each block, lanes take `terms` neighbouring terms in
/// turn. The sums of the lanes are then added: in a tree if `by_halves` (each step adds the second half to the first
/// half), otherwise one after another.
kernels::Order lanes(std::size_t count, std::size_t terms, std::size_t block, bool by_halves) {
    return {"lanes", [=](const Floats& x) {
                float all = 0;
                for (std::size_t from = 0; from < x.size(); from += block) {
                    Floats s(count);
                    for (std::size_t i = from; i < std::min(from + block, x.size()); ++i)
                        s[(i - from) / terms % count] += x[i];
                    for (std::size_t half = count / 2; by_halves && half > 0; half /= 2) {
                        for (std::size_t i = 0; i < half; ++i) s[i] += s[i + half];
                    }
                    all += by_halves ? s[0] : kernels::chain(s);
                }
                return all;
            }};
}
/// Returns an order of summation with contiguous slices whose sums are joined in random order, as with atomics.
kernels::Order atomics(std::size_t slices, unsigned seed) {
    return {"atomics", [=](const Floats& x) {
                const std::size_t each = (x.size() + slices - 1) / slices;
                Floats sums;
                for (std::size_t at = 0; at < x.size(); at += each) {
                    float sum = 0;
                    for (std::size_t i = at; i < std::min(at + each, x.size()); ++i) sum += x[i];
                    sums.push_back(sum);
                }
                std::mt19937 random(seed);
                std::shuffle(sums.begin(), sums.end(), random);
                return kernels::chain(sums);
            }};
}

std::vector<kernels::Order> usual_orders() {
    std::vector<kernels::Order> all = kernels::orders();
    for (const std::size_t count : {2u, 8u, 16u, 64u}) all.push_back(lanes(count, 1, 1u << 20, true));
    for (const std::size_t terms : {4u, 8u}) {
        for (const std::size_t count : {2u, 4u, 32u}) all.push_back(lanes(count, terms, 1u << 20, count != 4));
    }
    all.push_back(lanes(8, 1, 128, true));    // NumPy's sum, with blocks added in order
    all.push_back(lanes(16, 1, 512, false));  // accumulators of a vector loop
    all.push_back(lanes(32, 4, 2048, true));  // a warp whose lanes load four terms at a time
    all.push_back(atomics(3, 1));
    all.push_back(atomics(4, 2));
    return all;
}

struct Count {
    int runs = 0, refused = 0;
    double rho = 0;
};

/// Checks legal products with random formats, orders and distributions.
Count judged(int runs, unsigned seed, std::size_t least, std::size_t most, std::size_t max_k) {
    std::mt19937 random(seed);
    const std::vector<kernels::Order> orders = usual_orders();
    constexpr std::array<Format, 4> formats{bf16, fp16, e4m3fn, fp32};
    constexpr std::array<Format, 3> outputs{fp32, bf16, fp16};
    Count all;
    for (int run = 0; run < runs; ++run) {
        const std::size_t m = least + random() % (most - least + 1), n = least + random() % (most - least + 1),
                          k = 1 + static_cast<std::size_t>(std::exp2(std::uniform_real_distribution<double>(
                                      0, std::log2(static_cast<double>(max_k)))(random)));
        const Format format = formats[random() % formats.size()];
        ProductCheck c{.g = machine_gemm(m, n, k, format, format, static_cast<Draw>(run % draws), random),
                       .out = outputs[random() % outputs.size()],
                       .machine = "sliced"};
        if (random() % 2) c.bias = normal(n, random);
        const std::size_t way = random() % (orders.size() + 1);
        const kernels::Gemm plain{.m = m, .n = n, .k = k, .a = c.g.a, .b = c.g.b};
        const Floats sums = plain.run(Store::fp32, way == orders.size() ? nullptr : &orders[way]);
        const check::Posed posed = check::pose(c.declaration(), c.arrays(c.stored(c.epilogue(sums))), pool());
        const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
        if (limits.declined >= 0) continue;
        const check::Judgement j = check::judge(limits, posed.out);
        std::string what;
        for (const check::Reason& reason : j.reasons) what += reason.code + " " + std::to_string(reason.ratio) + " ";
        CAPTURE(run, way, m, n, k, format.bits, c.out.bits, run % draws, what);
        CHECK(what.empty());
        ++all.runs;
        all.refused += what.empty() ? 0 : 1;
        all.rho = std::max(all.rho, j.rho);
    }
    std::printf("%d products summed over slices: %d refused, rho %.4f\n", all.runs, all.refused, all.rho);
    return all;
}

check::Declaration gemm(const std::string& machine = "") {
    check::Declaration d = declare("gemm", Store::fp32);
    if (!machine.empty()) check::declare(d, "machine", machine);
    return d;
}

/// A matrix product of random fp32 operands. run(step) computes it; `step` adds one term to a sum.
struct Fp32Product {
    std::int64_t m = 32, n = 48, k = 256;
    Floats a, b;
    explicit Fp32Product(unsigned seed) {
        std::mt19937 random(seed);
        a = normal(static_cast<std::size_t>(m * k), random);
        b = normal(static_cast<std::size_t>(k * n), random);
    }
    template <class Step>
    Floats run(Step step) const {
        Floats out;
        for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
                float sum = 0;
                for (std::int64_t p = 0; p < k; ++p)
                    sum = step(a[static_cast<std::size_t>(i * k + p)], b[static_cast<std::size_t>(p * n + j)], sum);
                out.push_back(sum);
            }
        }
        return out;
    }
    std::vector<StoredArray> arrays(const Floats& out) const {
        return {array("a", {m, k}, a), array("b", {k, n}, b), array("out", {m, n}, out)};
    }
};
float chain_step(float a, float b, float sum) { return std::fma(a, b, sum); }
float bf16x3_step(float a, float b, float sum) {
    const float a1 = kernels::to_bf16(a), b1 = kernels::to_bf16(b), a2 = kernels::to_bf16(a - a1),
                b2 = kernels::to_bf16(b - b1);
    return std::fma(a1, b1, std::fma(a1, b2, std::fma(a2, b1, sum)));
}

}  // namespace

TEST_CASE("the bound for sums over slices refuses no common order of summation", "[check][sliced]") {
    const Count small = judged(500, 20261126, 4, 16, 1448), large = judged(40, 77, 48, 64, 600);
    CHECK(small.refused + large.refused == 0);
    CHECK(small.runs > 490);
    CHECK(large.runs == 40);
}
TEST_CASE("the bound for sums over slices refuses none of 6000 products in common orders", "[check][sliced][slow]") {
    CHECK(judged(5500, 5, 4, 16, 3000).refused + judged(500, 6, 48, 64, 800).refused == 0);
}

TEST_CASE(
    "the bound for sliced sums also covers data for which only one assignment of terms to lanes has large partial sums",
    "[check][sliced]") {
    const auto [count, neighbours, why] = GENERATE(table<std::size_t, std::size_t, const char*>({
        {4, 4, "follows from 8 lanes of 4 terms"},
        {2, 8, "follows from 8 lanes of 4 terms, whose neighbours are merged first"},
        {8, 8, "follows from 32 lanes of 4 terms"},
        {16, 4, "follows from 32 lanes of 4 terms"},
        {4, 8, "neighbours of 8 lanes of 4 terms"},
        {8, 1, "lanes of one term"},
    }));
    CAPTURE(count, neighbours, why);
    // In each turn, every lane takes `neighbours` terms. In the first turns, the sum of each lane grows to 1 or -1. Any
    // other assignment of terms to lanes adds terms with different signs, which cancel. All later terms are smaller
    // than half an ulp of 1, so a lane loses them.
    constexpr std::size_t k = 8192, turns = 64;
    const std::size_t turn = count * neighbours;
    Floats x(k, 0.99f * 0x1p-24f);
    std::fill_n(x.begin(), turns * turn, 0.0f);
    for (std::size_t t = 0; t < turns; ++t) {
        for (std::size_t lane = 0; lane < count; ++lane) {
            const float sign = std::popcount(lane) % 2 == 0 ? 1.0f : -1.0f;
            x[t * turn + lane * neighbours + t % neighbours] = sign * (1.0f / turns) * (1 + 0x1p-20f);
        }
    }
    const std::vector<StoredArray> arrays{array("a", {1, k}, x), array("b", {k, 1}, Floats(k, 1.0f)),
                                          array("out", {1, 1}, {lanes(count, neighbours, k, true).sum(x)})};
    const check::Posed posed = check::pose(gemm(), arrays, pool());
    const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
    const check::Judgement j = check::judge(limits, posed.out, {.certain_only = true});
    CAPTURE(j.rho);
    CHECK(j.rho <= 1);
}

TEST_CASE("a product of fp32 operands that is computed from three bf16 products fails", "[check][sliced]") {
    const Fp32Product p(41);
    CHECK(is_accepted(judge_arrays(gemm(), p.arrays(p.run(chain_step)))));
    CHECK_FALSE(is_accepted(judge_arrays(gemm(), p.arrays(p.run(bf16x3_step)))));
}

TEST_CASE("partial sums in bf16 do not hide an output that is 3 % too large", "[check][sliced]") {
    const Fp32Product drawn(42);
    Floats a = drawn.a, b = drawn.b;
    for (float& x : a) x = kernels::to_bf16(x);
    for (float& x : b) x = kernels::to_bf16(x);
    Floats right, wrong;
    for (std::int64_t i = 0; i < 32; ++i) {
        for (std::int64_t j = 0; j < 48; ++j) {
            float all = 0;
            for (std::int64_t slice = 0; slice < 4; ++slice) {
                float sum = 0;
                for (std::int64_t q = slice * 64; q < slice * 64 + 64; ++q)
                    sum = std::fma(a[static_cast<std::size_t>(i * 256 + q)], b[static_cast<std::size_t>(q * 48 + j)],
                                   sum);
                all += kernels::to_bf16(sum);
            }
            right.push_back(kernels::to_bf16(all));
            wrong.push_back(kernels::to_bf16(all * 1.03f));
        }
    }
    check::Declaration d = declare("gemm", Store::bf16, Store::bf16);
    check::declare(d, "slices", "4");
    check::declare(d, "partials", "bf16");
    const auto verdict = [&](const Floats& out) {
        return judge_arrays(d, {array("a", {32, 256}, a, Store::bf16), array("b", {256, 48}, b, Store::bf16),
                                array("out", {32, 48}, out, Store::bf16)});
    };
    CHECK(is_accepted(verdict(right)));
    CHECK_FALSE(is_accepted(verdict(wrong)));
}

TEST_CASE("if a tighter declaration would also pass, or only a looser one would, the verdict names that declaration",
          "[check][sliced]") {
    const Fp32Product p(43);
    const check::Checked loose = check::check_arrays(gemm("any"), p.arrays(p.run(chain_step)), {}, pool());
    CHECK(loose.outcome == Outcome::pass);
    REQUIRE(!loose.tighter.empty());
    CHECK(
        loose.text().find("looser than needed: the output also passes with --machine fp32.chain, whose bounds are ") !=
        std::string::npos);
    CHECK(loose.json().at("tighter").size() == loose.tighter.size());
    for (const check::Alternative& each : loose.tighter) CHECK(each.narrower >= 1.5);
    // This kernel adds the terms of each output in ascending order. It is legal only if the declaration allows every
    // order of summation.
    const auto sorted = p.run([](float, float, float) { return 0.0f; });
    Floats out = sorted;
    for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
            Floats terms;
            for (std::int64_t q = 0; q < p.k; ++q)
                terms.push_back(p.a[static_cast<std::size_t>(i * p.k + q)] *
                                p.b[static_cast<std::size_t>(q * p.n + j)]);
            std::sort(terms.begin(), terms.end());
            out[static_cast<std::size_t>(i * p.n + j)] = kernels::chain(terms);
        }
    }
    CHECK(is_accepted(judge_arrays(gemm("any"), p.arrays(out))));
    const check::Checked jumps = check::check_arrays(gemm(), p.arrays(out), {}, pool());
    if (jumps.outcome == Outcome::fail) {
        CHECK(jumps.explaining == "--machine any");
        CHECK(jumps.text().find("declare --machine any") != std::string::npos);
    }
}

}  // namespace sliced_test
