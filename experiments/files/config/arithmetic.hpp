// SPDX-License-Identifier: Apache-2.0
// Evaluates arithmetic of literals in configs: `5 * 8`. Used only in this folder.
#pragma once
#include <functional>
#include <optional>
#include <string_view>

namespace macheps::files {

struct ArithmeticNumber {
    double value = 0;
    bool is_integer = true;
};

struct ArithmeticRules {
    /// Integers only, as in `$((...))` of a shell: `/` drops the fraction, and there is no `**`.
    bool is_shell = false;
    /// Returns the value of a name, or nothing if it is unknown.
    std::function<std::optional<ArithmeticNumber>(std::string_view)> name;
};

/// Evaluates an expression of numbers, names, parentheses and + - * / // % **. Returns nothing if the text contains
/// anything else, divides by zero, or has a result that a double does not represent exactly as an integer.
std::optional<ArithmeticNumber> evaluate_arithmetic(std::string_view text, const ArithmeticRules& rules);

}  // namespace macheps::files
