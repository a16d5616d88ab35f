// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/ops/casts/scaling.hpp"

#include "emulation/cpu/ops/casts/cast.hpp"
#include "emulation/cpu/ops/casts/scaling_kernel.hpp"

#include <algorithm>
#include <mutex>
#include <span>
#include <vector>

namespace macheps {

namespace {

constexpr std::int64_t task_elements = 1 << 15;  ///< about ten microseconds of work

/// The groups of a tensor [rows, columns]. A group is a rectangle of elements with a common scale.
struct Groups {
    std::int64_t rows, columns, block_rows, block_columns, down, across;

    Groups(std::int64_t r, std::int64_t c, const ScaledCast& how) : rows(r), columns(c) {
        const Granularity& block = *how.granularity;
        block_rows = how.k_is_last ? block.outer : block.k;
        block_columns = how.k_is_last ? block.k : block.outer;
        if (block_rows == 0) block_rows = max_of(rows, std::int64_t{1});
        if (block_columns == 0) block_columns = max_of(columns, std::int64_t{1});
        down = (rows + block_rows - 1) / block_rows;
        across = (columns + block_columns - 1) / block_columns;
    }
};

/// A rectangle of the tensor. Its first element is in row `group_row` of the grid of groups. Only if groups are one row
/// high can the rectangle cover several rows of the grid.
struct Part {
    std::int64_t group_row, first_row, last_row, first_column, last_column;
    std::int64_t size() const { return (last_row - first_row) * (last_column - first_column); }
};

/// Divides the tensor into parts that consist of whole groups.
std::vector<Part> parts_of_groups(const Groups& g) {
    std::vector<Part> parts;
    // Parts have at least 64 columns, because largest() reads up to 64 columns at a time if groups are one column wide.
    const std::int64_t wanted = max_of(task_elements / max_of(g.block_rows, std::int64_t{1}), std::int64_t{64});
    const std::int64_t step =
        max_of((wanted + g.block_columns - 1) / g.block_columns, std::int64_t{1}) * g.block_columns;
    for (std::int64_t i = 0; i < g.down; ++i) {
        for (std::int64_t c = 0; c < g.columns; c += step) {
            parts.push_back(
                {i, i * g.block_rows, min_of((i + 1) * g.block_rows, g.rows), c, min_of(c + step, g.columns)});
        }
    }
    return parts;
}

/// Divides the tensor into parts that are contiguous in memory and small enough for the L1 cache. Each part begins at
/// the first column of a group or is within one group.
std::vector<Part> parts_of_memory(const Groups& g) {
    constexpr std::int64_t most = 4096;
    std::vector<Part> parts;
    const std::int64_t high = max_of(most / max_of(g.columns, std::int64_t{1}), std::int64_t{1});
    // If groups are one row high, a part may have several rows of groups, whose scales are also contiguous.
    const std::int64_t joined = g.block_rows == 1 ? high : 1;
    for (std::int64_t i = 0; i < g.down; i += joined) {
        const std::int64_t end = min_of((i + joined) * g.block_rows, g.rows);
        for (std::int64_t r = i * g.block_rows; r < end; r += high) {
            for (std::int64_t c = 0, next; c < g.columns; c = next) {
                next = min_of(c + most, g.columns);
                if (next < g.columns)
                    next = max_of(next / g.block_columns * g.block_columns,
                                  min_of(next, (c / g.block_columns + 1) * g.block_columns));
                parts.push_back({i, r, min_of(r + high, end), c, next});
            }
        }
    }
    return parts;
}

/// Memory that one thread keeps from call to call. Allocating new pages for each call would take longer than writing to
/// them.
struct Scratch {
    std::vector<std::int32_t> amax;
    std::vector<float> encode;
};

}  // namespace

ScaledResult scaled_cast(Simd simd, ThreadPool& pool, const float* in, float* out, float* decode, std::int64_t rows,
                         std::int64_t columns, const ScaledCast& how, Tally* tally) {
    const Groups g(rows, columns, how);
    const auto count = static_cast<std::size_t>(g.down * g.across);
    const ScalingKernels& kernels = scaling_kernels(simd);
    thread_local Scratch of_thread;
    // Through this reference, the threads of the pool use the memory of the calling thread. They would use their own
    // memory if they named `of_thread`.
    Scratch& scratch = of_thread;
    scratch.amax.resize(count);
    scratch.encode.resize(count);
    const auto each_part = [&](const std::vector<Part>& parts, const auto& f) {
        // A task processes several small parts.
        const std::int64_t n = static_cast<std::int64_t>(parts.size());
        const std::int64_t each = max_of(
            task_elements / max_of(rows * columns / max_of(n, std::int64_t{1}), std::int64_t{1}), std::int64_t{1});
        pool.run((n + each - 1) / each, [&](std::int64_t task) {
            f(std::span(parts).subspan(static_cast<std::size_t>(task * each),
                                       static_cast<std::size_t>(min_of(each, n - task * each))));
        });
    };
    const auto group_of = [&g](const Part& part) {
        return part.group_row * g.across + part.first_column / g.block_columns;
    };
    const auto rows_of = [&](const Part& part) {
        return ScaledRows{in + part.first_row * columns + part.first_column, part.last_row - part.first_row,
                          part.last_column - part.first_column, columns};
    };
    each_part(parts_of_groups(g), [&](std::span<const Part> some) {
        for (const Part& part : some) {
            kernels.largest(rows_of(part), g.block_columns, how.rule->ignores_nan,
                            scratch.amax.data() + group_of(part));
        }
    });

    // C++ allows an array of a signed type to be read as the unsigned type.
    const std::span largest(reinterpret_cast<const std::uint32_t*>(scratch.amax.data()), count);
    ScaledResult result = group_scales(how, largest, scratch.encode, {decode, count});
    result.scales = operand_scales(how, g.across, decode);

    Cast cast = how.cast;
    cast.encode_scale = 1;
    const Caster caster(simd, cast), unchanged(simd, Cast{});
    cast.encode_scale = 2;  // a placeholder that is not 1; the kernel uses the scales of the groups
    const CastPlan plan(cast);
    const ScalingKernels::Cast in_one_pass = tally == nullptr ? kernels.cast(plan) : nullptr;
    std::mutex adding;
    const std::int64_t scales_of_row = g.block_rows == 1 ? g.across : 0;
    each_part(parts_of_memory(g), [&](std::span<const Part> some) {
        Tally scaled, before;
        std::vector<float> kept;
        for (const Part& part : some) {
            const ScaledRows x = rows_of(part);
            const std::int64_t first = x.x - in;
            const float* scales = scratch.encode.data() + group_of(part);
            float* z = out + first;
            if (in_one_pass != nullptr) {
                in_one_pass(plan, x, scales, scales_of_row, g.block_columns, z);
                continue;
            }
            if (tally != nullptr) {
                kept.resize(static_cast<std::size_t>(part.size()));
                unchanged(x.x, kept.data(), part.size(), &before, 0);
            }
            kernels.multiply(x, scales, scales_of_row, g.block_columns, z);
            caster(z, z, part.size(), tally != nullptr ? &scaled : nullptr, static_cast<std::uint64_t>(first));
        }
        if (tally == nullptr) return;
        // The inputs are counted before scaling. A product that underflowed counts as an underflow of the cast.
        scaled.underflow += scaled.zero_in - min_of(scaled.zero_in, before.zero_in);
        scaled.zero_in = before.zero_in;
        scaled.nan_in = before.nan_in;
        scaled.inf_in = before.inf_in;
        scaled.amax = before.amax;
        scaled.amin_nz = before.amin_nz;
        const std::lock_guard lock(adding);
        *tally += scaled;
    });
    return result;
}

}  // namespace macheps
