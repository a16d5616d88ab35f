// SPDX-License-Identifier: Apache-2.0
#include "core/rng.hpp"
#include "tests/test.hpp"

#include <array>
#include <bit>
#include <set>

namespace philox_test {

using namespace macheps;

TEST_CASE("Philox4x32-10 gives the known answers of Random123", "[core][rng]") {
    struct Case {
        PhiloxBlock counter;
        std::uint32_t key0, key1;
        PhiloxBlock expected;
    };
    const auto c = GENERATE(values<Case>({
        {{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         0xffffffff,
         0xffffffff,
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         0xa4093822,
         0x299f31d0,  // the digits of pi
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    }));
    const auto got = philox4x32_10(c.counter, c.key0, c.key1);
    for (int i = 0; i < 4; ++i) CHECK(got.word[i] == c.expected.word[i]);
}

TEST_CASE("a stream of random bits depends only on seed, step, site and element", "[core][rng]") {
    // The last test vector above (digits of pi) as an RngKey: counter = (block, step, site), key = seed.
    const RngKey key{.seed = 0x299f31d0a4093822, .step = 0x13198a2e, .site = 0x03707344};
    const std::uint64_t block = 0x85a308d3243f6a88;
    const std::uint32_t expected[] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    for (int i = 0; i < 4; ++i) CHECK(random_block(key, block).word[i] == expected[i]);
    const RngKey other{.seed = 5, .step = 6, .site = 7};
    for (std::uint64_t i = 0; i < 64; ++i) CHECK(random_bits(other, i) == random_block(other, i / 4).word[i % 4]);

    std::set<std::uint32_t> firsts;
    for (const auto& k :
         {RngKey{}, RngKey{.seed = 1}, RngKey{.seed = std::uint64_t{1} << 32}, RngKey{.step = 1}, RngKey{.site = 1}}) {
        firsts.insert(random_bits(k, 0));
    }
    CHECK(firsts.size() == 5);
}

TEST_CASE("each of the 32 random bits is 1 with probability one half", "[core][rng]") {
    std::array<int, 32> ones{};
    constexpr int n = 1 << 16;
    for (std::uint64_t i = 0; i < n; ++i) {
        const auto word = random_bits({.seed = 42}, i);
        for (int bit = 0; bit < 32; ++bit) ones[static_cast<std::size_t>(bit)] += static_cast<int>(word >> bit & 1);
    }
    // Binomial(n, 1/2) has the standard deviation sqrt(n) / 2 = 128. The probability that any of 32 counts of a fair
    // generator is off by more than five standard deviations is 1 / 5e4.
    for (const int count : ones) CHECK(std::abs(count - n / 2) < 5 * 128);
}

TEST_CASE("the id of a site is the FNV-1a hash of its name", "[core][rng]") {
    CHECK(site_id("") == 0x811c9dc5);
    CHECK(site_id("a") == 0xe40c292c);
    CHECK(site_id("foobar") == 0xbf9cf968);
}

}  // namespace philox_test
