// SPDX-License-Identifier: Apache-2.0
#include "core/tally.hpp"
#include "core/format_table.hpp"
#include "core/rng.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <limits>

namespace tally_test {

using namespace macheps;

namespace {

Tally tally_of(Format f, std::initializer_list<float> values, float scale = 1, Overflow overflow = Overflow::saturate) {
    Tally tally;
    for (const float x : values) tally.add(f, x, x * scale, quantize(f, x * scale, Round::nearest_even, overflow));
    return tally;
}

}  // namespace

TEST_CASE("a tally counts NaN, infinity, zero, underflow, subnormal results, overflow and saturation",
          "[core][tally]") {
    struct Case {
        float x, scale;
        std::uint64_t nan_in, inf_in, zero_in, underflow, to_subnormal, overflow, saturated;
        const char* why;
    };
    const float infinity = std::numeric_limits<float>::infinity();
    const auto c = GENERATE_COPY(values<Case>({
        {1, 1, 0, 0, 0, 0, 0, 0, 0, "nothing to report"},
        {0, 1, 0, 0, 1, 0, 0, 0, 0, "zero"},
        {-0.0f, 1, 0, 0, 1, 0, 0, 0, 0, "-0 is zero"},
        {std::numeric_limits<float>::quiet_NaN(), 1, 1, 0, 0, 0, 0, 0, 0, "NaN"},
        {-infinity, 1, 0, 1, 0, 0, 0, 0, 0, "an infinity is not an overflow: the other counts cover finite x only"},
        {0x1p-11f, 1, 0, 0, 0, 1, 0, 0, 0, "rounds to zero"},
        {-0x1p-11f, 1, 0, 0, 0, 1, 0, 0, 0, "rounds to -0"},
        {0x1p-11f, 4, 0, 0, 0, 0, 1, 0, 0, "subnormal after scaling"},
        {0x1.cp-7f, 1, 0, 0, 0, 0, 1, 0, 0, "the largest subnormal"},
        {0x1.ep-7f, 1, 0, 0, 0, 0, 0, 0, 0, "rounds up to the smallest normal number"},
        {448, 1, 0, 0, 0, 0, 0, 0, 1, "the largest value is saturated and no overflow"},
        {460, 1, 0, 0, 0, 0, 0, 1, 1, "above the largest value, although RNE rounds it to that value"},
        {-1e9f, 1, 0, 0, 0, 0, 0, 1, 1, "far beyond"},
        {1e30f, 1e30f, 0, 0, 0, 0, 0, 1, 1, "the scaled value is infinite"},
    }));
    CAPTURE(c.why);
    const Tally t = tally_of(e4m3fn, {c.x}, c.scale);
    CHECK(t.count == 1);
    CHECK(t.nan_in == c.nan_in);
    CHECK(t.inf_in == c.inf_in);
    CHECK(t.zero_in == c.zero_in);
    CHECK(t.underflow == c.underflow);
    CHECK(t.to_subnormal == c.to_subnormal);
    CHECK(t.overflow == c.overflow);
    CHECK(t.saturated == c.saturated);
    const bool finite = std::isfinite(c.x);
    CHECK(t.amax == (finite ? std::fabs(c.x) : 0.0f));
    CHECK(t.amin_nz == (finite ? std::fabs(c.x) : 0.0f));
}

TEST_CASE("values that overflow to NaN count as overflow and not as saturated", "[core][tally]") {
    const Tally t = tally_of(e4m3fn, {1000, -1000, 464, 448}, 1, Overflow::nonsaturate);
    CHECK(t.overflow == 3);
    CHECK(t.saturated == 2);  // 464 rounds to 448
}

TEST_CASE("a tally counts no subnormal results for formats without subnormals", "[core][tally]") {
    CHECK(tally_of(mxint8, {0.5f, 0x1p-6f}).to_subnormal == 0);
    CHECK(tally_of(e8m0fnu, {0x1p-127f, 1.0f}).to_subnormal == 0);
    CHECK(tally_of(mxint8, {-5.0f}).saturated == 1);
}

TEST_CASE("the tallies of the parts of an array add up to the tally of the whole array, in any order",
          "[core][tally]") {
    for (const auto& named : all_formats) {
        if (named.format == fp64) continue;
        CAPTURE(named.name);
        Tally whole, parts[3];
        for (std::uint64_t i = 0; i < 3000; ++i) {
            const float x = bit_cast<float>(random_bits({.seed = 9}, i));
            const float q = quantize(named.format, x, Round::nearest_even, Overflow::saturate);
            whole.add(named.format, x, x, q);
            parts[i % 3].add(named.format, x, x, q);
        }
        Tally forward, backward;
        for (int i = 0; i < 3; ++i) forward += parts[i];
        for (int i = 2; i >= 0; --i) backward += parts[i];
        CHECK(forward == whole);
        CHECK(backward == whole);
        CHECK(whole.count == 3000);
    }
}

}  // namespace tally_test
