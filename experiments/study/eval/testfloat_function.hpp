// SPDX-License-Identifier: Apache-2.0
// One function of Berkeley TestFloat and its text format: operands, result and flags in hexadecimal, one case per line.
#pragma once
#include "core/arithmetic.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace macheps::study {

/// Type of an operand or a result.
struct TestFloatType {
    enum class Kind : std::uint8_t { number, signed_integer, unsigned_integer, boolean } kind = Kind::number;
    Format format{};  ///< format of a number
    int width = 0;    ///< width of an integer in bits

    int digits() const;  ///< number of hexadecimal digits
};

struct TestFloatFunction {
    enum class Does : std::uint8_t { arithmetic, remainder, round_to_integral, compare, convert } does;
    Operation operation{};  ///< only for arithmetic
    enum class Relates : std::uint8_t { equal, less_equal, less } relates{};
    bool signaling = false;           ///< the comparison raises invalid for quiet NaNs
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

/// Parses a name such as `f16_add`, `bf16_mulAdd`, `e4m3fn_to_f32`, `ui64_to_tf32` or `f32_le_quiet`. Throws Error for
/// other names.
TestFloatFunction parse_testfloat_function(std::string_view name);

/// Returns the result and flags that macheps computes for the operands.
Rounded evaluate(const TestFloatFunction& function, const TestFloatOptions& options,
                 const std::array<std::uint64_t, 3>& operands);

/// Compares like testfloat_ver. The flags must be equal. Any two NaNs count as equal. If invalid is the only flag that
/// is raised, any two integers count as equal.
bool agrees(const TestFloatFunction& function, const TestFloatCase& expected, Rounded ours);

/// Parses a line of testfloat_gen. Returns nothing if the number of columns or digits is wrong, or if a bit is set that
/// does not belong to the type or to the flags.
std::optional<TestFloatCase> parse_testfloat_line(const TestFloatFunction& function, std::string_view line);
std::string testfloat_line(const TestFloatFunction& function, const std::array<std::uint64_t, 3>& operands,
                           Rounded result);

/// Returns the operands of test case `index` in a stream of cases. The stream mixes special values, neighbours of
/// powers of two and random bits. Level 2 draws fewer special values and more of their neighbours.
std::array<std::uint64_t, 3> testfloat_operands(const TestFloatFunction& function, int level, std::uint64_t seed,
                                                std::uint64_t index);

}  // namespace macheps::study
