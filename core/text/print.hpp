// SPDX-License-Identifier: Apache-2.0
// Numbers as text and back, the same on every machine and in every locale. Host only.
#pragma once
#include "core/format.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace macheps {

/// Returns the shortest decimal that reads back as `x` (std::to_chars), or `nan`, `inf` or `-inf`.
std::string decimal(double x);
std::string decimal(float x);

/// Returns the shortest decimal that `encode` (to nearest even, from fp64) turns back into this code. Among equally
/// short ones it is the nearest to the value. It distinguishes the code from all others but is not its value: 448 in
/// e4m3fn is `450`. For the value itself, use decimal(decode64(f, container)), which reads back as exactly this value.
std::string shortest_decimal(Format f, std::uint64_t container);

/// Returns the shortest hexadecimal form of C: `0x1.99999ap-4`, or `nan`, `inf` or `-inf`.
std::string hex_float(double x);

/// Returns the container in hexadecimal, padded with zeros to its width: `0x3f80`.
std::string hex_code(Format f, std::uint64_t container);

/// Reads a whole text as a number, correctly rounded to fp64: a decimal, a hexadecimal float (`0x1.8p3`), `inf` or
/// `nan`, each with an optional sign. A magnitude out of range becomes infinity or zero. Returns nothing if the text is
/// not a number.
std::optional<double> parse_number(std::string_view text);

/// Reads `0x` and hexadecimal digits as a container of `f`. Returns nothing if the text is something else or has too
/// many bits.
std::optional<std::uint64_t> parse_code(Format f, std::string_view text);

}  // namespace macheps
