// SPDX-License-Identifier: Apache-2.0
// Matmuls on sm_90's matrix unit by wgmma: operands packed to codes, tiles of them through shared memory in a pipeline
// of asynchronous copies; one chain of instructions per slice of k or per promotion interval.
#pragma once
#include "emulation/gpu/matmul_mma.hpp"

namespace macheps::gpu {

/// `warpgroups` x 64 rows and n columns of output per block. A tile of k is 64 bytes: two instructions.
template <int warpgroups_, int n_>
struct WgmmaTile {
    static constexpr int warpgroups = warpgroups_, n = n_;
    static constexpr int rows = 64 * warpgroups, columns = n, threads = 128 * warpgroups;
    static constexpr int depth_bytes = 64, steps = 2;
    static constexpr int stages = 6, stage_bytes = (rows + columns) * depth_bytes;

    /// Byte of piece `piece` of row `row` of an operand of `all` rows: core matrices of one piece side by side.
    template <int all>
    static MACHEPS_HD constexpr int at(int row, int piece) {
        return (piece * (all / 8) + row / 8) * 128 + row % 8 * 16;
    }
    static constexpr std::size_t shared_bytes() {
        return max_of(std::size_t{stages} * stage_bytes, tile_output_bytes(rows, columns, threads));
    }
};

template <class Tile, WgmmaType type, bool promoted>
struct WgmmaKernel {
    static constexpr int threads = Tile::threads;
    static constexpr int blocks_per_processor = (promoted ? 256 : 512) / threads;
    static constexpr int n = Tile::n;
    using Sums = WgmmaSums<type, n>;
    MatmulJob job;
    PackedDepth packed;
    PackedCodes codes;
    UnitModel model;

    struct Main {
        float x[promoted ? n / 2 : 1];
    };

    MACHEPS_KERNEL void operator()(const Block& block) const {
        const std::int64_t tiles_across = (job.args.n + Tile::columns - 1) / Tile::columns;
        const std::int64_t row = block.x() / tiles_across * Tile::rows;
        const std::int64_t column = block.x() % tiles_across * Tile::columns;
        const int slice = block.y();
        // Filling is added nowhere: an instruction of +0 alone would turn a sum of -0 into +0.
        const std::int64_t steps = (packed.terms(slice, job.args.k) + model.k - 1) / model.k;
        const std::int64_t full_tiles = steps / Tile::steps, tiles = (steps + Tile::steps - 1) / Tile::steps;
        const std::int64_t tiles_per_chain = promoted ? job.args.rule.promotion_interval / (model.k * Tile::steps) : 1;
        for (std::int64_t matrix = block.z(); matrix < job.matrices(); matrix += 65535) {
            const std::byte* const a =
                codes.a + (matrix * codes.a_rows + row) * codes.row_bytes + slice * codes.slice_bytes;
            const std::byte* const b =
                codes.b + (matrix * codes.b_rows + column) * codes.row_bytes + slice * codes.slice_bytes;
            const auto load = [&](int thread, std::int64_t tile) {
                if (tile < tiles) {
                    std::byte* const stage = block.shared() + tile % Tile::stages * Tile::stage_bytes;
                    start_copy_of_tile<Tile::rows, Tile::depth_bytes, threads>(
                        stage, a + tile * Tile::depth_bytes, codes.row_bytes, thread, Tile::template at<Tile::rows>);
                    start_copy_of_tile<Tile::columns, Tile::depth_bytes, threads>(
                        stage + Tile::rows * Tile::depth_bytes, b + tile * Tile::depth_bytes, codes.row_bytes, thread,
                        Tile::template at<Tile::columns>);
                }
                end_copy_group();
            };
            PerThread<Sums> sums(block, Sums{});
            PerThread<Main> main(block, Main{});
            // While instructions read the last two tiles, copies fill the others.
            constexpr int ahead = Tile::stages - 2;
            block.apart([&](int thread) {
                for (int tile = 0; tile < ahead; ++tile) load(thread, tile);
            });
            const auto arrive = [&](std::int64_t tile) {
                // Everyone's copies of this tile are here, and everyone is done with the tile before the last.
                block.each([&](int) {
                    wait_copies<ahead - 1>();
                    show_to_matrix_unit();
                });
                block.apart([&](int thread) { load(thread, tile + ahead); });
                begin_wgmma();
            };
            std::int64_t chain = 0;  // tiles in the chain that is being made
            const auto promote_chain = [&](std::int64_t first_tile) {
                const std::int64_t first = packed.first(slice, job.args.k) + first_tile * Tile::steps * model.k;
                block.apart([&](int thread) { promote(thread, row, column, first, sums[thread], main[thread]); });
            };
            for (std::int64_t tile = 0; tile < full_tiles; ++tile) {
                arrive(tile);
                MACHEPS_UNROLL
                for (int step = 0; step < Tile::steps; ++step) multiply(block, tile, step, sums);
                end_wgmma_group();
                if (promoted && ++chain == tiles_per_chain) {
                    wait_wgmma<0>();
                    promote_chain(tile + 1 - chain);
                    chain = 0;
                } else {
                    wait_wgmma<1>();
                }
            }
            wait_wgmma<0>();
            if (full_tiles < tiles) {
                arrive(full_tiles);
                multiply(block, full_tiles, 0, sums);
                end_wgmma_group();
                wait_wgmma<0>();
            }
            if (promoted && (chain != 0 || full_tiles < tiles)) promote_chain(full_tiles - chain);
            block.each([&](int) { wait_copies<0>(); });
            block.each([&](int thread) {
                auto* const out = reinterpret_cast<float*>(block.shared());
                MACHEPS_UNROLL
                for (int i = 0; i < n / 2; ++i) {
                    const auto [r, c] = wgmma_sum_place(thread % 128, i);
                    out[tile_output_at(n, thread / 128 * 64 + r, c)] =
                        promoted ? main[thread].x[promoted ? i : 0] : wgmma_sum<type, n>(sums[thread], i);
                }
            });
            finish_tile<Tile::rows, Tile::columns>(block, job, matrix, slice, row, column);
        }
    }

  private:
    /// The instruction at `step` of a tile, in every warpgroup.
    MACHEPS_KERNEL void multiply(const Block& block, std::int64_t tile, int step, PerThread<Sums>& sums) const {
        const std::uint32_t a = shared_address(block, block.shared() + tile % Tile::stages * Tile::stage_bytes);
        const std::uint32_t b = a + Tile::rows * Tile::depth_bytes;
        const auto operand = [](std::uint32_t tile_address, int all_rows, int first_row, int first_piece) {
            const auto rows = static_cast<std::uint32_t>(all_rows);
            return SharedOperand{tile_address + static_cast<std::uint32_t>(first_row) * 16 +
                                     static_cast<std::uint32_t>(first_piece) * rows * 16,
                                 rows * 16, 128};
        };
        multiply_add<type, n>(
            block, model, [&](int warpgroup) { return operand(a, Tile::rows, 64 * warpgroup, 2 * step); },
            [&](int) { return operand(b, Tile::columns, 0, 2 * step); }, sums);
    }
    /// The chain from term `first` on joins the main sums, and the next chain begins.
    MACHEPS_KERNEL void promote(int thread, std::int64_t row, std::int64_t column, std::int64_t first, Sums& sums,
                                Main& main) const {
        const Matmul args = job.matmul();
        const bool scaled = definition::scales_in_promotion(args);
        MACHEPS_UNROLL
        for (int i = 0; i < n / 2; ++i) {
            const auto [r, c] = wgmma_sum_place(thread % 128, i);
            const float partial = wgmma_sum<type, n>(sums, i);
            float& x = main.x[promoted ? i : 0];
            if (!scaled) {
                x = x + partial;
            } else {
                // Rows and columns beyond the matrix have no scales; their sums go nowhere.
                const std::int64_t at = min_of(row + thread / 128 * 64 + r, args.m - 1);
                const std::int64_t to = min_of(column + c, args.n - 1);
                x = definition::promote(args, {.i = at, .j = to}, first, partial, x);
            }
        }
        sums = Sums{};
    }
};

template <WgmmaType type, bool promoted, int warpgroups, int n, class Device, class Memory>
void run_wgmma(Device& device, Memory& memory, MatmulJob job) {
    using Tile = WgmmaTile<warpgroups, n>;
    constexpr int bytes = type == WgmmaType::tf32 ? 4 : type <= WgmmaType::fp16_acc16 ? 2 : 1;
    const PackedDepth packed = packed_depth(job.args, Tile::depth_bytes / bytes);
    const PackedMemory operands = pack_codes<bytes>(device, memory, job, packed, Tile::rows, Tile::columns);
    const std::shared_ptr<void> partials = take_partials(memory, job);
    Grid grid = tile_grid(job.args, Tile::rows, Tile::columns, Tile::threads, Tile::shared_bytes());
    grid.y = static_cast<int>(packed.slices);
    const UnitModel model = unit_model(job.args, bytes);
    device.blocks(grid, WgmmaKernel<Tile, type, promoted>{job, packed, operands.codes, model});
    if (job.partials != nullptr) join_slices(device, job);
}

template <WgmmaType type, class Device, class Memory>
void matmul_wgmma(Device& device, Memory& memory, const MatmulJob& job) {
    constexpr std::int64_t enough = 100;
    constexpr bool fp8 = type > WgmmaType::fp16_acc16, rare = type == WgmmaType::e5m2_e5m2;
    const bool large = tile_count(job.args, 128, 128) * max_of(job.args.rule.slices, 1) >= enough;
    if constexpr (fp8) {
        if (job.args.rule.promotion != Promotion::none) {
            if constexpr (!rare) {
                if (large) return run_wgmma<type, true, 2, 128>(device, memory, job);
            }
            return run_wgmma<type, true, 1, 64>(device, memory, job);
        }
    }
    if constexpr (!rare) {
        if (large) return run_wgmma<type, false, 2, 128>(device, memory, job);
    }
    run_wgmma<type, false, 1, 64>(device, memory, job);
}

}  // namespace macheps::gpu
