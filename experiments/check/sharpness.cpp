// SPDX-License-Identifier: Apache-2.0
// How small a fault would have been noticed.
#include "experiments/check/power_products.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Of the outputs that one scale error befalls together.
struct Part {
    double certain = infinite;  ///< the least error that one output's bound refuses, whatever the kernel's own error is
    double squares = 0, count = 0;
    bool is_empty = true;

    void see(const Limits& limits, std::size_t i) {
        is_empty = false;
        const double y = limits.exact[i];
        if (!std::isfinite(y)) return;
        // A legal kernel's own error may hide as much as a bound.
        if (y != 0) certain = std::min(certain, 2 * limits.certain[i] / std::fabs(y));
        if (limits.deviation[i] > 0) {
            squares += y / limits.deviation[i] * (y / limits.deviation[i]);
            ++count;
        }
    }
    /// What these outputs' mean square lacks of the limit: a common factor adds its own square to it.
    double least(double mean_square) const {
        const double room = 1 + 6 * std::sqrt(8 / std::max(count, 1.0)) - mean_square;
        if (count < 64 || squares <= 0 || room <= 0) return certain;
        return std::min(certain, std::sqrt(room / (squares / count)));
    }
};

double worst(const std::vector<Part>& parts, double mean_square) {
    double most = 0;
    for (const Part& part : parts) most = std::max(most, part.is_empty ? 0 : part.least(mean_square));
    return most;
}

void see_scales(const Limits& limits, double mean_square, Sharpness& s) {
    constexpr std::int64_t tile = 16;
    const std::int64_t across = (limits.columns + tile - 1) / tile;
    const std::vector<std::int64_t> starts = group_starts_of(limits);
    const auto sized = [](std::int64_t n) { return std::vector<Part>(static_cast<std::size_t>(n)); };
    std::vector<Part> all(1), rows = sized(limits.rows), columns = sized(limits.columns),
                              tiles = sized(((limits.rows + tile - 1) / tile) * across), groups(starts.size() - 1);
    std::size_t group = 0;
    for (std::int64_t r = 0; r < limits.rows; ++r) {
        while (starts[group + 1] <= r) ++group;
        for (std::int64_t c = 0; c < limits.columns; ++c) {
            const auto i = static_cast<std::size_t>(r * limits.columns + c);
            for (Part* part : {&all[0], &rows[static_cast<std::size_t>(r)], &columns[static_cast<std::size_t>(c)],
                               &tiles[static_cast<std::size_t>(r / tile * across + c / tile)], &groups[group]})
                part->see(limits, i);
        }
    }
    s.scale_of_all = worst(all, mean_square);
    s.scale_of_row = worst(rows, mean_square);
    s.scale_of_column = worst(columns, mean_square);
    s.scale_of_tile = worst(tiles, mean_square);
    s.scale_of_group = worst(groups, mean_square);
}

}  // namespace

Sharpness sharpness_of(const Problem& problem, const Limits& limits, const Judgement& judgement, ThreadPool& pool) {
    Sharpness s{.bias_share = infinite};
    see_scales(limits, judgement.mean_square, s);
    std::int64_t stale = 0;
    for (std::size_t i = 0; i < limits.exact.size(); ++i) {
        const double before = limits.exact[i == 0 ? limits.exact.size() - 1 : i - 1];
        stale += std::fabs(before - limits.exact[i]) > 2 * limits.certain[i];
    }
    s.stale_share = static_cast<double>(stale) / static_cast<double>(limits.size());
    const std::int64_t terms = problem.products                               ? problem.products->operands().k
                               : problem.declaration.operation->has_reduction ? problem.columns
                                                                              : 0;
    for (std::int64_t dropped = 1; dropped < terms && s.dropped_terms == 0; dropped *= 2) {
        const std::vector<double> exact = mutated(problem, {.dropped = dropped}, pool);
        for (std::size_t i = 0; i < exact.size() && s.dropped_terms == 0; ++i) {
            if (std::fabs(exact[i] - limits.exact[i]) > 2 * limits.certain[i]) s.dropped_terms = dropped;
        }
    }
    if (!problem.products) return s;
    s.accumulator_bits = refused_accumulator(problem, limits, pool);
    const bool has_bias = std::any_of(problem.inputs.begin(), problem.inputs.end(),
                                      [](const Input& input) { return input.name == "bias"; });
    if (has_bias) {
        const std::vector<double> without = mutated(problem, {.missing = "bias"}, pool);
        for (std::size_t i = 0; i < without.size(); ++i) {
            const double change = std::fabs(without[i] - limits.exact[i]);
            if (change > 0) s.bias_share = std::min(s.bias_share, 2 * limits.certain[i] / change);
        }
    }
    return s;
}

}  // namespace macheps::check
