// SPDX-License-Identifier: Apache-2.0
// Tests declarations of how a matrix product converts its operands and rounds its outputs. If a declaration allows
// every usual conversion, a kernel must still use the same conversion for all outputs. The bounds cover each conversion
// separately, and do not add up the errors of all conversions.
#include "experiments/check/checked.hpp"
#include "tests/check/problems.hpp"

namespace product_declarations_test {

using namespace macheps;
using namespace macheps::test;

namespace {

struct Product {
    std::int64_t m = 24, n = 40, k = 128;
    Floats a, b;

    explicit Product(unsigned seed) {
        std::mt19937 random(seed);
        a = normal(static_cast<std::size_t>(m * k), random);
        b = normal(static_cast<std::size_t>(k * n), random);
    }
    /// Applies `convert` to the operands, adds their products in a chain of fma, and applies `store` to each sum.
    template <class Convert, class Store>
    Floats run(Convert convert, Store store) const {
        Floats out;
        for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
                float sum = 0;
                for (std::int64_t p = 0; p < k; ++p)
                    sum = std::fma(convert(a[static_cast<std::size_t>(i * k + p)]),
                                   convert(b[static_cast<std::size_t>(p * n + j)]), sum);
                out.push_back(store(sum));
            }
        }
        return out;
    }
    check::Verdict judge(const Floats& out, const std::vector<std::pair<const char*, std::string>>& keys,
                         Store store = Store::fp32, const check::Options& options = {}) const {
        check::Declaration d = declare("gemm", store);
        for (const auto& [key, value] : keys) check::declare(d, key, value);
        return judge_arrays(d, {array("a", {m, k}, a), array("b", {k, n}, b), array("out", {m, n}, out, store)},
                            options);
    }
};

float same(float x) { return x; }
// The next three functions round to tf32. They work on the bits of fp32, which has 13 more fraction bits than tf32.
float tf32_cut(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffffe000u); }
float tf32_away(float x) { return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000u) & 0xffffe000u); }
float tf32_even(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    return std::bit_cast<float>((bits + 0xfffu + ((bits >> 13) & 1)) & 0xffffe000u);
}
float bf16_away(float x) { return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x8000u) & 0xffff0000u); }

}  // namespace

TEST_CASE(
    "if a declaration allows every usual conversion of operands, a kernel must use the same conversion for all outputs",
    "[check][declarations]") {
    const Product p(31);
    for (float (*convert)(float) : {same, tf32_cut, tf32_away, tf32_even}) {
        const check::Verdict v = p.judge(p.run(convert, same), {{"operands", "any"}});
        CAPTURE(codes(v));
        CHECK(is_accepted(v));
    }
    const Floats exact = p.run(same, same);
    Floats scaled = exact, halved = exact;
    for (float& y : scaled) y *= 1.0005f;
    CHECK(codes(p.judge(scaled, {{"operands", "any"}})).starts_with("KC020"));
    CHECK(codes(p.judge(p.run(kernels::to_bf16, same), {{"operands", "any"}})).starts_with("KC020"));
    // Half of the outputs use one conversion and half use another.
    const Floats cut = p.run(tf32_cut, same);
    std::copy(cut.begin(), cut.begin() + static_cast<std::ptrdiff_t>(cut.size() / 2), halved.begin());
    CHECK(codes(p.judge(halved, {{"operands", "any"}})).starts_with("KC020"));
    // The kernel has to use the conversion that it declares.
    CHECK(is_accepted(p.judge(p.run(tf32_even, same), {{"operands", "tf32:nearest_even"}})));
    CHECK_FALSE(is_accepted(p.judge(p.run(tf32_even, same), {{"operands", "tf32:nearest_away"}})));
}

TEST_CASE("truncated or stochastically rounded outputs of a product pass only if this is declared",
          "[check][declarations]") {
    const Product p(32);
    const Floats cut = p.run(same, kernels::truncated_to_bf16), near = p.run(same, kernels::to_bf16),
                 away = p.run(same, bf16_away);
    std::mt19937 random(33);
    const Floats chance = p.run(same, [&](float x) {
        return std::bit_cast<float>(
            (std::bit_cast<std::uint32_t>(x) + (static_cast<std::uint32_t>(random()) & 0xffffu)) & 0xffff0000u);
    });
    const auto verdict = [&](const Floats& out, const char* mode, std::int64_t every = 1) {
        return p.judge(out, {{"rounding", mode}}, Store::bf16, {.sampling = {.every = every}});
    };
    for (const std::int64_t every : {1, 4}) {
        CAPTURE(every);
        CHECK(is_accepted(verdict(near, "nearest_even", every)));
        CHECK(is_accepted(verdict(cut, "toward_zero", every)));
        CHECK(is_accepted(verdict(away, "nearest_away", every)));
        CHECK(is_accepted(verdict(chance, "stochastic", every)));
        CHECK_FALSE(is_accepted(verdict(cut, "nearest_even", every)));
        CHECK_FALSE(is_accepted(verdict(near, "toward_zero", every)));
    }
    CHECK_FALSE(is_accepted(verdict(chance, "nearest_even")));
    CHECK(codes(verdict(cut, "stochastic")).find("KC033") != std::string::npos);
    // If truncation is declared, the check does not simulate it as a wrong kernel.
    for (const check::Mutant& mutant : verdict(cut, "toward_zero").mutants) CHECK(mutant.name != "output truncated");
}

TEST_CASE("the bits that a declared machine must give depend on the declared rounding of outputs",
          "[check][declarations]") {
    const Product p(34);
    const Floats cut = p.run(same, kernels::truncated_to_bf16);
    const auto bits = [&](const char* mode) {
        return p.judge(cut, {{"machine", "fp32.chain"}, {"bits", "true"}, {"rounding", mode}}, Store::bf16).bits;
    };
    CHECK(bits("toward_zero")->differ == 0);
    CHECK(bits("nearest_even")->differ > 0);
    CHECK_THROWS_WITH(bits("stochastic"), Catch::Contains("stochastic rounding does not determine the bits"));
}

}  // namespace product_declarations_test
