// SPDX-License-Identifier: Apache-2.0
// Matmuls on sm_90's matrix unit with wgmma. Operands are first packed as codes. A pipeline of asynchronous copies
// brings tiles of the codes to shared memory. Each slice of k, or each promotion interval, is one chain of
// instructions.
#pragma once
#include "emulation/gpu/matmul/mma_kernel.hpp"

namespace macheps::gpu {

/// Tile of the output that a block computes. Each of the block's warpgroups computes 64 * `down` rows and `n` columns.
/// A tile of an operand has 64 bytes along k, that is, two instructions.
template <int warpgroups_, int n_, int down_ = 1>
struct WgmmaTile {
    static constexpr int warpgroups = warpgroups_, n = n_, down = down_;
    static constexpr int rows = 64 * down * warpgroups, columns = n, threads = 128 * warpgroups;
    static constexpr int depth_bytes = 64, steps = 2;
    static constexpr int stages = 6, stage_bytes = (rows + columns) * depth_bytes;

    /// Returns the byte at which the 16-byte piece `piece` of row `row` begins, in an operand of `all` rows. Core
    /// matrices that hold the same piece are contiguous.
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
    static constexpr int blocks_per_processor = (promoted || Tile::down > 1 ? 256 : 512) / threads;
    static_assert(!promoted || Tile::down == 1);
    static constexpr int n = Tile::n;
    struct Sums {
        WgmmaSums<type, n> part[Tile::down];
    };
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
        // Instructions that would read only padding are left out, because adding +0 would turn a sum of -0 into +0.
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
            // Instructions read at most two tiles at a time. Meanwhile, copies fill the other stages.
            constexpr int ahead = Tile::stages - 2;
            block.apart([&](int thread) {
                for (int tile = 0; tile < ahead; ++tile) load(thread, tile);
            });
            const auto arrive = [&](std::int64_t tile) {
                // After this phase, the copies of `tile` are complete in all threads, and no instruction reads tile - 2
                // any more.
                block.each([&](int) {
                    wait_copies<ahead - 1>();
                    show_to_matrix_unit();
                });
                block.apart([&](int thread) { load(thread, tile + ahead); });
                begin_wgmma();
            };
            std::int64_t chain = 0;  // number of tiles in the current chain
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
                for (int part = 0; part < Tile::down; ++part) {
                    MACHEPS_UNROLL
                    for (int i = 0; i < n / 2; ++i) {
                        const auto [r, c] = wgmma_sum_place(thread % 128, i);
                        const int first = (thread / 128 * Tile::down + part) * 64;
                        out[tile_output_at(n, first + r, c)] = promoted
                                                                   ? main[thread].x[promoted ? i : 0]
                                                                   : wgmma_sum<type, n>(sums[thread].part[part], i);
                    }
                }
            });
            finish_tile<Tile::rows, Tile::columns>(block, job, matrix, slice, row, column);
        }
    }

  private:
    /// Runs the instruction at `step` of a tile in every warpgroup.
    MACHEPS_KERNEL void multiply(const Block& block, std::int64_t tile, int step, PerThread<Sums>& sums) const {
        const std::uint32_t a = shared_address(block, block.shared() + tile % Tile::stages * Tile::stage_bytes);
        const std::uint32_t b = a + Tile::rows * Tile::depth_bytes;
        const auto operand = [](std::uint32_t tile_address, int all_rows, int first_row, int first_piece) {
            const auto rows = static_cast<std::uint32_t>(all_rows);
            return SharedOperand{tile_address + static_cast<std::uint32_t>(first_row) * 16 +
                                     static_cast<std::uint32_t>(first_piece) * rows * 16,
                                 rows * 16, 128};
        };
        MACHEPS_UNROLL
        for (int part = 0; part < Tile::down; ++part) {
            multiply_add<type, n>(
                block, model,
                [&](int warpgroup) { return operand(a, Tile::rows, (warpgroup * Tile::down + part) * 64, 2 * step); },
                [&](int) { return operand(b, Tile::columns, 0, 2 * step); },
                [&](int thread) -> WgmmaSums<type, n>& { return sums[thread].part[part]; });
        }
    }
    /// Adds the sums of the chain that began at term `first` to the main sums. Resets the sums of the chain to 0.
    MACHEPS_KERNEL void promote(int thread, std::int64_t row, std::int64_t column, std::int64_t first, Sums& sums,
                                Main& main) const {
        const Matmul& args = job.args;
        const Promotion promotion = args.rule.promotion;
        const bool scaled = definition::scales_in_promotion(args);
        // Rows and columns beyond the matrix have no scales. They use the scales of the last row or column. Their sums
        // are not stored.
        float of_row[2] = {1, 1};
        MACHEPS_UNROLL
        for (int r = 0; r < 2 && scaled; ++r) {
            const std::int64_t i = row + thread / 128 * 64 + wgmma_sum_place(thread % 128, 2 * r).row;
            of_row[r] = args.a.scales.at(min_of(i, args.m - 1), first);
        }
        MACHEPS_UNROLL
        for (int i = 0; i < n / 2; i += 4) {
            float of_column[2] = {1, 1};
            MACHEPS_UNROLL
            for (int c = 0; c < 2 && scaled; ++c) {
                const std::int64_t j = column + wgmma_sum_place(thread % 128, i + c).column;
                of_column[c] = args.b.scales.at(min_of(j, args.n - 1), first);
            }
            MACHEPS_UNROLL
            for (int e = 0; e < 4; ++e) {
                const float partial = wgmma_sum<type, n>(sums.part[0], i + e), sa = of_row[e / 2],
                            sb = of_column[e % 2];
                float& x = main.x[promoted ? i + e : 0];
                // These are the operations of definition::promote.
                x = promotion == Promotion::fma_joint  ? fma(partial, sa * sb, x)
                    : promotion == Promotion::fma_left ? fma(partial * sa, sb, x)
                                                       : x + partial;
            }
        }
        sums = Sums{};
    }
};

template <WgmmaType type, bool promoted, int warpgroups, int n, int down = 1, class Device, class Memory>
void run_wgmma(Device& device, Memory& memory, MatmulJob job) {
    using Tile = WgmmaTile<warpgroups, n, down>;
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
    constexpr bool common = type == WgmmaType::fp16 || type == WgmmaType::bf16 || type == WgmmaType::e4m3_e4m3;
    const std::int64_t slices = max_of(job.args.rule.slices, 1);
    const bool large = tile_count(job.args, 128, 128) * slices >= enough;
    if constexpr (fp8) {
        if (job.args.rule.promotion != Promotion::none) {
            if constexpr (!rare) {
                if (large) return run_wgmma<type, true, 2, 128>(device, memory, job);
            }
            return run_wgmma<type, true, 1, 64>(device, memory, job);
        }
    }
    if constexpr (common) {
        // Larger tiles read each operand less often. One block fills a multiprocessor.
        if (tile_count(job.args, 256, 128) * slices >= 2 * enough) {
            return run_wgmma<type, false, 2, 128, 2>(device, memory, job);
        }
    }
    if constexpr (fp8 || type == WgmmaType::fp16_acc16) {
        if (rare || !large) return run_wgmma<type, false, 1, 64>(device, memory, job);
    }
    if constexpr (!rare) run_wgmma<type, false, 2, 128>(device, memory, job);
}

}  // namespace macheps::gpu
