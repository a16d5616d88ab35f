// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/judge/grouped_errors.hpp"

#include <algorithm>
#include <vector>

namespace macheps::check {

namespace {

/// Up to this z, the test does not count how many outputs are distinct. For independent uniform errors, a z of 1 is
/// about three standard deviations.
constexpr double plain_z = 1;

double effective_number(std::vector<double>& kinds) {
    std::sort(kinds.begin(), kinds.end());
    double squares = 0;
    for (std::size_t i = 0, end = 0; i < kinds.size(); i = end) {
        while (end < kinds.size() && kinds[end] == kinds[i]) ++end;
        squares += static_cast<double>(end - i) * static_cast<double>(end - i);
    }
    const auto n = static_cast<double>(kinds.size());
    return n == 0 ? 0 : n * n / squares;
}

}  // namespace

/// Returns a key for output i. The final rounding makes the same error, in ulps, in all outputs that have the same key.
/// The exact results of such outputs are equal, or they are equally far from a number of the format. For example, all
/// outputs of a row of a log-softmax have the same key if its inputs are multiples of the outputs' ulp.
double GroupedErrors::kind_of(std::size_t i) const {
    return limits_.is_narrow ? rounding_kind(half_ulp_, limits_.exact[i]) : std::fabs(limits_.exact[i]);
}

// The minimum over all roundings is right for the following reason. Let the error of an output be the sum of w_s x_s
// over the roundings s. The x_s are independent, and the sum of all w_s^2 is one. If outputs i and j share the
// roundings of a set S, the covariance of their squared errors is proportional to r^2, where r is the sum of w_s^2 over
// S. For each rounding s, let C_s be the sum of c^2, where each c is the number of outputs that share one error of s.
// The sum of r^2 over all pairs of outputs is at most the sum over s and t of w_s^2 w_t^2 min(C_s, C_t). That double
// sum is at most the largest C_s.
double GroupedErrors::distinct(const OutputBlock& g) const {
    std::vector<double> kinds;
    visit(g, [&](std::size_t i) { kinds.push_back(kind_of(i)); });
    double least = effective_number(kinds);
    for (const LimitColumn<std::uint32_t>& inner : limits_.inner_kinds) {
        kinds.clear();
        visit(g, [&](std::size_t i) { kinds.push_back(inner[i]); });
        least = std::min(least, effective_number(kinds));
    }
    return least;
}

double GroupedErrors::z_of(const OutputBlock& g, const Squares& sums) const {
    if (sums.count < min_group) return 0;
    const double mean = sums.total / sums.count, z = (mean - 1) / std::sqrt(8 / sums.count);
    if (z <= plain_z) return z;
    // The model assumes uniform rounding errors. Even the errors of an ideal kernel are not uniform if its outputs are
    // close together, lie on a grid, or are products of a few rounded intermediate results. excess() therefore also
    // compares the kernel with the ideal kernels.
    const double excess = sums.excess(), plain = excess / std::sqrt(8 / sums.count);
    // If equal outputs count as one, z can only decrease. A small z therefore needs no further test.
    if (plain <= plain_z) return plain;
    const double kinds = distinct(g);
    return kinds < min_group ? 0 : excess / std::sqrt(8 / kinds);
}

}  // namespace macheps::check
