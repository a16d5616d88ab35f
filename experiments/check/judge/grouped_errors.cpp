// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/judge/grouped_errors.hpp"

#include <algorithm>
#include <vector>

namespace macheps::check {

namespace {

/// Below this z, the number of distinct outputs does not matter. It is three deviations of independent uniform errors.
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

/// Returns the kind of output i. The last rounding makes the same error in all outputs of one kind: equal outputs, and
/// outputs that are equally far from a code. If the inputs of a log-softmax are multiples of the outputs' ulp, all
/// outputs of a row are of one kind.
double GroupedErrors::kind_of(std::size_t i) const {
    return limits_.is_narrow ? rounding_kind(half_ulp_, limits_.exact[i]) : std::fabs(limits_.exact[i]);
}

// The smallest number decides for the following reason. Let errors be sums of w_s x_s over roundings s, with
// independent x_s and squares of w_s that add up to one. Squared errors of outputs i and j that share the roundings of
// a set S have a covariance that is proportional to r^2, where r is the sum over S of w_s^2. Over all pairs, r^2 adds
// up to at most the sum over s and t of w_s^2 w_t^2 min(C_s, C_t), where C_s is the sum of c^2 over the multiplicities
// of s. That sum is at most the largest C_s.
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
    // The model assumes uniform rounding errors. The errors of an ideal kernel are not uniform if outputs are close
    // together or on a grid, or are products of few numbers that are rounded on the way. The kernel is then compared
    // with the ideal kernel.
    const double excess = sums.excess(), plain = excess / std::sqrt(8 / sums.count);
    // Counting equal outputs as one does not increase z.
    if (plain <= plain_z) return plain;
    const double kinds = distinct(g);
    return kinds < min_group ? 0 : excess / std::sqrt(8 / kinds);
}

}  // namespace macheps::check
