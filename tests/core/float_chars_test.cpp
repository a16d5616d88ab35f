// SPDX-License-Identifier: Apache-2.0
// Compares the conversions for C++ libraries without floating-point from_chars and to_chars with those of this library.
#include "core/text/float_chars.hpp"
#include "core/hd.hpp"
#include "core/rng.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace float_chars_test {

using namespace macheps;

namespace {

template <class Real>
std::string standard_text(Real value) {
    char text[64];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class Real>
void compare_reading(std::string_view text, std::chars_format format) {
    const char *first = text.data(), *last = text.data() + text.size();
    Real own = -7, standard = -7;
    const auto got = macheps::detail::from_chars_by_strtod(first, last, own, format);
    const auto wanted = std::from_chars(first, last, standard, format);
    CAPTURE(text, static_cast<int>(format), own, standard);
    CHECK(got.ec == wanted.ec);
    if (wanted.ec != std::errc::invalid_argument) CHECK(got.ptr - first == wanted.ptr - first);
    if (std::isnan(own) && std::isnan(standard)) return;
    CHECK(own == standard);
    CHECK(std::signbit(own) == std::signbit(standard));
}

template <class Real, class Bits>
void compare_writing(Bits bits, std::uint64_t& wrong) {
    const Real value = bit_cast<Real>(bits);
    if (std::isnan(value)) return;
    const std::string own = macheps::detail::to_chars_by_fmt(value), standard = standard_text(value);
    if (own == standard || ++wrong > 5) return;
    CHECK(own == standard);
}

}  // namespace

TEST_CASE("without the library's from_chars, the same texts are numbers and have the same values", "[core][text]") {
    for (const char* text : {"",
                             "-",
                             "+1",
                             "1",
                             "-1",
                             " 1",
                             "1 ",
                             "0",
                             "-0",
                             "-0.0",
                             ".5",
                             "5.",
                             ".",
                             "-.",
                             "e5",
                             "1e",
                             "1e+",
                             "1e-x",
                             "1e5",
                             "1E5",
                             "1e+5",
                             "1e05",
                             "1.5e-3x",
                             "1e400",
                             "-1e400",
                             "1e-400",
                             "0e400",
                             "0.000e-999",
                             "4.9e-324",
                             "2e-324",
                             "2.4e-324",
                             "1.7976931348623157e308",
                             "1.7976931348623159e308",
                             "3.4028236e38",
                             "1e-45",
                             "7e-46",
                             "inf",
                             "INF",
                             "-inf",
                             "infinity",
                             "infinit",
                             "nan",
                             "NaN",
                             "-nan",
                             "nan(1)",
                             "nan(",
                             "nan(x-)",
                             "nano",
                             "0x1p3",
                             "1..2",
                             "1.2.3",
                             "1,5",
                             "12345678901234567890123456789",
                             "0.1000000000000000055511151231257827021181583404541",
                             "9007199254740993",
                             "1.00000000000000011102230246251565404",
                             "1.8p+3",
                             "ff",
                             "1.fp-2",
                             ".8",
                             "p3",
                             "1p",
                             "abc",
                             "16777217",
                             "1e99999999999999999999",
                             "1e-99999999999999999999"}) {
        for (const auto format : {std::chars_format::general, std::chars_format::fixed, std::chars_format::scientific,
                                  std::chars_format::hex}) {
            compare_reading<double>(text, format);
            compare_reading<float>(text, format);
        }
    }
    for (std::uint64_t i = 0; i < 20'000; ++i) {
        const PhiloxBlock block = random_block({.seed = 1}, i);
        const double value = bit_cast<double>(std::uint64_t{block.word[0]} << 32 | block.word[1]);
        for (const std::string& text :
             {fmt::format("{:.{}e}", value, block.word[2] % 25), fmt::format("{}", value),
              fmt::format("{}e{}", block.word[2], static_cast<int>(block.word[3] % 80) - 50)}) {
            compare_reading<double>(text, std::chars_format::general);
            compare_reading<float>(text, std::chars_format::general);
        }
    }
}

TEST_CASE("without the library's to_chars, numbers are written in the same way", "[core][text]") {
    std::uint64_t wrong = 0;
    for (const double value : {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               0.1,
                               0.001,
                               0.0001,
                               0.00012,
                               1e5,
                               1e4,
                               123456.0,
                               1e15,
                               1e16,
                               1e17,
                               1e22,
                               1e23,
                               1.5e300,
                               123456789012345680.0,
                               0x1p60,
                               0x1p63,
                               0x1p-1074,
                               1.7976931348623157e308,
                               5e-324,
                               9007199254740993.0,
                               100.5,
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity()}) {
        compare_writing<double>(bit_cast<std::uint64_t>(value), wrong);
        compare_writing<float>(bit_cast<std::uint32_t>(static_cast<float>(value)), wrong);
    }
    for (std::uint64_t i = 0; i < 100'000; ++i) {
        const PhiloxBlock block = random_block({.seed = 2}, i);
        compare_writing<double>(std::uint64_t{block.word[0]} << 32 | block.word[1], wrong);
        compare_writing<float>(block.word[2], wrong);
        // Numbers that people write: few digits and small exponents.
        const double few = block.word[3] % 100'000 * std::pow(10.0, static_cast<int>(block.word[2] % 30) - 15);
        compare_writing<double>(bit_cast<std::uint64_t>(few), wrong);
        compare_writing<float>(bit_cast<std::uint32_t>(static_cast<float>(few)), wrong);
        compare_writing<double>(bit_cast<std::uint64_t>(std::ldexp(1.0 + block.word[3] % 8, block.word[2] % 140)),
                                wrong);
    }
    CHECK(wrong == 0);
}

}  // namespace float_chars_test
