// SPDX-License-Identifier: Apache-2.0
// Compares the fused multiply-add of core/hd.hpp, with and without an instruction for it, with integer arithmetic.
#include "core/arithmetic.hpp"
#include "core/format_table.hpp"
#include "core/hd.hpp"
#include "core/rng.hpp"
#include "tests/test.hpp"

#include <cmath>

namespace fma_test {

using namespace macheps;

namespace {

struct Triple {
    std::uint32_t a, b, c;
};

/// Returns the result of core/arithmetic.hpp, which uses integers only.
std::uint32_t by_integers(const Triple& t) { return static_cast<std::uint32_t>(fma(fp32, t.a, t.b, t.c).bits); }

std::uint32_t bits_of(float x) { return std::isnan(x) ? 0x7fc00000 : bit_cast<std::uint32_t>(x); }
std::uint32_t by_doubles(const Triple& t) {
    return bits_of(fma_by_doubles(bit_cast<float>(t.a), bit_cast<float>(t.b), bit_cast<float>(t.c)));
}
std::uint32_t by_default(const Triple& t) {
    return bits_of(macheps::fma(bit_cast<float>(t.a), bit_cast<float>(t.b), bit_cast<float>(t.c)));
}

/// Returns a float with the given exponent and a significand with few or many bits, which makes midpoints and long
/// cancellations frequent.
std::uint32_t drawn(std::uint64_t random, int exponent) {
    const auto biased = static_cast<std::uint32_t>(max_of(0, min_of(254, exponent + 127)));
    std::uint32_t fraction = static_cast<std::uint32_t>(random) & 0x7fffff;
    switch (random >> 32 & 3) {
        case 0:
            fraction = 1u << (random >> 40) % 23;
            break;
        case 1:
            fraction &= 0x7ff000;
            break;
        case 2:
            fraction = 0x7fffff - (1u << (random >> 40) % 23);
            break;
        default:
            break;
    }
    return static_cast<std::uint32_t>(random >> 63) << 31 | biased << 23 | fraction;
}

/// Returns the triple number `i`. Half of the products and sums are near or below the smallest normal number, and c is
/// between 60 bits smaller and 30 bits larger than the product.
Triple directed(std::uint64_t i) {
    const auto word = [&](std::uint32_t n) {
        const PhiloxBlock block = random_block({.seed = 0x666d61, .step = n}, i);
        return std::uint64_t{block.word[0]} << 32 | block.word[1];
    };
    const std::uint64_t range = word(0);
    const int product = i % 2 == 0 ? -152 + static_cast<int>(range % 40) : -140 + static_cast<int>(range % 280);
    const int first = -120 + static_cast<int>((range >> 16) % 240);
    const int addend = product - 60 + static_cast<int>((range >> 32) % 90);
    return {drawn(word(1), first), drawn(word(2), product - first), drawn(word(3), addend)};
}

void compare(std::uint64_t first, std::uint64_t count) {
    std::uint64_t wrong = 0, subnormal = 0;
    for (std::uint64_t i = first; i < first + count; ++i) {
        const Triple t = directed(i);
        const std::uint32_t expected = by_integers(t);
        subnormal += (expected & 0x7f800000) == 0 && (expected & 0x7fffff) != 0;
        if (by_doubles(t) == expected && by_default(t) == expected) continue;
        if (++wrong > 5) continue;
        CAPTURE(i, t.a, t.b, t.c);
        CHECK(by_doubles(t) == expected);
        CHECK(by_default(t) == expected);
    }
    CHECK(wrong == 0);
    CHECK(subnormal > count / 10);
}

}  // namespace

TEST_CASE("fma rounds once, also if the result is subnormal or the host has no instruction for it", "[core][fma]") {
    struct Case {
        Triple triple;
        std::uint32_t result;
        const char* why;
    };
    constexpr Case cases[] = {
        {{0x97000800, 0x1cfff001, 0x00010002}, 0x00010001, "musl's fmaf rounds twice and returns 0x00010002"},
        {{0x3f800000, 0x3f800000, 0x33800000}, 0x3f800000, "1 + 2^-24 is halfway, and 1 is even"},
        {{0x3f800001, 0x3f800000, 0x33800000}, 0x3f800002, "halfway, and the lower neighbour is odd"},
        {{0x3f800001, 0x33800001, 0x3f800000}, 0x3f800001, "just above halfway"},
        {{0x3f7fffff, 0x33800000, 0x3f800000}, 0x3f800000, "just below halfway"},
        {{0x00000001, 0x00000001, 0x80000000}, 0x00000000, "2^-298 - 0 rounds to +0"},
        {{0x80000001, 0x00000001, 0x00000000}, 0x80000000, "-2^-298 + 0 rounds to -0"},
        {{0x00000001, 0x00000001, 0x00000001}, 0x00000001, "2^-149 + 2^-298"},
        {{0x00000001, 0x3f000000, 0x00000000}, 0x00000000, "half of the smallest number is halfway to 0"},
        {{0x00000001, 0x3f000001, 0x00000000}, 0x00000001, "more than half of the smallest number"},
        {{0x3f800000, 0x3f800000, 0xbf800000}, 0x00000000, "1 - 1 = +0"},
        {{0x7f7fffff, 0x3f800000, 0x73000000}, 0x7f800000, "the largest number and half of its spacing"},
        {{0x7f7fffff, 0x40000000, 0xff7fffff}, 0x7f7fffff, "the product alone would overflow"},
        {{0x7f800000, 0x00000000, 0x3f800000}, 0x7fc00000, "infinity times 0"},
        {{0x7f800000, 0x3f800000, 0xff800000}, 0x7fc00000, "infinity - infinity"},
        {{0x7f800000, 0xbf800000, 0x3f800000}, 0xff800000, "-infinity + 1"},
        {{0x7fd00000, 0x3f800000, 0x3f800000}, 0x7fc00000, "NaN"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.why);
        CHECK(by_integers(c.triple) == c.result);
        CHECK(by_doubles(c.triple) == c.result);
        CHECK(by_default(c.triple) == c.result);
    }
    compare(0, 200'000);
}

TEST_CASE("fma of 4 million directed triples rounds once", "[core][fma][slow]") { compare(1'000'000, 4'000'000); }

}  // namespace fma_test
