// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/matmul/matmul.hpp"

#include "emulation/cpu/matmul/kernel.hpp"
#include "emulation/cpu/matmul/machine/machine_kernel.hpp"
#include "emulation/cpu/matmul/order/order_kernel.hpp"

#include <algorithm>
#include <mutex>

namespace macheps {

namespace {

constexpr std::int64_t matmul_worth_a_thread =
    2'000'000;                                    ///< fused multiply-adds: about 20 microseconds, or several wake-ups
constexpr std::int64_t matmul_column_grain = 32;  ///< columns of a panel of B, and two cache lines of the output

/// Division of an output matrix into row_parts x column_parts rectangles. Several small matrices form one task.
struct Grid {
    std::int64_t row_parts = 1, column_parts = 1, matrices_per_task = 1;
};

Grid cut(const Matmul& args, std::int64_t matrices, int threads) {
    const std::int64_t cost = args.m * args.n * max_of(args.k, std::int64_t{1});
    const std::int64_t wanted = std::min(std::int64_t{4} * threads, matrices * cost / matmul_worth_a_thread);
    Grid grid;
    if (threads == 1 || wanted <= 1) {
        grid.matrices_per_task = matrices;
    } else if (matrices >= wanted) {
        grid.matrices_per_task = (matrices + wanted - 1) / wanted;
    } else {
        // Every rectangle packs its own operands, and packing the columns of B is the larger part of that work.
        // Therefore columns are divided first. Rows are divided finely only if threads would otherwise be idle.
        const std::int64_t each = (wanted + matrices - 1) / matrices, busy = (threads + matrices - 1) / matrices;
        grid.column_parts = std::clamp<std::int64_t>(args.n / 256, 1, each);
        const auto rest = [&](std::int64_t parts) { return (parts + grid.column_parts - 1) / grid.column_parts; };
        grid.row_parts = std::clamp<std::int64_t>(args.m / 256, 1, rest(each));
        grid.row_parts = std::max(grid.row_parts, std::clamp<std::int64_t>(args.m / 48, 1, rest(std::min(busy, each))));
    }
    return grid;
}

}  // namespace

void matmul(Simd simd, ThreadPool& pool, const Matmul& args, Tally* tally) {
    const std::int64_t matrices = args.batch_outer * args.batch_inner;
    if (matrices == 0 || args.m == 0 || args.n == 0) return;
    const MatmulBlockKernel kernel = runs_as_fp32_chain(args)    ? matmul_block_kernel(simd)
                                     : runs_as_order(simd, args) ? order_block_kernel(simd)
                                                                 : machine_block_kernel(simd);
    const Caster caster(simd, args.out_cast.is_identity() ? Cast{} : args.out_cast);
    const Grid grid = cut(args, matrices, pool.threads());

    const auto compute = [&](std::int64_t matrix, std::int64_t row_part, std::int64_t column_part, Tally* counts) {
        const std::int64_t outer = matrix / args.batch_inner, inner = matrix % args.batch_inner;
        const auto column = [&](std::int64_t part) {
            const std::int64_t grains = (args.n + matmul_column_grain - 1) / matmul_column_grain;
            return std::min(args.n, grains * part / grid.column_parts * matmul_column_grain);
        };
        kernel(args, caster,
               {.a = args.a.data + outer * args.a.stride_outer + inner * args.a.stride_inner,
                .b = args.b.data + outer * args.b.stride_outer + inner * args.b.stride_inner,
                .addend = args.addend == nullptr
                              ? nullptr
                              : args.addend + outer * args.stride_addend_outer + inner * args.stride_addend_inner,
                .out = args.out + outer * args.stride_out_outer + inner * args.stride_out_inner,
                .first_row = args.m * row_part / grid.row_parts,
                .last_row = args.m * (row_part + 1) / grid.row_parts,
                .first_column = column(column_part),
                .last_column = column(column_part + 1),
                .first_element = static_cast<std::uint64_t>(matrix * args.m * args.n)},
               counts);
    };

    const std::int64_t groups = (matrices + grid.matrices_per_task - 1) / grid.matrices_per_task;
    const std::int64_t rectangles = grid.row_parts * grid.column_parts, tasks = groups * rectangles;
    if (tasks == 1) {
        for (std::int64_t matrix = 0; matrix < matrices; ++matrix) compute(matrix, 0, 0, tally);
        return;
    }
    std::mutex adding;
    pool.run(tasks, [&](std::int64_t task) {
        const std::int64_t first = task / rectangles * grid.matrices_per_task;
        const std::int64_t last = std::min(matrices, first + grid.matrices_per_task), part = task % rectangles;
        Tally counts;
        for (std::int64_t matrix = first; matrix < last; ++matrix) {
            compute(matrix, part / grid.column_parts, part % grid.column_parts, tally != nullptr ? &counts : nullptr);
        }
        if (tally != nullptr) {
            const std::lock_guard lock(adding);
            *tally += counts;
        }
    });
}

}  // namespace macheps
