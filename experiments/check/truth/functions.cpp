// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/truth/functions.hpp"

#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/print.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace macheps::check {

namespace {

// The entries of a row are in the order of the enum Function: exp, log, rsqrt, sqrt, tanh, erf, div.
constexpr FunctionTable tables[] = {
    {"cuda", {{{2}, {1}, {2}, {0.5}, {2}, {2}, {0.5}}}, "CUDA programming guide, 13.1: from tests, no guarantee"},
    // __expf has an error of 2 + floor(1.173 |x|) ulp and flushes subnormal results. __logf has an absolute error of
    // 2^-21.41 for x in [0.5, 2], otherwise an error of 3 ulp. The relative error is 2^-23 for the approximate square
    // root and 2^-11 for tanh.approx.
    {"cuda.fast",
     {{{2, 1.173, 0x1p-126}, {3, 0, 0x1.82p-22}, {2}, {1}, {0x1p12, 0, 0x1p-126}, {2}, {2}}},
     "CUDA programming guide, 13.2, and PTX ISA: intrinsics and approximations"},
    // The HIP manual states errors relative to the functions of the C++ library. If such a function has an error
    // itself, the table adds it.
    {"hip",
     {{{2}, {3}, {2}, {1.5}, {3}, {5}, {0.5}}},
     "HIP math API: from tests over short ranges, plus the error of the library that the tests compare with"},
    {"exact", {{{0.5}, {0.5}, {0.5}, {0.5}, {0.5}, {0.5}, {0.5}}}, "correctly rounded"},
};

template <class Names>
std::string advice(std::string_view name, const Names& names) {
    const std::string near = nearest_name(name, names);
    return near.empty() ? fmt::format("use one of {}", fmt::join(names, ", "))
                        : fmt::format("did you mean '{}'?", near);
}

void set_function(FunctionTable& table, std::string_view text, std::string_view where) {
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const auto at = std::find(function_names.begin(), function_names.end(), name);
    if (equals == std::string_view::npos || at == function_names.end())
        throw usage_error(
            fmt::format("unknown function '{}'", name), std::string(where),
            "write it as in cuda,exp=4; " +
                advice(name, std::vector<std::string_view>(function_names.begin(), function_names.end())));
    const auto ulps = parse_number(text.substr(equals + 1));
    if (!ulps || !(*ulps >= 0.5) || !(*ulps <= 0x1p20))
        throw usage_error(fmt::format("'{}' is not a valid number of ulp", text.substr(equals + 1)), std::string(where),
                          "give 0.5 to 2^20");
    table.functions[static_cast<std::size_t>(at - function_names.begin())] = {*ulps};
}

}  // namespace

std::span<const FunctionTable> function_tables() { return tables; }

FunctionTable find_functions(std::string_view text, std::string_view where) {
    const std::size_t end = text.find(',');
    const std::string_view name = text.substr(0, end);
    std::vector<std::string_view> names;
    for (const FunctionTable& row : tables) names.push_back(row.name);
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
        throw usage_error(fmt::format("unknown table of functions '{}'", name), std::string(where),
                          advice(name, names));
    FunctionTable table = tables[at - names.begin()];
    for (std::size_t begin = end; begin != std::string_view::npos;) {
        const std::size_t next = text.find(',', begin + 1);
        set_function(table, text.substr(begin + 1, next == std::string_view::npos ? next : next - begin - 1), where);
        begin = next;
    }
    return table;
}

}  // namespace macheps::check
