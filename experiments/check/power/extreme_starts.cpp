// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/power/extreme_starts.hpp"

#include "core/codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace macheps::check {

namespace {

/// Initial value that a wrong kernel uses for the maximum or minimum of a row: -size for a maximum, size for a minimum.
struct StartRow {
    std::string_view text;
    double size = 0;
};
constexpr StartRow starts[] = {{"(0)", 0}, {"(1e4)", 1e4}, {"(65504)", 65504}, {"(3.4e38)", 0x1.fffffep127}};
/// A maximum of magnitudes may correctly begin at 0. Some kernels begin at one of these numbers instead, to avoid a
/// division by zero.
constexpr StartRow magnitude_starts[] = {{"(1e-12)", 1e-12}, {"(1e-4)", 1e-4}};

}  // namespace

std::vector<MutantRow> extreme_starts(const Declaration& d) {
    const Operation& operation = *d.operation;
    const auto x = d.formats.find("x");
    const Format format = x == d.formats.end() || x->second.format.bits == 0 ? fp32 : x->second.format;
    const double greatest = decode64(format, format.max_finite_code() << format.padding);
    std::vector<MutantRow> rows;
    const auto out = d.formats.find("out");
    const Format stored = out == d.formats.end() || out->second.format.bits == 0 ? fp32 : out->second.format;
    const double greatest_stored = decode64(stored, stored.max_finite_code() << stored.padding);
    const auto add = [&](const StartRow& row, double start) {
        rows.push_back({fmt::format("extreme begins at a number {}", row.text), "range", {.start = start}});
    };
    if (operation.has_extreme && operation.name == "amax") {
        // A start value of at most half the smallest subnormal number of the output's format is rounded to zero when it
        // is stored. The stored result is then correct.
        const double least = Format::power_of_two(stored.emin() - stored.precision);
        for (const StartRow& row : magnitude_starts) {
            if (row.size > least) add(row, row.size);
        }
        return rows;
    }
    for (const StartRow& row : starts) {
        // The fault shows only if all elements of a row are less extreme than the start, and if the output's format can
        // hold the start. If the output is an index, a row of infinities does not show the fault, because every index
        // into such a row is correct.
        const bool is_shown = operation.gives_index
                                  ? greatest > row.size
                                  : (format.has_inf() || greatest > row.size) && greatest_stored >= row.size;
        // A kernel of an operation with a softmax subtracts the maximum before the exponentials. A wrong maximum
        // changes the result only if all exponentials underflow. They do so at -104, because e^-104 is less than half
        // of the smallest fp32 number. The logsumexp is then -inf. If the output has a smaller range than x, the
        // correct logsumexp may also be -inf.
        const double most = operation.name == "logsumexp" ? std::min(greatest, greatest_stored) : greatest;
        const bool is_shift_shown = d.subtracts_max && most > row.size + 104;
        if (operation.has_extreme ? is_shown : operation.has_softmax && is_shift_shown)
            add(row, operation.name == "min" ? row.size : row.size == 0 ? 0 : -row.size);
    }
    return rows;
}

bool has_row_beyond(const Problem& problem, double start) {
    const std::string_view op = problem.declaration.operation->name;
    const auto is_beyond = [&](double x) {
        return op == "min" ? x > start : (op == "amax" ? std::fabs(x) : x) < start;
    };
    const auto x = std::find_if(problem.inputs.begin(), problem.inputs.end(),
                                [](const Input& input) { return input.name == "x"; });
    if (x == problem.inputs.end()) return false;
    for (auto row = x->values.begin(); row != x->values.end(); row += problem.columns) {
        if (std::all_of(row, row + problem.columns, is_beyond)) return true;
    }
    return false;
}

}  // namespace macheps::check
