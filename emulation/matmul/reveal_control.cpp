// SPDX-License-Identifier: Apache-2.0
#include "emulation/matmul/reveal_control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace macheps {

namespace {

bool has_unit(int row, int term) { return row == 0 || (term >> (row - 1) & 1) != 0; }

/// Returns, for each control row, the number of units among the terms [first, last).
std::vector<double> counts_of(int rows, int first, int last) {
    std::vector<double> counts(static_cast<std::size_t>(rows));
    for (int row = 0; row < rows; ++row) {
        for (int term = first; term < last; ++term)
            counts[static_cast<std::size_t>(row)] += has_unit(row, term) ? 1 : 0;
    }
    return counts;
}

std::vector<double> scaled(std::vector<double> counts, double factor) {
    for (double& count : counts) count *= factor;
    return counts;
}

/// Returns the term whose units alone give these counts in the control rows, or -1 if no term matches.
int one_term(const std::vector<double>& counts) {
    int term = 0;
    for (std::size_t row = 0; row < counts.size(); ++row) {
        if (counts[row] != 0 && counts[row] != 1) return -1;
        if (row > 0 && counts[row] == 1) term |= 1 << (row - 1);
    }
    return counts.front() == 1 ? term : -1;
}

/// Describes the probable error of a kernel whose control rows give these counts, which differ from the expected
/// counts.
std::string what_happened(const std::vector<double>& counts, int terms) {
    const int rows = static_cast<int>(counts.size());
    const std::vector<double> right = counts_of(rows, 0, terms);
    const auto all = [&](auto&& holds) { return std::all_of(counts.begin(), counts.end(), holds); };
    if (!all([](double count) { return std::isfinite(count); })) {
        return "a sum of small units is not finite: the kernel reads memory outside of its operands, or has not "
               "written "
               "its outputs";
    }
    if (all([](double count) { return count == 0; })) {
        return "every control row gave 0: the kernel returns zeros, or has not written its outputs";
    }
    if (terms > 2 && all([&](double count) { return count == counts.front(); })) {
        return fmt::format("every control row gave {:g} units: the result does not depend on the operands", counts[0]);
    }
    if (counts == scaled(right, counts[0] / terms)) {
        return fmt::format(
            "every result is {:g} times the sum: the kernel multiplies by a factor, or reads each term that many times",
            counts[0] / terms);
    }
    std::vector<double> missing = right;
    for (std::size_t row = 0; row < missing.size(); ++row) missing[row] -= counts[row];
    const std::string gave = fmt::format("{} units gave {:g}", terms, counts[0]);
    if (!std::all_of(missing.begin(), missing.end(), [](double count) { return count == std::floor(count); })) {
        return fmt::format(
            "{}, which is not a whole number: the result is not a sum of the operands, or it rounds the units away",
            gave);
    }
    const double lost = missing[0];
    if (const int term = one_term(missing); term >= 0)
        return fmt::format("term {} is missing from the sum: {}", term, gave);
    if (const int term = one_term(scaled(missing, -1)); term >= 0)
        return fmt::format("term {} is read twice: {}", term, gave);
    if (lost == 0) {
        return "the sum has the right number of terms, but one is left out, and another is read instead";
    }
    if (lost > 0 && lost < terms) {
        const int few = static_cast<int>(lost);
        if (missing == counts_of(rows, terms - few, terms)) {
            return fmt::format("the last {} terms, from {} on, are missing from the sum: {}", few, terms - few, gave);
        }
        if (missing == counts_of(rows, 0, few)) {
            return fmt::format("the first {} terms are missing from the sum: {}", few, gave);
        }
        return fmt::format("{} of the {} terms are missing from the sum: {}", few, terms, gave);
    }
    if (lost < 0) return fmt::format("the sum has {:g} terms too many: some are read twice ({})", -lost, gave);
    return fmt::format("{}: the result is not a sum of the operands", gave);
}

}  // namespace

int control_rows(int terms) {
    int rows = 1;
    while (terms > 1 << (rows - 1)) ++rows;
    return rows;
}

void fill_control(const RevealOperands& operands, int terms, int row, float* a, float* b) {
    std::fill_n(b, terms, operands.unit_b);
    for (int term = 0; term < terms; ++term) a[term] = has_unit(row, term) ? operands.unit_a : 0.0f;
}

void check_controls(const RevealOperands& operands, int terms, std::span<const double> results) {
    std::vector<double> counts;
    for (const double result : results) counts.push_back(result / operands.unit());
    if (counts == counts_of(static_cast<int>(counts.size()), 0, terms)) return;
    throw Error(
        {.what = what_happened(counts, terms),
         .where = "control rows",
         .fix = "correct the kernel, or the code that reads x and writes out; the order of such a sum cannot be found",
         .exit = Exit::check_failed});
}

}  // namespace macheps
