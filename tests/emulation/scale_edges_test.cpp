// SPDX-License-Identifier: Apache-2.0
// Tests scale functions at the edges of fp32: zero, subnormal numbers, ties, the largest number, Inf and NaN. If a
// scale is a power of two, its expected value comes from a search over all powers of two, in long double.
#include "core/format_table.hpp"
#include "emulation/definitions.hpp"
#include "emulation/matmul/matmul.hpp"
#include "emulation/scaling/functions.hpp"
#include "emulation/scaling/scaling.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace scale_edges_test {

using namespace macheps;
namespace scale = macheps::scale_function;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), quiet_nan = std::numeric_limits<float>::quiet_NaN();

/// Returns zero, the smallest and the largest subnormal numbers, the largest number, and each power of two with its
/// neighbours and its multiples by 1.5 and 1.75.
std::vector<float> magnitudes() {
    std::vector<float> all{0.0f, 0x1p-149f, 0x1p-148f, 0x0.fffffep-126f, 0x1.fffffep127f};
    for (int e = -149; e <= 127; ++e) {
        const float power = std::ldexp(1.0f, e);
        for (const float x :
             {std::nextafter(power, 0.0f), power, std::nextafter(power, inf), power * 1.5f, power * 1.75f})
            all.push_back(x);
    }
    return all;
}

long double power_of_two(int e) { return std::ldexp(1.0L, e); }

/// Returns the smallest e8m0 byte whose number is at least x, but at most 254.
std::uint32_t byte_at_or_above(long double x) {
    std::uint32_t byte = 0;
    while (byte < 254 && power_of_two(int(byte) - 127) < x) ++byte;
    return byte;
}
int floor_log2(float x) {
    int e = -149;
    while (power_of_two(e + 1) <= static_cast<long double>(x)) ++e;
    return e;
}

const Format element_formats[] = {e4m3fn, e5m2, e2m3fn, e3m2fn, e2m1fn};
float largest(Format f) { return static_cast<float>(decode64(f, f.max_finite_code())); }

}  // namespace

TEST_CASE("e8m0 scales that are rounded up are the smallest power of two not below amax / max", "[emulation][scale]") {
    for (const Format f : element_formats) {
        const float max = largest(f);
        for (const float amax : magnitudes()) {
            const float quotient = amax * (1.0f / max);  // libraries multiply by the reciprocal
            CAPTURE(max, amax, quotient);
            CHECK(scale::te_mxfp8(amax, max) == byte_at_or_above(quotient));
            CHECK(scale::ao_rceil(amax, max) == byte_at_or_above(quotient));
        }
        CHECK(scale::te_mxfp8(inf, max) == 254);
        CHECK(scale::ao_rceil(inf, max) == 255);
        CHECK(scale::te_mxfp8(quiet_nan, max) == 255);
        CHECK(scale::ao_rceil(quiet_nan, max) == 255);
    }
    // A quotient of 2^-127 is the smallest scale itself.
    CHECK(scale::ao_rceil(0x1p-127f, 1.0f) == 0);
    CHECK(scale::ao_rceil(std::nextafter(0x1p-127f, 1.0f), 1.0f) == 1);
}

TEST_CASE("the scale rules that use log2(amax) round it down, up or to nearest as their definitions say",
          "[emulation][scale]") {
    for (const Format f : element_formats) {
        const float max = largest(f);
        const int element = floor_log2(max), fraction = f.fraction_bits();
        const auto byte = [&](int exponent) {
            return static_cast<std::uint32_t>(std::clamp(exponent - element + 127, 0, 255));
        };
        for (const float amax : magnitudes()) {
            if (amax < 0x1p-126f) {
                // The amax is below every scale, so each of the rules gives the byte 0.
                CHECK(scale::ao_floor(amax, max) == 0);
                CHECK(scale::ao_even(amax, max, fraction) == 0);
                continue;
            }
            CAPTURE(max, amax);
            const int down = floor_log2(amax),
                      up = power_of_two(down) == static_cast<long double>(amax) ? down : down + 1;
            CHECK(scale::ao_floor(amax, max) == byte(down));
            CHECK(scale::ao_ceil(amax, max) == byte(up));
            // ao_even first rounds amax, half up, to the precision of the element. If an amax is at most half a unit
            // below the next power of two, it therefore gets the scale of that power.
            const long double threshold = power_of_two(down + 1) - power_of_two(down - fraction - 1);
            const bool rounds_up = static_cast<long double>(amax) >= threshold;
            if (rounds_up && down == 127) continue;  // beyond fp32
            CHECK(scale::ao_even(amax, max, fraction) == byte(rounds_up ? down + 1 : down));
        }
        for (const float special : {inf, quiet_nan}) {
            CHECK(scale::ao_floor(special, max) == 255);
            CHECK(scale::ao_ceil(special, max) == 255);
            CHECK(scale::ao_even(special, max, fraction) == 255);
        }
    }
}

TEST_CASE("DeepGEMM's scale is the smallest power of two from 2^-126 to 2^127 that is not below amax / max",
          "[emulation][scale]") {
    for (const float amax : magnitudes()) {
        for (const float floor : {0.0f, 1e-4f}) {
            const float quotient = std::max(amax, floor) / 448.0f;
            int e = -126;
            while (e < 127 && power_of_two(e) < static_cast<long double>(quotient)) ++e;
            CAPTURE(amax, floor);
            CHECK(scale::deepgemm(amax, 448.0f, floor, true) == std::ldexp(1.0f, e));
        }
    }
    CHECK(scale::deepgemm(inf, 448.0f, 1e-4f, true) == 0x1p127f);
    CHECK(scale::deepgemm(quiet_nan, 448.0f, 1e-4f, true) == 0x1p127f);
}

TEST_CASE("current scaling uses an amax of at least eps, and a scale of 1 if the amax is not finite",
          "[emulation][scale]") {
    constexpr float eps = 0x1p-10f;
    for (const float max : {448.0f, 57344.0f}) {
        CAPTURE(max);
        for (const float amax : {0.0f, 0x1p-149f, std::nextafter(eps, 0.0f), eps})
            CHECK(scale::te_current(amax, max, eps) == max / eps);
        const float above = std::nextafter(eps, 1.0f);
        CHECK(scale::te_current(above, max, eps) == max / above);
        CHECK(scale::te_current(above, max, eps) < max / eps);
        CHECK(scale::te_current(0, max) == 1);
        for (const float special : {inf, quiet_nan}) CHECK(scale::te_current(special, max, eps) == 1);
        CHECK(scale::te_current(0x1p-149f, max) == 0x1.fffffep127f);
        CHECK(scale::te_current(0x1p-149f, max, 0, false, 65504) == 65504);
        CHECK(scale::te_current(3, max, 0, true) == std::ldexp(1.0f, floor_log2(max / 3)));
    }
}

TEST_CASE("torchao's scales use an amax of at least 1e-12, and NVFP4 block scales from 2^-6 to 448",
          "[emulation][scale]") {
    constexpr double least = 1e-12;
    const auto near = static_cast<float>(least);
    for (const float max : {448.0f, 57344.0f}) {
        CAPTURE(max);
        for (const float amax : {0.0f, 0x1p-149f, std::nextafter(near, 0.0f)})
            CHECK(scale::ao_fp8(amax, max) == static_cast<float>(max / least));
        for (const float amax : {std::nextafter(near, 1.0f), 2e-12f, 1.0f})
            CHECK(scale::ao_fp8(amax, max) == static_cast<float>(max / double{amax}));
    }
    for (const float tensor : {1.0f, 0x1p-10f}) {
        CAPTURE(tensor);
        // The e4m3fn numbers next to 2^-6 are 7/8 2^-6, the largest subnormal number, and 9/8 2^-6.
        for (const float block : {0.0f, 0x1p-20f, 0x1.cp-7f, 0x1p-6f})
            CHECK(scale::ao_nvfp4_block(block * 6 * tensor, tensor).block == 0x1p-6f);
        CHECK(scale::ao_nvfp4_block(0x1.2p-6f * 6 * tensor, tensor).block == 0x1.2p-6f);
        for (const float block : {448.0f, 480.0f, 1e6f})
            CHECK(scale::ao_nvfp4_block(block * 6 * tensor, tensor).block == 448);
    }
}

TEST_CASE("te_nvfp4_product returns the rounded product of two amaxes times a constant, rounded again",
          "[emulation][scale]") {
    const auto rounded = [](double x) {
        return static_cast<float>(x);
    };  // a product of two fp32 numbers is exact in fp64
    const double constant = rounded(1.0 / (2688.0 * 2688.0));
    for (int i = 0; i < 1000; ++i) {
        const float a = 1 + 0.001f * static_cast<float>(i), b = 3 + 0.0017f * static_cast<float>(i * i % 1009);
        CAPTURE(a, b);
        CHECK(scale::te_nvfp4_product(a, b) == rounded(rounded(double{a} * double{b}) * constant));
    }
}

TEST_CASE("decode_min and decode_max are the smallest and the largest decode scale of the groups",
          "[emulation][scale]") {
    for (const auto& amaxes :
         {std::vector<float>{1e6f, 4e6f, 2e6f}, {1e-3f, 4e-3f, 2e-3f}, {1.0f, 1e6f}, {1e6f, 1.0f}, {1e6f}}) {
        const ScaledCast how{
            .cast = {.format = e4m3fn}, .granularity = find_granularity("row"), .rule = find_scale_rule("ao_fp8")};
        std::vector<std::uint32_t> patterns;
        for (const float amax : amaxes) patterns.push_back(bit_cast<std::uint32_t>(amax));
        std::vector<float> encode(amaxes.size()), decode(amaxes.size());
        const ScaledResult result = group_scales(how, patterns, encode, decode);
        CAPTURE(amaxes.front(), amaxes.size());
        CHECK(result.decode_min == *std::min_element(decode.begin(), decode.end()));
        CHECK(result.decode_max == *std::max_element(decode.begin(), decode.end()));
    }
}

TEST_CASE("stream-K flushes subnormal sums to zero in every join except the first and the last",
          "[emulation][matmul]") {
    Matmul args{};
    args.rule.slices = 4;
    args.rule.join = SliceJoin::stream_k;
    const float tiny = 0x1p-130f, other = 0x1.8p-131f, one = 0x1p-120f;
    const auto join = [&](std::int64_t s, float sum, float partial) {
        return definition::join_slice(args, s, sum, partial, 0, 0, 0);
    };
    // The first slice is stored. The next slices are added by atomic instructions, which flush subnormal operands and
    // sums. The last slice is added in registers.
    CHECK(join(0, 77.0f, tiny) == tiny);
    for (const std::int64_t s : {1, 2}) {
        CHECK(join(s, tiny, other) == 0);
        CHECK(join(s, one, other) == one);
        CHECK(join(s, one, -std::nextafter(one, 0.0f)) == 0);  // a subnormal difference
        CHECK(join(s, one, one) == 2 * one);
    }
    CHECK(join(3, tiny, other) == 0x1.cp-130f);
    CHECK(join(3, one, other) == one + other);
    CHECK(join(3, one, -std::nextafter(one, 0.0f)) == one - std::nextafter(one, 0.0f));
}

TEST_CASE("if the number of terms is not a multiple of the lanes, the remaining terms are added to the first lane",
          "[emulation][matmul]") {
    // Lane `full` holds 2^24. The last term is 1, which is lost if it is added to that lane.
    for (const int lanes : {2, 4, 8}) {
        for (int full = 0; full < lanes; ++full) {
            for (int rest = 1; rest < lanes; ++rest) {
                const int k = lanes + rest;
                std::vector<float> a(static_cast<std::size_t>(k), 0.0f);
                const std::vector<float> b(static_cast<std::size_t>(k), 1.0f);
                a[static_cast<std::size_t>(full)] = 0x1p24f;
                a[static_cast<std::size_t>(k - 1)] = 1;
                if (full > 0) a[0] = 1;
                Matmul args{};
                args.rule.lanes = lanes;
                CAPTURE(lanes, full, rest);
                // Lane 0 is 2^24 + 1, which rounds to 2^24, or 1 + 1, which is not lost in the sum of the lanes.
                CHECK(definition::lanes_sum(args, {.a = a.data(), .b = b.data(), .a_step = 1, .b_step = 1}, 0, k) ==
                      (full == 0 ? 0x1p24f : 0x1p24f + 2));
            }
        }
    }
}

}  // namespace scale_edges_test
