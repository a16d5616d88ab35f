// SPDX-License-Identifier: Apache-2.0
#include "core/text/float_chars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace macheps {

namespace {

bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_hexadecimal(char c) { return is_decimal(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

/// Returns the length of the word if the text begins with it, in upper or lower case, and 0 otherwise.
std::size_t word_length(std::string_view text, std::string_view word) {
    const auto is_letter = [](char letter, char lower) { return (letter | 0x20) == lower; };
    const bool begins = text.size() >= word.size() && std::equal(word.begin(), word.end(), text.begin(),
                                                                 [&](char w, char t) { return is_letter(t, w); });
    return begins ? word.size() : 0;
}

/// Returns the length of `inf`, `infinity`, `nan` or `nan(...)` at the beginning of the text, or 0.
std::size_t special_length(std::string_view text) {
    if (const std::size_t length = word_length(text, "infinity")) return length;
    if (const std::size_t length = word_length(text, "inf")) return length;
    const std::size_t length = word_length(text, "nan");
    if (length == 0 || length == text.size() || text[length] != '(') return length;
    std::size_t end = length + 1;
    while (end < text.size() && (is_decimal(text[end]) || text[end] == '_' || std::isalpha(text[end] & 0x7f))) ++end;
    return end < text.size() && text[end] == ')' ? end + 1 : length;
}

/// Returns the length of the number without a sign at the beginning of the text, or 0. Sets `has_digit` if a digit of the
/// significand is not zero.
std::size_t number_length(std::string_view text, std::chars_format format, bool& has_digit) {
    const bool is_hex = format == std::chars_format::hex;
    const auto is_digit = is_hex ? is_hexadecimal : is_decimal;
    std::size_t end = 0, digits = 0;
    for (bool has_point = false; end < text.size(); ++end) {
        if (text[end] == '.' && !has_point) {
            has_point = true;
        } else if (is_digit(text[end])) {
            ++digits;
            has_digit |= text[end] != '0';
        } else {
            break;
        }
    }
    if (digits == 0) return 0;
    if (format == std::chars_format::fixed) return end;
    std::size_t exponent = end;
    if (exponent < text.size() && (text[exponent] | 0x20) == (is_hex ? 'p' : 'e')) {
        ++exponent;
        if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
        const std::size_t first = exponent;
        while (exponent < text.size() && is_decimal(text[exponent])) ++exponent;
        if (exponent > first) return exponent;
    }
    return format == std::chars_format::scientific ? 0 : end;
}

float convert(const char* text, float) { return std::strtof(text, nullptr); }
double convert(const char* text, double) { return std::strtod(text, nullptr); }

template <class Real>
std::from_chars_result read(const char* first, const char* last, Real& value, std::chars_format format) {
    std::string_view text(first, static_cast<std::size_t>(last - first));
    const bool is_negative = !text.empty() && text.front() == '-';
    if (is_negative) text.remove_prefix(1);
    bool has_digit = false;
    const std::size_t special = special_length(text);
    const std::size_t length = special > 0 ? special : number_length(text, format, has_digit);
    if (length == 0) return {first, std::errc::invalid_argument};
    const bool is_hex = special == 0 && format == std::chars_format::hex;
    const std::string copy = (is_hex ? "0x" : "") + std::string(text.substr(0, length));
    const Real size = convert(copy.c_str(), Real());
    const char* const end = text.data() + length;
    if (special == 0 && (std::isinf(size) || (size == 0 && has_digit))) return {end, std::errc::result_out_of_range};
    value = is_negative ? -size : size;
    return {end, std::errc{}};
}

/// Writes the shortest digits in scientific or in fixed notation, whichever is shorter. Fixed notation is chosen if both
/// have the same length.
template <class Real>
std::string write(Real value) {
    const std::string sign = std::signbit(value) ? "-" : "";
    if (std::isnan(value)) return sign + "nan";
    if (std::isinf(value)) return sign + "inf";
    if (value == 0) return sign + "0";
    // fmt gives the shortest digits, in one of several notations. Only its digits and exponent are used.
    const std::string text = fmt::format("{}", std::fabs(value));
    const std::size_t mark = std::min(text.find('e'), text.size()), point = std::min(text.find('.'), mark);
    std::string digits;
    for (const char c : text.substr(0, mark)) {
        if (is_decimal(c)) digits += c;
    }
    int exponent = static_cast<int>(point) - 1 + (mark < text.size() ? std::stoi(text.substr(mark + 1)) : 0);
    const std::size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
    digits.erase(0, zeros);
    exponent -= static_cast<int>(zeros);
    digits.erase(digits.find_last_not_of('0') + 1);
    const int count = static_cast<int>(digits.size());
    std::string scientific = digits;
    if (count > 1) scientific.insert(1, ".");
    scientific += fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
    std::string fixed;
    if (exponent < 0) {
        fixed = "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
    } else if (exponent >= count - 1) {
        // Zeros in place of the last digits would read back as well, but the exact digits are nearer.
        fixed = fmt::format("{:.0f}", std::fabs(value));
    } else {
        fixed = digits.substr(0, static_cast<std::size_t>(exponent) + 1) + "." +
                digits.substr(static_cast<std::size_t>(exponent) + 1);
    }
    return sign + (fixed.size() <= scientific.size() ? fixed : scientific);
}

template <class Real>
std::to_chars_result copy_text(char* first, char* last, Real value) {
    const std::string text = write(value);
    if (text.size() > static_cast<std::size_t>(last - first)) return {last, std::errc::value_too_large};
    return {std::copy(text.begin(), text.end(), first), std::errc{}};
}

}  // namespace

namespace detail {

std::from_chars_result from_chars_by_strtod(const char* first, const char* last, double& value,
                                            std::chars_format format) {
    return read(first, last, value, format);
}
std::from_chars_result from_chars_by_strtod(const char* first, const char* last, float& value,
                                            std::chars_format format) {
    return read(first, last, value, format);
}
std::string to_chars_by_fmt(double value) { return write(value); }
std::string to_chars_by_fmt(float value) { return write(value); }

}  // namespace detail

#if defined(__cpp_lib_to_chars)
std::from_chars_result number_from_chars(const char* first, const char* last, double& value, std::chars_format format) {
    return std::from_chars(first, last, value, format);
}
std::from_chars_result number_from_chars(const char* first, const char* last, float& value, std::chars_format format) {
    return std::from_chars(first, last, value, format);
}
std::to_chars_result number_to_chars(char* first, char* last, double value) {
    return std::to_chars(first, last, value);
}
std::to_chars_result number_to_chars(char* first, char* last, float value) { return std::to_chars(first, last, value); }
#else
std::from_chars_result number_from_chars(const char* first, const char* last, double& value, std::chars_format format) {
    return read(first, last, value, format);
}
std::from_chars_result number_from_chars(const char* first, const char* last, float& value, std::chars_format format) {
    return read(first, last, value, format);
}
std::to_chars_result number_to_chars(char* first, char* last, double value) { return copy_text(first, last, value); }
std::to_chars_result number_to_chars(char* first, char* last, float value) { return copy_text(first, last, value); }
#endif

}  // namespace macheps
