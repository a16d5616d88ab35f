// SPDX-License-Identifier: Apache-2.0
// std::from_chars and std::to_chars for floating-point numbers. The C++ library of Clang (libc++) lacks the first before
// version 20, and the second before version 14. Host only.
#pragma once
#include <charconv>
#include <concepts>
#include <string>

namespace macheps {

/// Behaves as std::from_chars: reads the longest prefix that is a number of the given form. Without a number, the error is
/// invalid_argument. If the number is too large, or too small for a nonzero value, the error is result_out_of_range. An
/// error leaves `value` unchanged. The result depends on the host's rounding mode (see DefaultFloatModes).
std::from_chars_result number_from_chars(const char* first, const char* last, double& value,
                                         std::chars_format format = std::chars_format::general);
std::from_chars_result number_from_chars(const char* first, const char* last, float& value,
                                         std::chars_format format = std::chars_format::general);
/// Behaves as std::to_chars: writes the shortest decimal that reads back as `value`.
std::to_chars_result number_to_chars(char* first, char* last, double value);
std::to_chars_result number_to_chars(char* first, char* last, float value);

template <std::integral Integer>
std::from_chars_result number_from_chars(const char* first, const char* last, Integer& value, int base = 10) {
    return std::from_chars(first, last, value, base);
}
template <std::integral Integer>
std::to_chars_result number_to_chars(char* first, char* last, Integer value, int base = 10) {
    return std::to_chars(first, last, value, base);
}

namespace detail {

// The same functions with strtod and fmt, for C++ libraries that lack them. Tests compare them with the library's.
std::from_chars_result from_chars_by_strtod(const char* first, const char* last, double& value,
                                            std::chars_format format);
std::from_chars_result from_chars_by_strtod(const char* first, const char* last, float& value,
                                            std::chars_format format);
std::string to_chars_by_fmt(double value);
std::string to_chars_by_fmt(float value);

}  // namespace detail
}  // namespace macheps
