// SPDX-License-Identifier: Apache-2.0
// Compares the exact oracle with std::fma and with the conversion from double to float. Both are correctly rounded.
#include "tests/oracle/exact_dot.hpp"

#include "tests/test.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <vector>

namespace exact_dot_test {

using namespace macheps::oracle;

namespace {

std::uint32_t bits(float x) { return std::isnan(x) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(x); }

/// Returns numbers near which rounding changes its direction, and special values, with both signs.
std::vector<float> hard_values() {
    std::vector<float> values;
    for (const float x : {0.0f,
                          0x1p-149f,
                          0x1.8p-148f,
                          0x1p-127f,
                          0x0.fffffep-126f,
                          0x1p-126f,
                          0x1.000002p-126f,
                          0x1p-75f,
                          0x1.8p-75f,
                          0x1p-74f,
                          0x1p-25f,
                          0x1p-24f,
                          0x1.000002p-24f,
                          0x1p-23f,
                          0x1.fffffep-1f,
                          1.0f,
                          0x1.000002p0f,
                          0x1.800002p0f,
                          3.0f,
                          0x1p23f,
                          0x1.000002p24f,
                          0x1.fffffep63f,
                          0x1p64f,
                          0x1.fffffep103f,
                          0x1p127f,
                          0x1.fffffep127f,
                          std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
        values.push_back(x);
        values.push_back(-x);
    }
    return values;
}

struct Mismatches {
    std::size_t count = 0;
    void compare(float a, float b, float c) {
        const float expected = std::fma(a, b, c), found = fma_exact(a, b, c);
        if (bits(expected) == bits(found)) return;
        if (count++ < 10)
            UNSCOPED_INFO(std::hexfloat << "fma(" << a << ", " << b << ", " << c << ") = " << expected
                                        << " but fma_exact gives " << found);
    }
};

}  // namespace

TEST_CASE("the exact fma gives the listed results", "[oracle][exact]") {
    const float inf = std::numeric_limits<float>::infinity();
    const auto [a, b, c, result, why] = GENERATE_COPY(table<float, float, float, float, const char*>(
        {{0x1p-24f, 1, 1, 1, "tie: even is below"},
         {0x1p-24f, 1, 0x1.000002p0f, 0x1.000004p0f, "tie: even is above"},
         {0x1.000002p-24f, 1, 1, 0x1.000002p0f, "just above the tie"},
         {0x1.000002p0f, 0x1.000002p0f, -0x1.000004p0f, 0x1p-46f, "a part that a rounded product would lose"},
         {0x1p-75f, 0x1p-75f, 0, 0, "tie between zero and the smallest subnormal"},
         {0x1p-75f, 0x1.8p-75f, 0, 0x1p-149f, "above that tie"},
         {-0x1p-75f, 0x1p-76f, 0, -0.0f, "a negative number underflows to -0"},
         {0x0.fffffep-126f, 1, 0x1p-149f, 0x1p-126f, "the largest subnormal and one ulp"},
         {0x1p-140f, 0x1p-140f, 1, 1, "far below"},
         {0x1.fffffep127f, 1, 0x1p103f, inf, "tie at the top goes to infinity"},
         {0x1.fffffep127f, 1, 0x1.fffffep102f, 0x1.fffffep127f, "just below that tie"},
         {0x1p127f, 2, -0x1p127f, 0x1p127f, "the product alone would be infinite"},
         {1, -1, 1, 0.0f, "cancellation is +0"},
         {0, -1, -0.0f, -0.0f, "two negative zeros"},
         {0, -1, 0, 0.0f, "zeros of both signs"}}));
    CAPTURE(why);
    CHECK(bits(fma_exact(a, b, c)) == bits(result));
}

TEST_CASE("the exact fma agrees with std::fma on all triples of hard values", "[oracle][exact]") {
    Mismatches mismatches;
    const std::vector<float> values = hard_values();
    for (const float a : values)
        for (const float b : values)
            for (const float c : values) mismatches.compare(a, b, c);
    CHECK(mismatches.count == 0);
}

TEST_CASE("the exact fma agrees with std::fma on random and on nearly cancelling operands", "[oracle][exact]") {
    std::mt19937 random(1);
    const auto any = [&] { return std::bit_cast<float>(static_cast<std::uint32_t>(random())); };
    Mismatches mismatches;
    for (int i = 0; i < 50000; ++i) {
        const float a = any(), b = any();
        mismatches.compare(a, b, any());
        // c is -a b or a number next to it, so that only the low bits of the product remain.
        mismatches.compare(a, b, std::bit_cast<float>(bits(-a * b) + static_cast<std::uint32_t>(random() % 5) - 2));
        // These products are subnormal or tiny.
        const float tiny = std::ldexp(a, -std::ilogb(a == 0 || !std::isfinite(a) ? 1.0f : a) - 70);
        const float small =
            std::ldexp(b, -std::ilogb(b == 0 || !std::isfinite(b) ? 1.0f : b) - 60 - static_cast<int>(random() % 24));
        mismatches.compare(tiny, small, std::bit_cast<float>(static_cast<std::uint32_t>(random() % 3)));
    }
    CHECK(mismatches.count == 0);
}

TEST_CASE("rounding an exact number agrees with the conversion from double", "[oracle][exact]") {
    std::mt19937_64 random(2);
    std::size_t wrong = 0, overflows = 0, subnormals = 0;
    for (int i = 0; i < 50000; ++i) {
        const auto significand = static_cast<long long>(random() >> (11 + random() % 40));  // at most 53 bits: exact
        const int exponent = static_cast<int>(random() % 340) - 220;
        const double value = std::ldexp(static_cast<double>(i % 2 ? significand : -significand), exponent);
        const float expected = static_cast<float>(value);
        overflows += std::isinf(expected);
        subnormals += expected != 0 && std::fabs(expected) < 0x1p-126f;
        // x is the same number with trailing zeros, because its representation must not matter.
        const Exact one{1LL << i % 60, -(i % 60)};
        const Exact x = Exact{i % 2 ? significand : -significand, exponent} * one;
        wrong += expected != round_exact_to_fp32(x) || std::signbit(expected) != std::signbit(round_exact_to_fp32(x));
    }
    CHECK(wrong == 0);
    CHECK(overflows > 100);
    CHECK(subnormals > 1000);
}

TEST_CASE("the chain rounds after every term, and the exact dot product never rounds", "[oracle][exact]") {
    const std::vector<float> ones{1, 1, 1};
    const std::vector<float> lost{0x1p100f, 1, -0x1p100f};
    CHECK(chain_fma_exact(lost, ones) == 0);
    CHECK(round_exact_to_fp32(dot_exact(lost, ones)) == 1);
    CHECK(bits(chain_fma_exact({}, {})) == 0);
    CHECK(bits(round_exact_to_fp32(dot_exact({}, {}))) == 0);

    std::mt19937 random(3);
    std::vector<float> a, b;  // every |a[k]| is below 2; some are subnormal
    for (int k = 0; k < 500; ++k) {
        a.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0xbfffffffu));
        b.push_back(std::ldexp(static_cast<float>(random()), -static_cast<int>(random() % 64)));
    }
    float chain = 0;
    for (std::size_t k = 0; k < a.size(); ++k) chain = std::fma(a[k], b[k], chain);
    CHECK(std::isfinite(chain));
    CHECK(bits(chain_fma_exact(a, b)) == bits(chain));

    // The exact sum does not depend on the order, and adding the negative of a sum gives zero.
    const Exact forwards = dot_exact(a, b);
    std::vector<float> back_a(a.rbegin(), a.rend()), back_b(b.rbegin(), b.rend());
    const Exact backwards = dot_exact(back_a, back_b);
    CHECK((forwards + Exact{-backwards.significand, backwards.exponent}).significand == 0);
    CHECK(round_exact_to_fp32(forwards) == round_exact_to_fp32(backwards));
}

}  // namespace exact_dot_test
