// SPDX-License-Identifier: Apache-2.0
// Tests the codec with tables of expected codes. A table has a row for each known trap, and a column for each of the
// five rounding modes that hardware offers. Inputs are fp32 bit patterns.
#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace codec_test {

using namespace macheps;

namespace {

/// The codes that one rounding mode gives for an input: without saturation, and with saturation. A Codes made from a
/// single code has this code for both.
struct Codes {
    std::uint32_t nonsaturate, saturate;
    constexpr Codes(std::uint32_t both) : nonsaturate(both), saturate(both) {}
    constexpr Codes(std::uint32_t n, std::uint32_t s) : nonsaturate(n), saturate(s) {}
};

struct Row {
    const char* format;
    std::uint32_t input;
    Codes nearest_even, toward_zero, nearest_away, up, down;
    const char* why;
};

void check(const Row& row) {
    const Format f = format_named(row.format);
    const auto x = bit_cast<float>(row.input);
    CAPTURE(row.format, row.why, x);
    const std::pair<Round, Codes> columns[] = {{Round::nearest_even, row.nearest_even},
                                               {Round::toward_zero, row.toward_zero},
                                               {Round::nearest_away, row.nearest_away},
                                               {Round::up, row.up},
                                               {Round::down, row.down}};
    for (const auto& [mode, codes] : columns) {
        CAPTURE(static_cast<int>(mode));
        CHECK(encode(f, x, mode, Overflow::nonsaturate) == codes.nonsaturate);
        CHECK(encode(f, x, mode, Overflow::saturate) == codes.saturate);
        // The same number from fp64 gives the same code.
        CHECK(encode(f, static_cast<double>(x), mode, Overflow::nonsaturate) == codes.nonsaturate);
    }
}

}  // namespace

TEST_CASE("e4m3fn rounds and overflows at its boundaries", "[core][codec]") {
    const Row rows[] = {
        {"e4m3fn", 0x43e7ffff, 0x7e, 0x7e, 0x7e, {0x7f, 0x7e}, 0x7e, "just below 464"},
        {"e4m3fn", 0x43e80000, 0x7e, 0x7e, {0x7f, 0x7e}, {0x7f, 0x7e}, 0x7e, "464, tie between 448 and the NaN slot"},
        {"e4m3fn", 0x43e80001, {0x7f, 0x7e}, 0x7e, {0x7f, 0x7e}, {0x7f, 0x7e}, 0x7e, "just above 464"},
        {"e4m3fn", 0xc3e80001, {0xff, 0xfe}, 0xfe, {0xff, 0xfe}, 0xfe, {0xff, 0xfe}, "just below -464"},
        {"e4m3fn", 0x7f800000, {0x7f, 0x7e}, {0x7f, 0x7e}, {0x7f, 0x7e}, {0x7f, 0x7e}, {0x7f, 0x7e}, "infinity"},
        {"e4m3fn", 0x3f880000, 0x38, 0x38, 0x39, 0x39, 0x38, "1.0625, tie"},
        {"e4m3fn", 0x3f980000, 0x3a, 0x39, 0x3a, 0x3a, 0x39, "1.1875, tie"},
        {"e4m3fn", 0xbf880001, 0xb9, 0xb8, 0xb9, 0xb8, 0xb9, "just below -1.0625"},
        {"e4m3fn", 0x3c780000, 0x08, 0x07, 0x08, 0x08, 0x07, "tie carries a subnormal into the normals"},
        {"e4m3fn", 0x3b400000, 0x02, 0x01, 0x02, 0x02, 0x01, "1.5 smallest subnormals, tie"},
        {"e4m3fn", 0x3ba00000, 0x02, 0x02, 0x03, 0x03, 0x02, "2.5 smallest subnormals, tie"},
        {"e4m3fn", 0x3a800000, 0x00, 0x00, 0x01, 0x01, 0x00, "half the smallest subnormal: a tie, and zero is even"},
        {"e4m3fn", 0x3a800001, 0x01, 0x00, 0x01, 0x01, 0x00, "just above the tie"},
        {"e4m3fn", 0xba800000, 0x80, 0x80, 0x81, 0x80, 0x81, "its negative"},
        {"e4m3fn", 0x00000001, 0x00, 0x00, 0x00, 0x01, 0x00, "the smallest fp32 number"},
        {"e4m3fn", 0x80000000, 0x80, 0x80, 0x80, 0x80, 0x80, "-0"},
    };
    for (const auto& row : rows) check(row);
}

TEST_CASE("e5m2, fnuz and IEEE-like fp8 round and overflow at their boundaries", "[core][codec]") {
    const Row rows[] = {
        {"e5m2", 0x476fffff, 0x7b, 0x7b, 0x7b, {0x7c, 0x7b}, 0x7b, "just below 61440"},
        {"e5m2", 0x47700000, {0x7c, 0x7b}, 0x7b, {0x7c, 0x7b}, {0x7c, 0x7b}, 0x7b, "61440: the tie goes up"},
        {"e5m2", 0xc7700000, {0xfc, 0xfb}, 0xfb, {0xfc, 0xfb}, 0xfb, {0xfc, 0xfb}, "its negative"},
        {"e5m2", 0x7f800000, {0x7c, 0x7b}, {0x7c, 0x7b}, {0x7c, 0x7b}, {0x7c, 0x7b}, {0x7c, 0x7b}, "infinity"},
        {"e5m2", 0x3f900000, 0x3c, 0x3c, 0x3d, 0x3d, 0x3c, "1.125, tie"},
        {"e5m2", 0x37000000, 0x00, 0x00, 0x01, 0x01, 0x00, "half the smallest subnormal"},
        {"e5m2", 0x37c00000, 0x02, 0x01, 0x02, 0x02, 0x01, "1.5 smallest subnormals"},
        {"e4m3fnuz", 0x43780000, {0x80, 0x7f}, 0x7f, {0x80, 0x7f}, {0x80, 0x7f}, 0x7f, "248"},
        {"e4m3fnuz", 0xba000000, 0x00, 0x00, 0x81, 0x00, 0x81, "a negative zero loses its sign"},
        {"e4m3fnuz", 0x80000000, 0x00, 0x00, 0x00, 0x00, 0x00, "-0 would be the NaN"},
        {"e4m3b11fnuz", 0x41f80000, {0x80, 0x7f}, 0x7f, {0x80, 0x7f}, {0x80, 0x7f}, 0x7f, "31"},
        {"e4m3ieee", 0x43780000, {0x78, 0x77}, 0x77, {0x78, 0x77}, {0x78, 0x77}, 0x77, "248"},
        {"e3m4", 0x417c0000, {0x70, 0x6f}, 0x6f, {0x70, 0x6f}, {0x70, 0x6f}, 0x6f, "15.75"},
    };
    for (const auto& row : rows) check(row);
}

TEST_CASE("fp4 and fp6 round at their boundaries and always saturate", "[core][codec]") {
    const Row rows[] = {
        {"e2m1fn", 0x40a00000, 0x6, 0x6, 0x7, 0x7, 0x6, "5"},
        {"e2m1fn", 0x40600000, 0x6, 0x5, 0x6, 0x6, 0x5, "3.5"},
        {"e2m1fn", 0x40200000, 0x4, 0x4, 0x5, 0x5, 0x4, "2.5"},
        {"e2m1fn", 0x3fe00000, 0x4, 0x3, 0x4, 0x4, 0x3, "1.75"},
        {"e2m1fn", 0x3fa00000, 0x2, 0x2, 0x3, 0x3, 0x2, "1.25"},
        {"e2m1fn", 0x3f400000, 0x2, 0x1, 0x2, 0x2, 0x1, "0.75"},
        {"e2m1fn", 0x3e800000, 0x0, 0x0, 0x1, 0x1, 0x0, "0.25"},
        {"e2m1fn", 0xbe800000, 0x8, 0x8, 0x9, 0x8, 0x9, "-0.25"},
        {"e2m1fn", 0xff800000, 0xf, 0xf, 0xf, 0xf, 0xf, "-infinity"},
        {"e2m3fn", 0x3d800000, 0x00, 0x00, 0x01, 0x01, 0x00, "0.0625"},
        {"e2m3fn", 0x3f700000, 0x08, 0x07, 0x08, 0x08, 0x07, "0.9375"},
        {"e3m2fn", 0x3e600000, 0x04, 0x03, 0x04, 0x04, 0x03, "0.21875"},
        {"e3m2fn", 0x3d000000, 0x00, 0x00, 0x01, 0x01, 0x00, "2^-5"},
    };
    for (const auto& row : rows) check(row);
}

TEST_CASE("fp16, bf16 and tf32 round and overflow at their boundaries", "[core][codec]") {
    const Row rows[] = {
        {"fp16", 0x477fefff, 0x7bff, 0x7bff, 0x7bff, {0x7c00, 0x7bff}, 0x7bff, "just below 65520"},
        {"fp16", 0x477ff000, {0x7c00, 0x7bff}, 0x7bff, {0x7c00, 0x7bff}, {0x7c00, 0x7bff}, 0x7bff, "65520"},
        {"fp16", 0x3f801000, 0x3c00, 0x3c00, 0x3c01, 0x3c01, 0x3c00, "tie above 1"},
        {"fp16", 0x387fe000, 0x0400, 0x03ff, 0x0400, 0x0400, 0x03ff, "tie carries a subnormal into the normals"},
        {"fp16", 0x33000000, 0x0000, 0x0000, 0x0001, 0x0001, 0x0000, "half the smallest subnormal"},
        {"fp16", 0xb3000000, 0x8000, 0x8000, 0x8001, 0x8000, 0x8001, "its negative"},
        {"bf16", 0x7f7f8000, {0x7f80, 0x7f7f}, 0x7f7f, {0x7f80, 0x7f7f}, {0x7f80, 0x7f7f}, 0x7f7f, "the tie goes up"},
        {"bf16", 0x3f808000, 0x3f80, 0x3f80, 0x3f81, 0x3f81, 0x3f80, "tie above 1"},
        {"bf16", 0x3f818000, 0x3f82, 0x3f81, 0x3f82, 0x3f82, 0x3f81, "tie above an odd code"},
        {"bf16", 0x00008000, 0x0000, 0x0000, 0x0001, 0x0001, 0x0000, "half the smallest subnormal"},
        {"bf16", 0x00018000, 0x0002, 0x0001, 0x0002, 0x0002, 0x0001, "1.5 smallest subnormals"},
        {"tf32", 0x3f801000, 0x3f800000, 0x3f800000, 0x3f802000, 0x3f802000, 0x3f800000, "tie above 1"},
        {"tf32", 0x3f803000, 0x3f804000, 0x3f802000, 0x3f804000, 0x3f804000, 0x3f802000, "tie above an odd code"},
        {"tf32",
         0x7f7ff000,
         {0x7f800000, 0x7f7fe000},
         0x7f7fe000,
         {0x7f800000, 0x7f7fe000},
         {0x7f800000, 0x7f7fe000},
         0x7f7fe000,
         "the tie goes up"},
        {"tf32", 0x00001000, 0x00000000, 0x00000000, 0x00002000, 0x00002000, 0x00000000, "half the smallest subnormal"},
    };
    for (const auto& row : rows) check(row);
}

TEST_CASE(
    "the largest fp32 number that rounds to the maximum of a format is directly followed by the first that overflows",
    "[core][codec]") {
    struct Case {
        const char* format;
        std::uint32_t last, max, overflowed;
    };
    const auto c = GENERATE(values<Case>({{"fp16", 0x477fefff, 0x7bff, 0x7c00},
                                          {"bf16", 0x7f7f7fff, 0x7f7f, 0x7f80},
                                          {"tf32", 0x7f7fefff, 0x7f7fe000, 0x7f800000},
                                          {"e4m3fn", 0x43e80000, 0x7e, 0x7f},
                                          {"e5m2", 0x476fffff, 0x7b, 0x7c},
                                          {"e4m3fnuz", 0x4377ffff, 0x7f, 0x80},
                                          {"e5m2fnuz", 0x476fffff, 0x7f, 0x80},
                                          {"e4m3b11fnuz", 0x41f7ffff, 0x7f, 0x80},
                                          {"e4m3ieee", 0x4377ffff, 0x77, 0x78},
                                          {"e3m4", 0x417bffff, 0x6f, 0x70}}));
    CAPTURE(c.format);
    const Format f = format_named(c.format);
    const float last = bit_cast<float>(c.last), first = bit_cast<float>(c.last + 1);
    CHECK(encode(f, last, Round::nearest_even, Overflow::nonsaturate) == c.max);
    CHECK(encode(f, first, Round::nearest_even, Overflow::nonsaturate) == c.overflowed);
    CHECK(encode(f, first, Round::nearest_even, Overflow::saturate) == c.max);
}

TEST_CASE("fp64 inputs are rounded once, never through fp32, and fp32 inputs never through fp16 or bf16",
          "[core][codec]") {
    struct Case {
        const char* format;
        double in;
        std::uint32_t code, trap;
        const char* why;
    };
    const auto c = GENERATE(values<Case>({
        {"fp16", bit_cast<double>(0x3ff0020000001000ull), 0x3c01, 0x3c00, "via fp32"},
        {"bf16", bit_cast<double>(0x3ff0100000001000ull), 0x3f81, 0x3f80, "via fp32 (Eigen)"},
        {"e4m3fn", bit_cast<double>(0x3ff1000000001000ull), 0x39, 0x38, "via fp32 (NumPy astype, PyTorch)"},
        {"fp16", bit_cast<double>(0x3e60000000020000ull), 0x0001, 0x0000, "via fp32, a subnormal"},
        {"fp16", bit_cast<double>(0x40effdffffffff80ull), 0x7bff, 0x7c00, "via fp32, the largest value"},
        {"e4m3fn", bit_cast<float>(0x3f880001u), 0x39, 0x38, "via fp16 or bf16"},
        {"e4m3fn", bit_cast<float>(0x43e80001u), 0x7f, 0x7e, "via fp16 or bf16, overflow"},
        {"e2m1fn", bit_cast<float>(0x40200001u), 0x5, 0x4, "via bf16"},
    }));
    CAPTURE(c.format, c.why);
    const Format f = format_named(c.format);
    CHECK(encode(f, c.in, Round::nearest_even, Overflow::nonsaturate) == c.code);
    // Rounding to fp32 or bf16 first gives the wrong code `trap`. Each row therefore detects a codec that does this.
    const bool via_fp32 = std::string(c.why).find("fp32") != std::string::npos;
    const float detour = via_fp32
                             ? static_cast<float>(c.in)
                             : quantize(bf16, static_cast<float>(c.in), Round::nearest_even, Overflow::nonsaturate);
    CHECK(encode(f, detour, Round::nearest_even, Overflow::nonsaturate) == c.trap);
}

TEST_CASE("rounding to odd before a second rounding avoids the error of double rounding", "[core][codec]") {
    const double x = bit_cast<double>(0x3ff0020000001000ull);
    const auto odd = encode(fp32, x, Round::to_odd, Overflow::nonsaturate);
    CHECK(odd == 0x3f801001);
    CHECK(encode(fp16, bit_cast<float>(odd), Round::nearest_even, Overflow::nonsaturate) == 0x3c01);
}

namespace {

/// Returns a b + c rounded to odd in fp64 (Boldo and Melquiond). The product is exact. TwoSum gives the error of the
/// sum, and the last bit is set if the sum is inexact.
double fma_to_odd(double a, double b, double c) {
    const double product = a * b;  // at most 22 bits
    const double sum = product + c, c_part = sum - product;
    const double error = (product - (sum - c_part)) + (c - c_part);
    auto bits = bit_cast<std::uint64_t>(sum);
    if (error != 0 && (bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : -1;
    return bit_cast<double>(bits);
}

}  // namespace

TEST_CASE("fma in a narrow format cannot be computed through fp32, and for bf16 not through fp64 either",
          "[core][codec]") {
    struct Case {
        const char* format;
        std::uint32_t a, b, c, correct, via_fp32, via_fp64;
    };
    const auto v = GENERATE(values<Case>({{"fp16", 0x3e00, 0x3956, 0x0001, 0x3c01, 0x3c00, 0x3c01},
                                          {"bf16", 0x40e0, 0x3e14, 0x8001, 0x3f81, 0x3f82, 0x3f82},
                                          {"e5m2", 0x4e, 0x4a, 0x01, 0x5d, 0x5c, 0x5d}}));
    CAPTURE(v.format);
    const Format f = format_named(v.format);
    const double a = decode64(f, v.a), b = decode64(f, v.b), c = decode64(f, v.c);
    const auto round = [f](auto x) { return encode(f, x, Round::nearest_even, Overflow::nonsaturate); };
    CHECK(round(fma_to_odd(a, b, c)) == v.correct);
    CHECK(round(std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))) == v.via_fp32);
    CHECK(round(std::fma(a, b, c)) == v.via_fp64);
}

namespace {

/// True if encoding in `mode` without random bits is a constant expression.
template <Round mode>
constexpr bool rounds_at_compile_time = requires {
    typename std::bool_constant<(encode(e4m3fn, 1.1f, mode, Overflow::saturate), true)>;
};
static_assert(rounds_at_compile_time<Round::nearest_even> && rounds_at_compile_time<Round::to_odd>);
static_assert(!rounds_at_compile_time<Round::stochastic>);

}  // namespace

TEST_CASE("stochastic rounding without random bits is refused for every number", "[core][codec]") {
    for (const NamedFormat& named : all_formats) {
        const Format f = named.format;
        CAPTURE(named.name);
        for (const double x : {0.0, -0.0, 1.0, 1.1, 1e300, -HUGE_VAL, std::nan("")}) {
            CHECK_THROWS_AS(encode64(f, x, Round::stochastic, Overflow::saturate), Error);
            CHECK_THROWS_AS(encode64(f, x, Round::stochastic, Overflow::saturate, {0xffffffff, 0}), Error);
            CHECK_NOTHROW(encode64(f, x, Round::stochastic, Overflow::saturate, {0xffffffff, 32}));
            CHECK_NOTHROW(encode64(f, x, Round::stochastic, Overflow::saturate, {0, 1}));
        }
    }
    CHECK_THROWS_AS(quantize(bf16, 1.0f, Round::stochastic, Overflow::nonsaturate), Error);
    CHECK_THROWS_AS(round_shift(8, 1, Round::stochastic, false), Error);  // also if the result would be exact
}

TEST_CASE("round_shift divides by a power of two and rounds, even if the shift is wider than its integers",
          "[core][codec]") {
    __extension__ using Wide = unsigned __int128;
    const std::uint64_t ones = ~std::uint64_t{0}, top = std::uint64_t{1} << 63;
    const std::uint64_t significands[] = {
        1, 2, 3, 6, 0xaaaaaaaa80000001, top / 2, top - 1, top, top + 1, top + top / 2, ones - 1, ones};
    for (const std::uint64_t significand : significands) {
        for (int drop = 1; drop <= 70; ++drop) {
            CAPTURE(significand, drop);
            const Wide x = significand, divisor = Wide{1} << drop;
            const Wide down = x / divisor, up = (x + divisor - 1) / divisor, near = (2 * x + divisor) / (2 * divisor);
            const bool is_tie = 2 * (x % divisor) == divisor, is_exact = x % divisor == 0;
            for (const bool negative : {false, true}) {
                const auto is = [&](Round mode, Wide wanted, RandomBits random = {}) {
                    return Wide{round_shift(significand, drop, mode, negative, random)} == wanted;
                };
                CHECK(is(Round::nearest_away, near));
                CHECK(is(Round::nearest_even, is_tie ? near - near % 2 : near));
                CHECK(is(Round::toward_zero, down));
                CHECK(is(Round::up, negative ? down : up));
                CHECK(is(Round::down, negative ? up : down));
                CHECK(is(Round::to_odd, is_exact ? down : down | 1));
                for (const int bits : {1, 16, 32}) {
                    for (const std::uint32_t word :
                         {0u, 1u, (1u << (bits - 1)) - 1, 1u << (bits - 1), ~0u >> (32 - bits)}) {
                        CHECK(is(Round::stochastic, ((x << bits) / divisor + word) >> bits, {word, bits}));
                    }
                }
            }
        }
    }
}

TEST_CASE("stochastic rounding goes away from zero when the random bits carry", "[core][codec]") {
    struct Case {
        const char* format;
        int bits;
        std::uint32_t in, random, code;
    };
    const auto c = GENERATE(values<Case>({
        {"bf16", 16, 0x3f804000, 0xbfff, 0x3f80},
        {"bf16", 16, 0x3f804000, 0xc000, 0x3f81},
        {"fp16", 13, 0x3f800400, 0x1bff, 0x3c00},
        {"fp16", 13, 0x3f800400, 0x1c00, 0x3c01},
        {"e4m3fn", 20, 0x3f840000, 0xbffff, 0x38},
        {"e4m3fn", 20, 0x3f840000, 0xc0000, 0x39},
        {"e2m1fn", 8, 0x40100000, 0xbf, 0x4},
        {"e2m1fn", 8, 0x40100000, 0xc0, 0x5},
        {"e2m1fn", 8, 0x40002000, 0xff, 0x4},  // 2 + 2^-9: below the resolution of eight random bits
    }));
    CAPTURE(c.format, c.random);
    const Format f = format_named(c.format);
    const RandomBits random{c.random, c.bits};
    const float x = bit_cast<float>(c.in);
    CHECK(encode(f, x, Round::stochastic, Overflow::nonsaturate, random) == c.code);
    CHECK(encode(f, -x, Round::stochastic, Overflow::nonsaturate, random) == (c.code | f.sign_bit()));
}

TEST_CASE("stochastic rounding of a number d ulps above a code goes up for exactly floor(2^k d) of 2^k random values",
          "[core][codec]") {
    constexpr int k = 10;
    for (const auto& named : all_formats) {
        const Format f = named.format;
        if (f.bits > 32) continue;
        CAPTURE(named.name);
        // Tests numbers between a code and the next code, for a normal code, a subnormal code and the code before the
        // largest. d is the position of the number in this gap: 0 is the code itself, and almost 1 is just below the
        // next code.
        const std::uint64_t one = encode64(f, 1.0, Round::nearest_even, Overflow::saturate) >> f.padding;
        for (const std::uint64_t code :
             {one, f.has_zero() ? std::uint64_t{1} : std::uint64_t{9}, f.max_finite_code() - 1}) {
            const double low = decode64(f, code << f.padding), high = decode64(f, (code + 1) << f.padding);
            for (const double d : {0.0, 0x1p-12, 0x1p-10, 0.1, 0.25, 1.0 / 3, 0.5, 0.75, 1 - 0x1p-10, 1 - 0x1p-12}) {
                const double x = low + d * (high - low), exact_d = (x - low) / (high - low);
                std::uint32_t up = 0, other = 0;
                bool monotone = true, was_up = false;
                for (std::uint32_t r = 0; r < 1u << k; ++r) {
                    const auto got = encode64(f, x, Round::stochastic, Overflow::nonsaturate, {r, k}) >> f.padding;
                    const bool is_up = got == code + 1;
                    up += is_up;
                    other += !is_up && got != code;
                    monotone = monotone && (is_up || !was_up);
                    was_up = is_up;
                }
                CAPTURE(code, d);
                CHECK(up == static_cast<std::uint32_t>(std::floor(std::ldexp(exact_d, k))));
                CHECK(other == 0);
                CHECK(monotone);
            }
        }
    }
}

TEST_CASE("no value of a format is nearer than the one that rounding to nearest gives", "[core][codec]") {
    // Unlike the codec, the test uses no exponents or fractions. It compares the distances to all values of the format.
    for (const NamedFormat& named : all_formats) {
        const Format& f = named.format;
        if (f.bits > 8) continue;
        CAPTURE(named.name);
        std::vector<double> values;
        for (std::uint64_t code = 0; code < std::uint64_t{1} << f.bits; ++code) {
            const bool is_unused = f.encoding == Encoding::fixed_point && code == 0x80;  // -2 is never written
            if (const double x = decode64(f, code); std::isfinite(x) && !is_unused) values.push_back(x);
        }
        std::sort(values.begin(), values.end());
        std::vector<float> inputs;
        for (std::size_t i = 0; i + 1 < values.size(); ++i) {
            const double low = values[i], high = values[i + 1];
            for (const double part : {0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875}) {
                const auto x = static_cast<float>(low + (high - low) * part);
                inputs.insert(inputs.end(), {x, std::nextafter(x, 0.0f), std::nextafter(x, 2 * x)});
            }
        }
        inputs.insert(inputs.end(), {0x1p-149f, 0x1.8p-128f, 0x1p-126f});
        int wrong = 0;
        for (const float x : inputs) {
            if (!std::isfinite(x)) continue;
            // A format without a sign converts |x|.
            const double exact = f.has_sign() ? double{x} : std::fabs(double{x});
            for (const Round mode : {Round::nearest_even, Round::nearest_away}) {
                const double made = decode64(f, encode64(f, x, mode, Overflow::saturate));
                const auto after = std::lower_bound(values.begin(), values.end(), exact);
                double least = std::numeric_limits<double>::infinity();
                if (after != values.end()) least = std::min(least, std::fabs(*after - exact));
                if (after != values.begin()) least = std::min(least, std::fabs(*(after - 1) - exact));
                if (std::fabs(made - exact) > least && wrong++ < 10) UNSCOPED_INFO(x << " gives " << made);
            }
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("every code of every format is unchanged by decode and encode, except that NaN becomes the canonical NaN",
          "[core][codec]") {
    for (const auto& named : all_formats) {
        const Format f = named.format;
        CAPTURE(named.name);
        // For fp32 and fp64, the codes have every sign and exponent, and step through the fractions with a stride.
        const std::uint64_t count = f.bits <= 19 ? std::uint64_t{1} << f.bits : 1 << 20;
        const std::uint64_t stride = f.bits <= 19 ? 1 : (f.bits == 32 ? 0xfff : 0xfffffffffff);
        std::uint64_t wrong = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t code = i * stride, container = code << f.padding;
            const double value = decode64(f, container);
            std::uint64_t want = container;
            if (f.encoding == Encoding::fixed_point && code == 0x80) want = 0x81;  // -2 is readable, but never written
            if (std::isnan(value))
                want = (f.specials == Specials::fnuz ? 0 : code & f.sign_bit()) << f.padding | f.nan_code()
                                                                                                   << f.padding;
            for (const Round mode : {Round::nearest_even, Round::toward_zero, Round::up, Round::stochastic}) {
                wrong += encode64(f, value, mode, Overflow::nonsaturate, {0xffffffff, 32}) != want;
            }
            if (f.bits < 64)
                wrong += encode64(f, decode(f, container), Round::nearest_even, Overflow::nonsaturate) != want;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("decode returns the values of special codes", "[core][codec]") {
    CHECK(decode(e4m3fn, 0x38) == 1.0f);
    CHECK(decode(e4m3fnuz, 0x38) == 0.5f);  // the same byte, another bias
    CHECK(std::signbit(decode(e4m3fn, 0x80)));
    CHECK(std::isnan(decode(e4m3fnuz, 0x80)));
    CHECK(std::isnan(decode(e4m3fn, 0xff)));
    CHECK(std::isinf(decode(e5m2, 0xfc)));
    CHECK(decode(e8m0fnu, 0x00) == 0x1p-127f);
    CHECK(std::isnan(decode(e8m0fnu, 0xff)));
    CHECK(decode(mxint8, 0x80) == -2.0f);
    CHECK(decode(tf32, 0x3f801fff) == 1.0f);  // the low 13 bits do not count
    const double widened = decode64(fp32, 0x00000001);
    CHECK(widened == 0x1p-149);
}

TEST_CASE("numbers far above and far below the range of a format round as the mode requires, whatever their exponent",
          "[core][codec]") {
    using Kind = Unpacked::Kind;
    for (const NamedFormat& row : all_formats) {
        const Format f = row.format;
        const bool is_widest = f.bits == 64;
        for (const Round mode :
             {Round::nearest_even, Round::nearest_away, Round::toward_zero, Round::up, Round::down, Round::to_odd}) {
            for (const Overflow overflow : {Overflow::nonsaturate, Overflow::saturate}) {
                for (const bool negative : {false, true}) {
                    const double sign = negative ? -1 : 1;
                    const auto code = [&](std::uint64_t significand, int exponent) {
                        return detail::encode_unpacked(f, {Kind::finite, negative, significand, exponent}, mode,
                                                       overflow, {})
                               << f.padding;
                    };
                    // The exponents below are outside the range of fp64. In a format narrower than fp64, such numbers
                    // have the same codes as the largest or the smallest double.
                    const bool is_outward = mode == Round::nearest_even || mode == Round::nearest_away ||
                                            (mode == Round::up && !negative) || (mode == Round::down && negative);
                    const double huge = is_widest && is_outward && overflow == Overflow::nonsaturate
                                            ? HUGE_VAL
                                            : 0x1.fffffffffffffp1023;
                    for (const int exponent :
                         {1024, 2047, 3009, 3010, 3072, 3073, 3074, 4095, 4096, 5000, 65536, 1 << 20, 1 << 30}) {
                        for (const std::uint64_t significand :
                             {std::uint64_t{1}, std::uint64_t{3}, ~std::uint64_t{0}}) {
                            CAPTURE(row.name, static_cast<int>(mode), static_cast<int>(overflow), negative, exponent,
                                    significand);
                            REQUIRE(code(significand, exponent) == encode64(f, sign * huge, mode, overflow));
                        }
                    }
                    const bool is_away =
                        (mode == Round::up && !negative) || (mode == Round::down && negative) || mode == Round::to_odd;
                    const double tiny = is_widest ? (is_away ? 0x1p-1074 : 0.0) : 0x1p-1074;
                    for (const int exponent : {-1200, -2048, -3074, -4096, -65536, -(1 << 20), -(1 << 30)}) {
                        for (const std::uint64_t significand :
                             {std::uint64_t{1}, std::uint64_t{3}, ~std::uint64_t{0}}) {
                            CAPTURE(row.name, static_cast<int>(mode), negative, exponent, significand);
                            REQUIRE(code(significand, exponent) == encode64(f, sign * tiny, mode, overflow));
                        }
                    }
                }
            }
        }
    }
}

}  // namespace codec_test
