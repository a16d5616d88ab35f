// SPDX-License-Identifier: Apache-2.0
// Tests four kinds of operations on codes: conversions, rounding to integers, remainders and comparisons. The expected
// results come from the processor's double arithmetic and from the rounding oracle, which finds each result by a
// search.
#include "core/conversion.hpp"
#include "core/comparison.hpp"
#include "core/format_table.hpp"
#include "core/rng.hpp"
#include "tests/oracle/rounding_oracle.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace conversion_test {

using namespace macheps;

namespace {

constexpr std::array deterministic_modes{Round::nearest_even, Round::nearest_away, Round::toward_zero,
                                         Round::up,           Round::down,         Round::to_odd};

std::vector<std::uint64_t> all_codes(Format f) {
    std::vector<std::uint64_t> codes(std::size_t{1} << f.bits);
    std::iota(codes.begin(), codes.end(), std::uint64_t{0});
    for (auto& code : codes) code <<= f.padding;
    return codes;
}

/// Returns `x` rounded to an integral value in `mode`.
double integral(double x, Round mode) {
    switch (mode) {
        case Round::nearest_even:
            return std::nearbyint(x);
        case Round::nearest_away:
            return std::round(x);
        case Round::up:
            return std::ceil(x);
        case Round::down:
            return std::floor(x);
        case Round::to_odd:
            if (std::floor(x) == x) return x;
            return std::fmod(std::floor(x), 2) != 0 ? std::floor(x) : std::copysign(std::ceil(x), x);
        default:
            return std::trunc(x);
    }
}

}  // namespace

TEST_CASE("every code of fp16 and of the formats up to 8 bits converts to every format as the rounding oracle says",
          "[core][conversion]") {
    std::uint64_t compared = 0, wrong = 0;
    for (const NamedFormat& from : all_formats) {
        if (from.format.bits > 8 && from.format != fp16) continue;
        for (const NamedFormat& to : all_formats) {
            if (to.format == fp64) continue;
            const oracle::RoundingOracle wanted(to.name);
            for (const std::uint64_t code : all_codes(from.format)) {
                const double x = decode64(from.format, code);
                for (const Round mode : {deterministic_modes[code % 6], Round::nearest_even}) {
                    const Rounded got = convert(from.format, to.format, code, mode);
                    // Conversion drops the sign of a NaN.
                    const double number = std::isnan(x) ? std::nan("") : x;
                    wrong += got.bits != wanted.code(number, mode, Overflow::nonsaturate);
                    const bool keeps = std::isnan(x) || std::isinf(x) || decode64(to.format, got.bits) == x;
                    wrong += got.flags.inexact == keeps;
                    ++compared;
                }
            }
        }
    }
    CHECK(wrong == 0);
    CHECK(compared > 2000000);
}

TEST_CASE("every fp16 code rounds to the same integer as its double in every mode", "[core][conversion]") {
    int wrong = 0;
    for (const std::uint64_t code : all_codes(fp16)) {
        const double x = decode64(fp16, code);
        for (const Round mode : deterministic_modes) {
            const Rounded whole = round_to_integral(fp16, code, mode, true),
                          number = to_integer(fp16, code, 8, true, mode, true);
            if (!std::isfinite(x)) {
                wrong += number.flags != Flags{.invalid = true};
                wrong += number.bits != (std::isnan(x) ? 0u : x > 0 ? 127u : 128u);
                continue;
            }
            const double n = integral(x, mode);
            wrong += whole.bits != encode64(fp16, n, Round::nearest_even, Overflow::nonsaturate);
            wrong += whole.flags != Flags{.inexact = n != x};
            wrong += round_to_integral(fp16, code, mode, false).flags != Flags{};
            const bool fits = n >= -128 && n <= 127;
            const auto low_byte = static_cast<std::uint8_t>(static_cast<int>(std::clamp(n, -128.0, 127.0)));
            wrong += number.bits != low_byte;
            wrong += number.flags != Flags{.invalid = !fits, .inexact = fits && n != x};
        }
    }
    CHECK(wrong == 0);
}

TEST_CASE("conversion to a 64-bit integer is right at the ends of the range, and invalid outside the range",
          "[core][conversion]") {
    struct Case {
        double x;
        bool is_signed;
        std::uint64_t bits;
        bool invalid;
    };
    const Case cases[] = {
        {0x1p63, true, 0x7fffffffffffffff, true},
        {-0x1p63, true, 0x8000000000000000, false},
        {0x1p63, false, 0x8000000000000000, false},
        {0x1p64, false, 0xffffffffffffffff, true},
        {-0.5, false, 0, false},
        {-1, false, 0, true},
        {-0x1.0000000000001p63, true, 0x8000000000000000, true},
        {-1e300, true, 0x8000000000000000, true},
    };
    for (const auto& [x, is_signed, bits, invalid] : cases) {
        CAPTURE(x, is_signed);
        const Rounded got = to_integer(fp64, bit_cast<std::uint64_t>(x), 64, is_signed, Round::toward_zero, false);
        CHECK(got.bits == bits);
        CHECK(got.flags.invalid == invalid);
    }
    CHECK(from_integer(fp64, ~std::uint64_t{0}, false, Round::nearest_even).bits == bit_cast<std::uint64_t>(0x1p64));
    CHECK(from_integer(fp16, 65519, false, Round::nearest_even).bits == 0x7bff);
    CHECK(from_integer(fp16, 65520, true, Round::nearest_even).flags == Flags{.overflow = true, .inexact = true});
    CHECK(round_to_integral(e3m4, 0x6f, Round::nearest_even, false).bits == 0x70);  // 15.5 rounds up and overflows
}

TEST_CASE("remainder() gives the same result as the C library, which is exact", "[core][conversion]") {
    std::uint64_t compared = 0, wrong = 0;
    const auto check = [&](Format f, std::uint64_t a, std::uint64_t b) {
        const double x = decode64(f, a), y = decode64(f, b), r = std::remainder(x, y);
        const Rounded got = remainder(f, a, b);
        wrong += got.bits != (std::isnan(r) ? f.nan_code() << f.padding
                                            : encode64(f, r, Round::nearest_even, Overflow::nonsaturate));
        wrong += !std::isnan(r) && got.flags != Flags{};
        wrong += std::isnan(r) && !std::isnan(x) && !std::isnan(y) && !got.flags.invalid;
        ++compared;
    };
    for (const Format f : {e4m3fn, e5m2, e4m3fnuz, e3m4, e2m3fn}) {
        for (const std::uint64_t a : all_codes(f)) {
            for (const std::uint64_t b : all_codes(f)) check(f, a, b);
        }
    }
    for (std::uint64_t i = 0; i < 20000; ++i) {
        const PhiloxBlock words = random_block({.seed = 51}, i);
        check(fp16, words.word[0] & 0xffff, words.word[1] & 0xffff);
        check(fp32, words.word[0], words.word[1]);
        check(fp64, std::uint64_t{words.word[0]} << 32 | words.word[2],
              std::uint64_t{words.word[1]} << 32 | words.word[3]);
    }
    CHECK(wrong == 0);
    CHECK(compared == 4 * 65536 + 4096 + 60000);
}

TEST_CASE("comparisons, minimum and maximum of two codes agree with the decoded values for all pairs of 8-bit codes",
          "[core][comparison]") {
    int wrong = 0;
    for (const NamedFormat& named : all_formats) {
        const Format f = named.format;
        if (f.bits > 8) continue;
        for (const std::uint64_t a : all_codes(f)) {
            for (const std::uint64_t b : all_codes(f)) {
                const double x = decode64(f, a), y = decode64(f, b);
                const Relation relation = compare(f, a, b);
                wrong += (relation == Relation::less) != (x < y);
                wrong += (relation == Relation::equal) != (x == y);
                wrong += (relation == Relation::greater) != (x > y);
                wrong += x < y && (!total_order(f, a, b) || total_order(f, b, a));
                wrong += total_order(f, a, b) && total_order(f, b, a) && a != b;  // distinct codes are never tied
                wrong += !total_order(f, a, b) && !total_order(f, b, a);
                const double low = decode64(f, minimum(f, a, b).bits),
                             number = decode64(f, minimum_number(f, a, b).bits);
                const bool nan = std::isnan(x) || std::isnan(y);
                wrong += nan ? !std::isnan(low) : low != std::min(x, y);
                wrong += std::isnan(x) && std::isnan(y) ? !std::isnan(number) : number != std::fmin(x, y);
                wrong += !nan && decode64(f, maximum(f, a, b).bits) != std::max(x, y);
            }
        }
    }
    CHECK(wrong == 0);
}

TEST_CASE("comparisons, minimum, maximum and neighbours handle NaNs, zeros and infinities", "[core][comparison]") {
    constexpr std::uint64_t quiet = 0x7e00, signaling = 0x7c01, one = 0x3c00, minus = 0x8000;
    CHECK_FALSE(comparison_flags(fp16, quiet, one, false).invalid);
    CHECK(comparison_flags(fp16, quiet, one, true).invalid);
    CHECK(comparison_flags(fp16, one, signaling, false).invalid);
    CHECK(total_order(fp16, minus, 0));
    CHECK_FALSE(total_order(fp16, 0, minus));
    CHECK(total_order(fp16, minus | quiet, minus | 0x7c00));
    CHECK(total_order(fp16, signaling, quiet));
    CHECK(total_order(e4m3fnuz, 0x7f, 0x80));
    CHECK(minimum(fp16, 0, minus).bits == minus);
    CHECK(maximum(fp16, minus, 0).bits == 0);
    CHECK(next_up(fp16, 0x7bff).bits == 0x7c00);
    CHECK(next_up(fp16, 0x7c00).bits == 0x7c00);
    CHECK(next_up(fp16, minus | 1).bits == minus);
    CHECK(next_down(fp16, 0).bits == (minus | 1));
    CHECK(next_up(e4m3fn, 0x7e).bits == 0x7e);
}

}  // namespace conversion_test
