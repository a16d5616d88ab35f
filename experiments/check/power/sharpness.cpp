// SPDX-License-Identifier: Apache-2.0
// Finds the smallest faults that a check would have noticed.
#include "experiments/check/judge/grid.hpp"
#include "experiments/check/power/power_products.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

constexpr double unnoticed = std::numeric_limits<double>::infinity();

/// Statistics of a set of outputs that share a scale. They determine the smallest relative error of the scale that the
/// tests notice.
struct Part {
    double certain =
        unnoticed;  ///< smallest scale error that moves an output out of its bound, whatever the kernel's own error is
    double squares = 0, count = 0;
    bool is_empty = true;

    void add(const Part& other) {
        certain = std::min(certain, other.certain);
        squares += other.squares;
        count += other.count;
        is_empty = is_empty && other.is_empty;
    }
    /// Returns the smallest relative error of the common scale that T1 or T3 would refuse. A scale error s increases
    /// the mean square by s^2 squares / count, and T3 limits the mean square. A `mean_square` of NaN means that T3 does
    /// not decide.
    double least(double mean_square) const {
        const double room = 1 + 6 * std::sqrt(8 / std::max(count, 1.0)) - mean_square;
        if (count < 64 || squares <= 0 || !(room > 0)) return certain;
        return std::min(certain, std::sqrt(room / (squares / count)));
    }
};

Part part_of(const Limits& limits, std::size_t i) {
    Part part{.is_empty = false};
    const double y = limits.exact[i], h = limits.deviation[i];
    if (!std::isfinite(y)) return part;
    // The kernel's own error may be as large as the bound and have the opposite sign. Only a scale error that moves the
    // output by two bounds is therefore certain to be refused.
    if (y != 0) part.certain = 2 * limits.certain[i] / std::fabs(y);
    if (h > 0) {
        part.squares = y / h * (y / h);
        part.count = 1;
    }
    return part;
}

double worst(std::span<const Part> parts, double mean_square) {
    double most = 0;
    for (const Part& part : parts) most = std::max(most, part.is_empty ? 0 : part.least(mean_square));
    return most;
}

/// Returns the largest threshold of the columns of a group with a single row, in which each column is one output.
/// Returns 0 for groups of several rows.
double worst_of_single(const Limits& limits, const Grid<Part>::Group& group) {
    double most = 0;
    for (std::int64_t c = 0; c < limits.columns && group.rows == 1; ++c)
        most = std::max(most, part_of(limits, static_cast<std::size_t>(group.first * limits.columns + c)).certain);
    return most;
}

void observe_scales(const Limits& limits, double mean_square, Sharpness& s, ThreadPool& pool) {
    const Grid<Part> grid = gather<Part>(limits, pool, [&](std::size_t i) { return part_of(limits, i); });
    s.scale_of_all = worst({&grid.all, 1}, mean_square);
    s.scale_of_row = worst(grid.rows, mean_square);
    std::vector<Part> columns(static_cast<std::size_t>(limits.columns));
    for (const auto& group : grid.groups) {
        for (std::size_t c = 0; c < group.columns.size(); ++c) columns[c].add(group.columns[c]);
        s.scale_of_tile = std::max(s.scale_of_tile, worst(group.tiles, mean_square));
        s.scale_of_group = std::max(s.scale_of_group, worst({&group.all, 1}, mean_square));
        s.scale_of_column = std::max(s.scale_of_column, worst_of_single(limits, group));
    }
    s.scale_of_column = std::max(s.scale_of_column, worst(columns, mean_square));
}

/// Returns true if the defect changes an exact result by more than twice the bound of the output.
bool is_certain(const Problem& problem, const Limits& limits, const Defect& defect, ThreadPool& pool) {
    const Mutated mutated(problem, defect);
    std::vector<double> exact;
    for (const OutputRange& part : growing_parts(problem)) {
        exact.resize(part.size());
        mutated.results(part, exact, pool);
        for (std::size_t j = 0; j < exact.size(); ++j) {
            const std::size_t i = static_cast<std::size_t>(part.first) + j;
            if (std::fabs(exact[j] - limits.exact[i]) > 2 * limits.certain[i]) return true;
        }
    }
    return false;
}

double stale_share(const Limits& limits, ThreadPool& pool) {
    std::int64_t stale = 0;
    in_parts(
        limits.size(), pool,
        [&](std::size_t first, std::size_t last) {
            std::int64_t count = 0;
            for (std::size_t i = first; i < last; ++i) {
                const double before = limits.exact[i == 0 ? limits.exact.size() - 1 : i - 1];
                count += std::fabs(before - limits.exact[i]) > 2 * limits.certain[i];
            }
            return count;
        },
        [&](std::int64_t count) { stale += count; });
    return static_cast<double>(stale) / static_cast<double>(limits.size());
}

}  // namespace

Sharpness sharpness_of(const Problem& problem, const Limits& limits, const Judgement& judgement, ThreadPool& pool,
                       Premise* premise) {
    Sharpness s{.bias_share = unnoticed};
    const bool may_depend = premise != nullptr && problem.declaration.operation->has_reduction && limits.size() >= 64;
    const bool has_mean_squares = !may_depend || premise->holds_for({0, limits.rows, 0, limits.columns});
    observe_scales(limits, has_mean_squares ? judgement.mean_square : std::numeric_limits<double>::quiet_NaN(), s,
                   pool);
    s.stale_share = stale_share(limits, pool);
    const std::int64_t terms = problem.products                               ? problem.products->operands().k
                               : problem.declaration.operation->has_reduction ? problem.columns
                                                                              : 0;
    for (std::int64_t dropped = 1; dropped < terms && s.dropped_terms == 0; dropped *= 2) {
        if (is_certain(problem, limits, {.dropped = dropped}, pool)) s.dropped_terms = dropped;
    }
    if (!problem.products) return s;
    s.accumulator_bits = refused_accumulator(problem, limits, pool);
    const bool has_bias = std::any_of(problem.inputs.begin(), problem.inputs.end(),
                                      [](const Input& input) { return input.name == "bias"; });
    if (has_bias) {
        std::vector<double> without(limits.exact.size());
        Mutated(problem, {.missing = "bias"}).results({0, limits.size()}, without, pool);
        for (std::size_t i = 0; i < without.size(); ++i) {
            const double change = std::fabs(without[i] - limits.exact[i]);
            if (change > 0) s.bias_share = std::min(s.bias_share, 2 * limits.certain[i] / change);
        }
    }
    return s;
}

void set_thresholds(const Sharpness& s, std::vector<Mutant>& mutants) {
    for (Mutant& mutant : mutants) {
        const std::string_view name = mutant.name;
        if (name == "last term dropped" && s.dropped_terms > 0) mutant.threshold = static_cast<double>(s.dropped_terms);
        if (name == "bias missing" && std::isfinite(s.bias_share)) mutant.threshold = s.bias_share;
        if (name.ends_with(" accumulator") && s.accumulator_bits > 0)
            mutant.threshold = static_cast<double>(s.accumulator_bits);
        if (name == "scales of a and b exchanged" && std::isfinite(s.scale_of_all)) mutant.threshold = s.scale_of_all;
        if (name == "a_scale from the neighbour" && std::isfinite(s.scale_of_row)) mutant.threshold = s.scale_of_row;
        if (name == "b_scale from the neighbour" && std::isfinite(s.scale_of_column))
            mutant.threshold = s.scale_of_column;
    }
}

}  // namespace macheps::check
