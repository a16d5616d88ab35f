// SPDX-License-Identifier: Apache-2.0
// Converts numbers to text and back, in the same way on every machine and in every locale. Host only.
#pragma once
#include "core/format.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace macheps {

/// Returns the shortest decimal that reads back as `x` (std::to_chars), or `nan`, `inf` or `-inf`.
std::string decimal(double x);
std::string decimal(float x);

/// Returns the shortest decimal that reads back as this code: parsed as fp64 and then encoded to nearest even, it gives
/// the code. If several decimals are equally short, returns the one nearest to the value of the code. The decimal
/// identifies the code but may differ from its value: 448 in e4m3fn is `450`. For text that reads back as exactly the
/// value, use decimal(decode64(f, container)).
std::string shortest_decimal(Format f, std::uint64_t container);

/// Returns `x` in the hexadecimal notation of C, with as few digits as possible: `0x1.99999ap-4`. Special values are
/// `nan`, `inf` and `-inf`.
std::string hex_float(double x);

/// Returns the container in hexadecimal, padded with zeros to the width of the container: `0x3f80`.
std::string hex_code(Format f, std::uint64_t container);

/// Parses a text as an fp64 number, correctly rounded. Accepts a decimal, a hexadecimal float (`0x1.8p3`), `inf` and
/// `nan`, each with an optional sign. A magnitude out of range becomes infinity or zero. Returns nothing if the text as
/// a whole is not a number.
std::optional<double> parse_number(std::string_view text);

/// Parses `0x` and hexadecimal digits as a container of `f`. Returns nothing if the text has another form or too many
/// bits.
std::optional<std::uint64_t> parse_code(Format f, std::string_view text);

}  // namespace macheps
