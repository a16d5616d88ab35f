// SPDX-License-Identifier: Apache-2.0
#include "core/ulp.hpp"
#include "core/format_table.hpp"
#include "core/rng.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <limits>

namespace ulp_test {

using namespace macheps;

TEST_CASE("ulp follows Goldberg's definition, with gradual underflow", "[core][ulp]") {
    const auto [format, x, expected] = GENERATE(table<const char*, double, double>({
        {"fp32", 1.0, 0x1p-23},
        {"fp32", -0x1.fffffep0, 0x1p-23},
        {"fp32", 0.0, 0x1p-149},
        {"fp64", 0x1p-1074, 0x1p-1074},
        {"fp64", 1.0, 0x1p-52},
        {"e4m3fn", 0.1, 0x1p-7},      // 0.1 lies in [2^-4, 2^-3)
        {"e4m3fn", 0x1p-20, 0x1p-9},  // below the smallest subnormal
        {"e4m3fn", 448.0, 32.0},
        {"e4m3fn", 1e30, 32.0},  // beyond the largest value: the ulp of the top binade
        {"e4m3fn", std::numeric_limits<double>::infinity(), 32.0},
        {"e2m1fn", 0.3, 0.5},
        {"e8m0fnu", 5.0, 4.0},
        {"mxint8", 0.01, 0x1p-6},
        {"mxint8", 1.5, 0x1p-6},
    }));
    CAPTURE(format, x);
    CHECK(ulp(format_named(format), x) == expected);
}

TEST_CASE("rounding to nearest has an error of at most half an ulp in every format", "[core][ulp]") {
    for (const auto& named : all_formats) {
        const Format f = named.format;
        if (f.encoding == Encoding::power_of_two) continue;  // its ulp spans a binade, and ties go up
        CAPTURE(named.name);
        const double largest = decode64(f, f.max_finite_code() << f.padding);
        double worst_nearest = 0, worst_other = 0;
        for (std::uint64_t i = 0; i < 20'000; ++i) {
            // Uniform significands, with exponents from below the smallest subnormal to the top of the range.
            const auto words = random_block({.seed = 3}, i);
            const int low = f.emin() - f.precision - 1, high = exponent_of(largest);
            const int exponent =
                max_of(low, -1070) +
                static_cast<int>(words.word[1] % static_cast<std::uint32_t>(high - max_of(low, -1070) + 1));
            const double x = std::ldexp(1 + words.word[0] * 0x1p-32, exponent);
            if (x > largest) continue;
            const auto error = [&](Round mode) {
                return ulp_error(f, decode64(f, encode64(f, x, mode, Overflow::saturate)), x);
            };
            worst_nearest = max_of(worst_nearest, error(Round::nearest_even));
            worst_other = max_of(worst_other, max_of(error(Round::up), error(Round::toward_zero)));
        }
        CHECK(worst_nearest <= 0.5);
        CHECK(worst_other <= 1.0);
        if (f != fp64) CHECK(worst_nearest > 0.45);  // the bound is sharp
    }
}

TEST_CASE("neighbouring codes are one step apart, and nextafter walks over every value", "[core][ulp]") {
    for (const auto& named : all_formats) {
        const Format f = named.format;
        if (f.bits > 19) continue;
        CAPTURE(named.name);
        std::uint64_t here = from_ordinal(f, min_ordinal(f)), steps = 0, wrong = 0;
        const std::uint64_t last = from_ordinal(f, greatest_ordinal(f));
        const double end = decode64(f, last);
        CHECK(end ==
              (f.has_inf() ? std::numeric_limits<double>::infinity() : decode64(f, f.max_finite_code() << f.padding)));
        while (ordinal(f, here) != greatest_ordinal(f)) {
            const std::uint64_t next = nextafter(f, here, last);
            const bool onto_zero = decode64(f, next) == 0;
            wrong += !(decode64(f, here) < decode64(f, next)) || code_distance(f, here, next) != 1;
            wrong += std::signbit(decode64(f, next)) != (onto_zero ? f.has_negative_zero() : ordinal(f, next) < 0);
            wrong += code_distance(f, nextafter(f, next, here), here) != 0;
            here = next;
            ++steps;
        }
        CHECK(wrong == 0);
        CHECK(steps == static_cast<std::uint64_t>(greatest_ordinal(f) - min_ordinal(f)));
    }
}

TEST_CASE("nextafter handles zeros, the ends of the range and NaNs", "[core][ulp]") {
    struct Case {
        const char* format;
        std::uint64_t from, to, expected;
        const char* why;
    };
    const auto c = GENERATE(values<Case>({
        {"e4m3fn", 0x00, 0xfe, 0x81, "from zero: the smallest subnormal with the sign of the target"},
        {"e4m3fn", 0x80, 0x7e, 0x01, "from -0 as well"},
        {"e4m3fn", 0x81, 0x7e, 0x80, "onto zero: the sign stays"},
        {"e4m3fn", 0x00, 0x80, 0x80, "equal values give the target"},
        {"e4m3fn", 0x7e, 0x7e, 0x7e, "the largest value is never stepped over"},
        {"e4m3fn", 0x7f, 0x00, 0x7f, "NaN"},
        {"e4m3fn", 0x00, 0xff, 0x7f, "NaN is canonical"},
        {"e5m2", 0x7b, 0x7c, 0x7c, "the largest value to infinity"},
        {"e5m2", 0xfc, 0x00, 0xfb, "back from infinity"},
        {"e4m3fnuz", 0x81, 0x00, 0x00, "no -0: the result is zero, not NaN"},
        {"e8m0fnu", 0x00, 0xfe, 0x01, "no zero below the smallest scale"},
        {"mxint8", 0x00, 0x80, 0xff, "two's complement"},
        {"mxint8", 0x81, 0x80, 0x80, "down to -2"},
        {"tf32", 0x3f800000, 0x7f800000, 0x3f802000, "steps of the 19 bits"},
    }));
    CAPTURE(c.format, c.why);
    CHECK(nextafter(format_named(c.format), c.from, c.to) == c.expected);
}

TEST_CASE("nextafter in fp32 agrees with the C library, and code_distance counts steps across zero", "[core][ulp]") {
    const float values[] = {0.0f,      -0.0f,           1.0f,     -1.0f,    0x1p-149f, -0x1p-149f,
                            0x1p-126f, 0x1.fffffep127f, INFINITY, -INFINITY};
    for (const float a : values) {
        for (const float b : values) {
            CAPTURE(a, b);
            CHECK(nextafter(fp32, bit_cast<std::uint32_t>(a), bit_cast<std::uint32_t>(b)) ==
                  bit_cast<std::uint32_t>(std::nextafter(a, b)));
        }
    }
    CHECK(code_distance(fp32, 0x80000001, 0x00000001) == 2);
    CHECK(code_distance(fp64, 0xfff0000000000000, 0x7ff0000000000000) == 0xffe0000000000000);
}

TEST_CASE("digits10 and max_digits10 of each format have the expected values", "[core][ulp]") {
    const auto [name, max, least] = GENERATE(table<const char*, int, int>({
        {"fp64", 17, 15},
        {"fp32", 9, 6},
        {"tf32", 5, 3},
        {"fp16", 5, 3},
        {"bf16", 4, 2},
        {"e3m4", 3, 1},
        {"e4m3fn", 3, 0},
        {"e4m3fnuz", 3, 0},
        {"e4m3b11fnuz", 3, 0},
        {"e4m3ieee", 3, 0},
        {"e5m2", 2, 0},
        {"e5m2fnuz", 2, 0},
        {"e2m3fn", 3, 0},
        {"e3m2fn", 2, 0},
        {"e2m1fn", 2, 0},
        {"e8m0fnu", 2, 0},
    }));
    CAPTURE(name);
    CHECK(max_digits10(format_named(name)) == max);
    CHECK(digits10(format_named(name)) == least);
}

}  // namespace ulp_test
