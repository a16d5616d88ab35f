// SPDX-License-Identifier: Apache-2.0
#include "core/text/print.hpp"

#include "core/codec.hpp"
#include "core/host/float_environment.hpp"
#include "core/text/float_chars.hpp"
#include "core/text/nearest_name.hpp"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace macheps {

namespace {

template <class T>
std::string decimal_of(T x) {
    if (std::isnan(x)) return "nan";  // the sign of a NaN differs between machines
    char text[64];
    const auto end = number_to_chars(text, text + sizeof text, x).ptr;
    return {text, end};
}

/// Returns digits * 10^exponent, correctly rounded.
double from_digits(std::uint64_t digits, int exponent) {
    const std::string text = fmt::format("{}e{}", digits, exponent);
    double value = 0;
    number_from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

bool starts_with_hex(std::string_view text) {
    return text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

}  // namespace

std::string decimal(double x) { return decimal_of(x); }
std::string decimal(float x) { return decimal_of(x); }

std::string shortest_decimal(Format f, std::uint64_t container) {
    const double value = decode64(f, container);
    if (f == fp64 || !std::isfinite(value) || value == 0) return decimal(value);
    if (f == fp32) return decimal(static_cast<float>(value));
    const double size = std::fabs(value);
    const std::uint64_t wanted = encode64(f, size, Round::nearest_even, Overflow::nonsaturate);
    for (int digits = 1; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
        // Rounds `size` to `digits` significant digits. The result is a text such as d.ddde+xx. It is converted to an
        // integer of these digits, `nearest`, times a power of ten, whose exponent is `exponent`.
        std::string text = fmt::format("{:.{}e}", size, digits - 1);
        const auto mark = text.find('e');
        const int exponent = std::stoi(text.substr(mark + 1)) - (digits - 1);
        std::string digits_text = text.substr(0, mark);
        if (digits > 1) digits_text.erase(1, 1);
        const std::uint64_t nearest = std::stoull(digits_text);
        // If the value is a power of two, the interval of numbers that round to it is asymmetric. The nearest decimal
        // of this length may be outside the interval, although the next decimal below or above it is inside.
        double best = -1;
        for (const std::uint64_t candidate : {nearest, nearest - 1, nearest + 1}) {
            const double x = from_digits(candidate, exponent);
            if (encode64(f, x, Round::nearest_even, Overflow::nonsaturate) != wanted) continue;
            if (best < 0 || std::fabs(x - size) < std::fabs(best - size)) best = x;
        }
        if (best >= 0) return decimal(value < 0 ? -best : best);
    }
    return decimal(value);
}

std::string hex_float(double x) {
    if (!std::isfinite(x)) return decimal(x);
    if (x == 0) return std::signbit(x) ? "-0x0p+0" : "0x0p+0";
    // The significand is scaled to [1, 2). Its 52 fraction bits are 13 hexadecimal digits.
    const int exponent = std::ilogb(x);
    const std::uint64_t bits = bit_cast<std::uint64_t>(std::ldexp(std::fabs(x), -exponent));
    std::string significand = fmt::format("1.{:013x}", bits & ((std::uint64_t{1} << 52) - 1));
    significand.erase(significand.find_last_not_of('0') + 1);
    if (significand.back() == '.') significand.pop_back();
    return fmt::format("{}0x{}p{:+}", std::signbit(x) ? "-" : "", significand, exponent);
}

std::string hex_code(Format f, std::uint64_t container) {
    return fmt::format("0x{:0{}x}", container, (f.container_bits() + 3) / 4);
}

std::optional<double> parse_number(std::string_view text) {
    const DefaultFloatModes modes;  // conversion from decimal uses floating-point arithmetic
    if (text.empty()) return std::nullopt;
    const bool negative = text.front() == '-';
    if (negative || text.front() == '+') text.remove_prefix(1);
    if (text.empty() || text.front() == '-' || text.front() == '+') return std::nullopt;
    if (const std::string word = lowered(text); word == "nan" || word == "inf" || word == "infinity") {
        const double special = word == "nan" ? std::numeric_limits<double>::quiet_NaN() : INFINITY;
        return std::copysign(special, negative ? -1.0 : 1.0);
    }
    const bool hexadecimal = starts_with_hex(text);
    if (hexadecimal) text.remove_prefix(2);
    if (text.empty() || (text.front() != '.' && !std::isxdigit(static_cast<unsigned char>(text.front())))) {
        return std::nullopt;
    }
    double value = 0;
    const auto format = hexadecimal ? std::chars_format::hex : std::chars_format::general;
    const auto [end, error] = number_from_chars(text.data(), text.data() + text.size(), value, format);
    if (end != text.data() + text.size() || error == std::errc::invalid_argument) return std::nullopt;
    if (error == std::errc::result_out_of_range) {  // from_chars leaves the value unset; strtod gives infinity or zero
        value = std::strtod(((hexadecimal ? "0x" : "") + std::string(text)).c_str(), nullptr);
    }
    return negative ? -value : value;
}

std::optional<std::uint64_t> parse_code(Format f, std::string_view text) {
    if (!starts_with_hex(text)) return std::nullopt;
    text.remove_prefix(2);
    std::uint64_t code = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code, 16);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    if (f.container_bits() < 64 && code >> f.container_bits() != 0) return std::nullopt;
    return code;
}

}  // namespace macheps
