// SPDX-License-Identifier: Apache-2.0
#include "core/text/print.hpp"
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/ulp.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace print_test {

using namespace macheps;

TEST_CASE("decimal prints the shortest text, and spells out NaN and infinity", "[core][print]") {
    CHECK(decimal(0.1) == "0.1");
    CHECK(decimal(0.1f) == "0.1");
    CHECK(decimal(static_cast<double>(0.1f)) == "0.10000000149011612");
    CHECK(decimal(-0.0) == "-0");
    CHECK(decimal(448.0) == "448");
    CHECK(decimal(std::numeric_limits<double>::quiet_NaN()) == "nan");
    CHECK(decimal(-std::numeric_limits<double>::quiet_NaN()) == "nan");
    CHECK(decimal(-std::numeric_limits<float>::infinity()) == "-inf");
}

TEST_CASE("shortest_decimal prints the expected text of some codes of each kind", "[core][print]") {
    const auto [format, code, text] = GENERATE(table<const char*, std::uint64_t, const char*>({
        {"e4m3fn", 0x1d, "0.1"},  // 0.1015625
        {"e4m3fn", 0x7e, "450"},  // 448
        {"e4m3fn", 0xfe, "-450"},
        {"e4m3fn", 0x7f, "nan"},
        {"e4m3fn", 0x80, "-0"},
        {"e5m2", 0x7c, "inf"},
        {"e5m2", 0x01, "2e-05"},  // 2^-16
        {"fp16", 0x3c00, "1"},
        {"fp16", 0x2e66, "0.1"},
        {"bf16", 0x3dcd, "0.1"},
        {"bf16", 0x7f7f, "3.39e+38"},
        {"e2m1fn", 0x7, "6"},  // not 5: a tie between 4 and 6 that rounds to 4
        {"fp32", 0x3dcccccd, "0.1"},
        {"fp64", 0x3fb999999999999a, "0.1"},
    }));
    CAPTURE(format, code);
    CHECK(shortest_decimal(format_named(format), code) == text);
}

TEST_CASE("the shortest decimal of every code has at most max_digits10 digits and reads back as that code",
          "[core][print]") {
    for (const auto& named : all_formats) {
        const Format f = named.format;
        if (f.bits > 16) continue;
        CAPTURE(named.name);
        std::uint64_t wrong = 0;
        int longest = 0;
        for (std::uint64_t code = 0; code < std::uint64_t{1} << f.bits; ++code) {
            if (is_nan(f, code) || (f == mxint8 && code == 0x80)) continue;
            const std::string text = shortest_decimal(f, code);
            const auto x = parse_number(text);
            wrong += !x || encode64(f, *x, Round::nearest_even, Overflow::nonsaturate) != code;
            int digits = 0;
            bool leading = true;
            for (const char c : text) {
                if (c == 'e') break;
                leading = leading && (c == '0' || c == '.' || c == '-');
                if (!leading && c >= '0' && c <= '9') ++digits;
            }
            if (text.find('e') == std::string::npos && text.find('.') == std::string::npos)
                digits = 0;  // an integer may end in zeros that are not significant
            longest = max_of(longest, digits);
        }
        CHECK(wrong == 0);
        CHECK(longest <= max_digits10(f));
    }
}

TEST_CASE("no decimal with fewer digits than the shortest decimal of a code reads back as that code", "[core][print]") {
    const auto reads_as = [](Format f, const std::string& text, std::uint64_t code) {
        const auto x = parse_number(text);
        return x && encode64(f, *x, Round::nearest_even, Overflow::nonsaturate) == code;
    };
    for (const auto& named : all_formats) {
        const Format f = named.format;
        if (f.bits > 19) continue;
        CAPTURE(named.name);
        // Checks every code of the narrow formats. In wider formats, checks a sample of codes and every power of two,
        // because the rounding interval of a power of two is asymmetric.
        const std::uint64_t codes = std::uint64_t{1} << f.bits, stride = f.bits > 16 ? 89 : f.bits > 12 ? 7 : 1;
        std::uint64_t longer = 0, first = 0;
        for (std::uint64_t n = 0; n < codes; ++n) {
            if (n % stride != 0 && n % (std::uint64_t{1} << f.fraction_bits()) != 0) continue;
            const std::uint64_t code = n << f.padding;
            const double x = decode64(f, code);
            if (!(x == x) || std::isinf(x) || x == 0 || (f == mxint8 && code == 0x80)) continue;
            const std::string text = shortest_decimal(f, code);
            std::string significand = text.substr(0, text.find('e'));
            std::erase_if(significand, [](char c) { return c < '0' || c > '9'; });
            significand.erase(0, significand.find_first_not_of('0'));
            while (significand.back() == '0') significand.pop_back();
            const int count = static_cast<int>(significand.size());
            if (count == 1) continue;
            // Tries whether a decimal with one digit less would also be read as this code: the one nearest to x, and
            // its two neighbours.
            const std::string nearest = fmt::format("{:.{}e}", x, count - 2);
            const double unit = std::pow(10.0, std::stoi(nearest.substr(nearest.find('e') + 1)) - (count - 2));
            for (const double step : {-1.0, 0.0, 1.0}) {
                const std::string candidate = fmt::format("{:.{}e}", *parse_number(nearest) + step * unit, count - 2);
                if (!reads_as(f, candidate, code)) continue;
                if (longer++ == 0) first = code;
            }
        }
        CAPTURE(hex_code(f, first));
        CHECK(longer == 0);
    }
}

TEST_CASE("hex_float and hex_code print hexadecimal floats and codes", "[core][print]") {
    CHECK(hex_float(0.1) == "0x1.999999999999ap-4");
    CHECK(hex_float(-448.0) == "-0x1.cp+8");
    CHECK(hex_float(0.0) == "0x0p+0");
    CHECK(hex_float(-0.0) == "-0x0p+0");
    CHECK(hex_float(0x1p-1074) == "0x1p-1074");
    CHECK(hex_float(0x1.8p-1060) == "0x1.8p-1060");
    CHECK(hex_float(-INFINITY) == "-inf");
    CHECK(hex_code(bf16, 0x3f80) == "0x3f80");
    CHECK(hex_code(e2m1fn, 7) == "0x7");
    CHECK(hex_code(e3m2fn, 7) == "0x07");
    CHECK(hex_code(tf32, 0x2000) == "0x00002000");
    CHECK(parse_number(hex_float(0x1.23456789abcdep-1060)) == 0x1.23456789abcdep-1060);
}

TEST_CASE("a text is read as a number only if the whole text is a number", "[core][print]") {
    const auto [text, value] = GENERATE(table<const char*, double>({
        {"0.1", 0.1},
        {"+1", 1.0},
        {"-1e-3", -1e-3},
        {".5", 0.5},
        {"0x1.8p3", 12.0},
        {"-0X1P-2", -0.25},
        {"0x1p-1074", 0x1p-1074},
        {"4.9e-324", 0x1p-1074},
        {"inf", INFINITY},
        {"-Infinity", -INFINITY},
        {"1e400", INFINITY},
        {"-1e400", -INFINITY},
        {"1e-400", 0.0},
        {"2.2250738585072011e-308", 0x0.fffffffffffffp-1022},  // famous for hanging PHP and Java
    }));
    CAPTURE(text);
    REQUIRE(parse_number(text).has_value());
    CHECK(*parse_number(text) == value);
    CHECK(std::signbit(*parse_number(text)) == std::signbit(value));
    CHECK(std::isnan(*parse_number("-nan")));
    CHECK(std::signbit(*parse_number("-nan")));
    CHECK(std::signbit(*parse_number("-0")));
    for (const char* nonsense :
         {"", "-", "+-1", "--1", "abc", "1.5x", "0x", "1e", "0x1p", "1 2", "1,5", " 1", "nanx", "e5"}) {
        CAPTURE(nonsense);
        CHECK_FALSE(parse_number(nonsense).has_value());
    }
}

TEST_CASE("codes are read with their 0x prefix and must fit in the format", "[core][print]") {
    CHECK(parse_code(bf16, "0x3f80") == 0x3f80u);
    CHECK(parse_code(fp64, "0xffffffffffffffff") == ~std::uint64_t{0});
    CHECK_FALSE(parse_code(bf16, "3f80").has_value());
    CHECK_FALSE(parse_code(bf16, "0x13f80").has_value());
    CHECK_FALSE(parse_code(e2m1fn, "0x10").has_value());
    CHECK_FALSE(parse_code(bf16, "0x3g").has_value());
}

}  // namespace print_test
