// SPDX-License-Identifier: Apache-2.0
// One function of Berkeley TestFloat and its text format: operands, result and flags in hexadecimal, one case a line.
#pragma once
#include "core/arithmetic.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace macheps::study {

/// What an operand or a result is.
struct TestFloatType {
    enum class Kind : std::uint8_t { number, signed_integer, unsigned_integer, boolean } kind = Kind::number;
    Format format{};  ///< of a number
    int width = 0;    ///< bits of an integer

    int digits() const;  ///< hexadecimal
};

struct TestFloatFunction {
    enum class Does : std::uint8_t { arithmetic, remainder, round_to_integral, compare, convert } does;
    Operation operation{};  ///< of arithmetic
    enum class Relates : std::uint8_t { equal, less_equal, less } relates{};
    bool signaling = false;           ///< a comparison that minds quiet NaNs
    bool always_toward_zero = false;  ///< conversions named `_r_minMag`
    int operands = 1;
    TestFloatType from{}, to{};
    std::string name{};
};

struct TestFloatOptions {
    Round round = Round::nearest_even;
    Tininess tininess = Tininess::after_rounding;
    bool exact = false;  ///< rounding to integers raises inexact
};

struct TestFloatCase {
    std::array<std::uint64_t, 3> operands{};
    std::uint64_t result = 0;
    Flags flags{};
};

/// `f16_add`, `bf16_mulAdd`, `e4m3fn_to_f32`, `ui64_to_tf32`, `f32_le_quiet`, ... Throws Error for another name.
TestFloatFunction parse_testfloat_function(std::string_view name);

/// Our result and flags for these operands.
Rounded evaluate(const TestFloatFunction& function, const TestFloatOptions& options,
                 const std::array<std::uint64_t, 3>& operands);

/// Equality as testfloat_ver has it: any NaN matches any NaN, and where both raise invalid alone, an integer any other.
bool agrees(const TestFloatFunction& function, const TestFloatCase& expected, Rounded ours);

/// One line of testfloat_gen; empty when it has the wrong number of columns, of digits, or an unknown flag.
std::optional<TestFloatCase> parse_testfloat_line(const TestFloatFunction& function, std::string_view line);
std::string testfloat_line(const TestFloatFunction& function, const std::array<std::uint64_t, 3>& operands,
                           Rounded result);

/// Operands number `index` of a stream: special values, neighbours of powers of two, random bits, mixed. Level 2 draws
/// more random bits.
std::array<std::uint64_t, 3> testfloat_operands(const TestFloatFunction& function, int level, std::uint64_t seed,
                                                std::uint64_t index);

}  // namespace macheps::study
