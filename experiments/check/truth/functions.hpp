// SPDX-License-Identifier: Apache-2.0
// Tables of the accuracy that vendors state for the functions that kernels use, such as exp and log. A declaration
// names one of the tables.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace macheps::check {

enum class Function : std::uint8_t { exponential, logarithm, inverse_root, root, tangent, error, quotient };
inline constexpr std::size_t function_count = 7;
/// The names of functions in declarations.
inline constexpr std::array<std::string_view, function_count> function_names{"exp",  "log", "rsqrt", "sqrt",
                                                                             "tanh", "erf", "div"};

/// Error bound of a function g at x: |error| <= relative |g| + per_argument |x| |g| + absolute.
struct Accuracy {
    double relative = 0, per_argument = 0, absolute = 0;
};

/// Error bound of a function at x, in the units that vendors use: (ulps + per_argument |x|) ulp of fp32, plus
/// `absolute`. An ulp is at most 2^-23 of the value.
struct Ulps {
    double ulps = 0.5, per_argument = 0, absolute = 0;
};

struct FunctionTable {
    std::string_view name;
    std::array<Ulps, function_count> functions;
    std::string_view source;

    const Ulps& of(Function function) const { return functions[static_cast<std::size_t>(function)]; }
};
std::span<const FunctionTable> function_tables();

/// Returns the table that `text` names. After the name, `text` may give errors of single functions, in ulp of fp32,
/// which replace those of the table: `cuda,exp=4,tanh=16`. Errors: throws Error (usage) that suggests the nearest name.
FunctionTable find_functions(std::string_view text, std::string_view where = "--functions");

/// Returns true if `table` allows larger errors of the function than `than` does.
inline bool is_looser(const FunctionTable& table, const FunctionTable& than, Function function) {
    const Ulps &one = table.of(function), &other = than.of(function);
    return one.ulps > other.ulps || one.per_argument > other.per_argument || one.absolute > other.absolute;
}

}  // namespace macheps::check
