// SPDX-License-Identifier: Apache-2.0
// Computes sums over all outputs of a check and over each row, column, 16x16 tile and group of outputs, in one pass.
// The order of additions does not depend on the number of threads.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <algorithm>
#include <vector>

namespace macheps::check {

/// Sums over all outputs, each row, and each group of rows. Sum{} must be the empty sum, and Sum::add() must add
/// another Sum.
template <class Sum>
struct Grid {
    static constexpr std::int64_t tile = 16;

    /// Sums over a batch, a group of rows, or a part of a sample.
    struct Group {
        std::int64_t first = 0, rows = 0;
        Sum all{};
        std::vector<Sum> columns{};  ///< one for each column; empty if the group has a single row
        std::vector<Sum> tiles{};    ///< row-major, with ceil(columns / 16) tiles in each row
    };
    Sum all{};
    std::vector<Sum> rows{};
    std::vector<Group> groups{};
};

/// Outputs that one task sums: a range of rows of one group, and a range of columns. The length of each range is a
/// multiple of the tile size, except for the last range of rows in a group and the last range of columns.
struct GridBlock {
    std::size_t group = 0;
    std::int64_t first = 0, rows = 0;  ///< `first` counts from the first row of all groups
    std::int64_t column = 0, columns = 0;
    std::int64_t band = 0, stripe = 0;  ///< index of the range of rows (over all groups) and of the columns
};
inline constexpr std::int64_t grid_band = 64, grid_stripe = 4096;

inline std::vector<GridBlock> grid_blocks(const Limits& limits, const std::vector<std::int64_t>& starts) {
    std::vector<GridBlock> blocks;
    std::int64_t band = 0;
    for (std::size_t group = 0; group + 1 < starts.size(); ++group) {
        for (std::int64_t row = starts[group]; row < starts[group + 1]; row += grid_band, ++band) {
            for (std::int64_t column = 0; column < limits.columns; column += grid_stripe)
                blocks.push_back({group, row, std::min(grid_band, starts[group + 1] - row), column,
                                  std::min(grid_stripe, limits.columns - column), band, column / grid_stripe});
        }
    }
    return blocks;
}

/// Computes all sums of a grid. element(i) returns the contribution of output i to the sums.
template <class Sum, class Element>
Grid<Sum> gather(const Limits& limits, ThreadPool& pool, const Element& element) {
    constexpr std::int64_t tile = Grid<Sum>::tile;
    const auto sized = [](std::int64_t n) { return std::vector<Sum>(static_cast<std::size_t>(n)); };
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    const std::vector<std::int64_t> starts = group_starts_of(limits);
    const std::vector<GridBlock> blocks = grid_blocks(limits, starts);
    const std::int64_t across = (limits.columns + tile - 1) / tile,
                       stripes = (limits.columns + grid_stripe - 1) / grid_stripe;
    Grid<Sum> grid;
    grid.groups.resize(starts.size() - 1);
    for (std::size_t g = 0; g < grid.groups.size(); ++g) {
        grid.groups[g].first = starts[g];
        grid.groups[g].rows = starts[g + 1] - starts[g];
        grid.groups[g].tiles = sized((grid.groups[g].rows + tile - 1) / tile * across);
    }
    std::vector<Sum> rows = sized(limits.rows * stripes);
    std::vector<std::vector<Sum>> columns(blocks.size());
    pool.run(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t task) {
        const GridBlock& b = blocks[at(task)];
        auto& group = grid.groups[b.group];
        std::vector<Sum>& of_columns = columns[at(task)];
        if (group.rows > 1) of_columns = sized(b.columns);
        for (std::int64_t r = b.first; r < b.first + b.rows; ++r) {
            Sum row{};
            Sum* tiles = group.tiles.data() + (r - group.first) / tile * across + b.column / tile;
            for (std::int64_t c = 0; c < b.columns; ++c) {
                const Sum one = element(at(r * limits.columns + b.column + c));
                row.add(one);
                tiles[c / tile].add(one);
                if (!of_columns.empty()) of_columns[at(c)].add(one);
            }
            rows[at(r * stripes + b.stripe)] = row;
        }
    });
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        auto& group = grid.groups[blocks[i].group];
        if (columns[i].empty()) continue;
        if (group.columns.empty()) group.columns = sized(limits.columns);
        for (std::int64_t c = 0; c < blocks[i].columns; ++c)
            group.columns[at(blocks[i].column + c)].add(columns[i][at(c)]);
    }
    grid.rows = sized(limits.rows);
    for (auto& group : grid.groups) {
        for (std::int64_t r = group.first; r < group.first + group.rows; ++r) {
            for (std::int64_t s = 0; s < stripes; ++s) grid.rows[at(r)].add(rows[at(r * stripes + s)]);
            group.all.add(grid.rows[at(r)]);
        }
        grid.all.add(group.all);
    }
    return grid;
}

/// Divides the outputs into parts of equal length. Calls part(first, last), on any thread, for each part of outputs
/// [first, last). Then calls join(result) for each result, in the order of the parts.
template <class Part, class Join>
void in_parts(std::int64_t outputs, ThreadPool& pool, const Part& part, const Join& join) {
    constexpr std::int64_t length = 1 << 15;
    struct Result {
        decltype(part(std::size_t{}, std::size_t{})) value{};
    };
    std::vector<Result> results(static_cast<std::size_t>((outputs + length - 1) / length));
    pool.run(static_cast<std::int64_t>(results.size()), [&](std::int64_t task) {
        results[static_cast<std::size_t>(task)].value = part(
            static_cast<std::size_t>(task * length), static_cast<std::size_t>(std::min(outputs, (task + 1) * length)));
    });
    for (const Result& result : results) join(result.value);
}

}  // namespace macheps::check
