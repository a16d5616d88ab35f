// SPDX-License-Identifier: Apache-2.0
// How accurate the functions of kernels are: what vendors say of their own, as tables that a declaration names.
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
/// As declarations spell them.
inline constexpr std::array<std::string_view, function_count> function_names{"exp",  "log", "rsqrt", "sqrt",
                                                                             "tanh", "erf", "div"};

/// |error| <= relative |g| + per_argument |x| |g| + absolute, of g at x.
struct Accuracy {
    double relative = 0, per_argument = 0, absolute = 0;
};

/// The same in ulp of fp32, as tables of vendors have it; an ulp is at most 2^-23 of the value.
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

/// A table by its name, behind which single functions may differ: `cuda`, `cuda,exp=4,tanh=16` (ulp of fp32). Errors:
/// throws Error (usage) with the nearest name.
FunctionTable find_functions(std::string_view text, std::string_view where = "--functions");

/// Returns true if `table` allows larger errors of the function than `than` does.
inline bool is_looser(const FunctionTable& table, const FunctionTable& than, Function function) {
    const Ulps &one = table.of(function), &other = than.of(function);
    return one.ulps > other.ulps || one.per_argument > other.per_argument || one.absolute > other.absolute;
}

}  // namespace macheps::check
