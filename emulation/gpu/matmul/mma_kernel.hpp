// SPDX-License-Identifier: Apache-2.0
// Matmuls on the GPU's matrix unit with mma.sync. Operands are first packed as codes. A pipeline of asynchronous copies
// brings tiles of the codes to shared memory. Each slice of k is one chain of instructions.
#pragma once
#include "emulation/gpu/matmul/native.hpp"
#include "emulation/gpu/matmul/pack.hpp"

namespace macheps::gpu {

/// Tile of the output that a block of warps_down x warps_across warps computes. Each warp runs `down` x `across`
/// instructions per step. A tile of an operand has 64 bytes along k, that is, two steps.
template <int down, int across, int warps_down, int warps_across>
struct MmaTile {
    static constexpr int rows = 16 * down * warps_down, columns = 8 * across * warps_across;
    static constexpr int threads = 32 * warps_down * warps_across;
    static constexpr int depth_bytes = 64, step_bytes = 32, steps = depth_bytes / step_bytes;
    static constexpr int stages = 4, stage_bytes = (rows + columns) * depth_bytes;
    static_assert(across % 2 == 0);

    static MACHEPS_HD constexpr int first_row(int thread) { return thread / 32 % warps_down * (16 * down); }
    static MACHEPS_HD constexpr int first_column(int thread) { return thread / 32 / warps_down * (8 * across); }
    /// Returns the byte at which the 16-byte piece `piece` (0 .. 3) of a row begins. The same piece of eight
    /// consecutive rows begins at eight different bytes modulo 128, so ldmatrix has no bank conflicts.
    static MACHEPS_HD constexpr int at(int row, int piece) { return row * depth_bytes + (piece ^ (row / 2 % 4)) * 16; }
    static constexpr std::size_t shared_bytes() {
        return max_of(std::size_t{stages} * stage_bytes, tile_output_bytes(rows, columns, threads));
    }
};

/// The packed operands that the kernel reads.
struct PackedCodes {
    const std::byte *a = nullptr, *b = nullptr;
    std::int64_t a_rows = 0, b_rows = 0;  ///< rows of one matrix, with padding
    std::int64_t row_bytes = 0, slice_bytes = 0;
};

/// Starts one thread's share of the copies that fill a tile of `rows` x `depth_bytes` bytes of packed codes in shared
/// memory. at(row, piece) returns the byte of the tile to which a piece of 16 bytes goes.
template <int rows, int depth_bytes, int threads, class At>
MACHEPS_KERNEL void start_copy_of_tile(std::byte* shared, const std::byte* codes, std::int64_t row_bytes, int thread,
                                       const At& at) {
    constexpr int pieces = depth_bytes / 16;
    MACHEPS_UNROLL
    for (int i = 0; i < (rows * pieces + threads - 1) / threads; ++i) {
        const int v = thread + i * threads;
        if (rows * pieces % threads != 0 && v >= rows * pieces) break;
        // Eight lanes write the same piece of eight rows: 128 contiguous bytes in the layout of wgmma (WgmmaTile::at).
        const int row = v / (8 * pieces) * 8 + v % 8, piece = v / 8 % pieces;
        start_copy(shared + at(row, piece), codes + row * row_bytes + piece * 16);
    }
}

template <class Tile, MmaType type, int down, int across>
struct MmaKernel {
    static constexpr int threads = Tile::threads, blocks_per_processor = 512 / threads;
    static constexpr int registers = type == MmaType::fp16_acc16 ? 2 : 4;
    MatmulJob job;
    PackedDepth packed;
    PackedCodes codes;
    UnitModel model;

    MACHEPS_KERNEL void operator()(const Block& block) const {
        const std::int64_t tiles_across = (job.args.n + Tile::columns - 1) / Tile::columns;
        const std::int64_t row = block.x() / tiles_across * Tile::rows;
        const std::int64_t column = block.x() % tiles_across * Tile::columns;
        const int slice = block.y();
        // Instructions that would read only padding are left out, because adding +0 would turn a sum of -0 into +0.
        const std::int64_t steps = (packed.terms(slice, job.args.k) + model.k - 1) / model.k;
        const std::int64_t tiles = (steps + Tile::steps - 1) / Tile::steps;
        for (std::int64_t matrix = block.z(); matrix < job.matrices(); matrix += 65535) {
            const std::byte* const a =
                codes.a + (matrix * codes.a_rows + row) * codes.row_bytes + slice * codes.slice_bytes;
            const std::byte* const b =
                codes.b + (matrix * codes.b_rows + column) * codes.row_bytes + slice * codes.slice_bytes;
            const auto load = [&](int thread, std::int64_t tile) {
                if (tile < tiles) {
                    std::byte* const stage = block.shared() + tile % Tile::stages * Tile::stage_bytes;
                    start_copy_of_tile<Tile::rows, Tile::depth_bytes, threads>(stage, a + tile * Tile::depth_bytes,
                                                                               codes.row_bytes, thread, Tile::at);
                    start_copy_of_tile<Tile::columns, Tile::depth_bytes, threads>(
                        stage + Tile::rows * Tile::depth_bytes, b + tile * Tile::depth_bytes, codes.row_bytes, thread,
                        Tile::at);
                }
                end_copy_group();
            };
            PerThread<MmaSums<down, across, registers>> sums(block, MmaSums<down, across, registers>{});
            PerThread<MmaOperands<down, across>> operands(block);
            block.apart([&](int thread) {
                for (int tile = 0; tile < Tile::stages - 1; ++tile) load(thread, tile);
            });
            for (std::int64_t tile = 0; tile < tiles; ++tile) {
                // After this phase, the copies of this tile are complete in all threads, and all threads are done with
                // the previous tile.
                block.each([&](int) { wait_copies<Tile::stages - 2>(); });
                block.apart([&](int thread) { load(thread, tile + Tile::stages - 1); });
                MACHEPS_UNROLL
                for (int step = 0; step < Tile::steps; ++step) {
                    if (tile * Tile::steps + step >= steps) break;
                    block.apart([&](int thread) { read(block, thread, tile, step, operands[thread]); });
                    multiply_add<type>(block, model, operands, sums);
                }
            }
            block.each([&](int) { wait_copies<0>(); });
            block.each([&](int thread) { write(block, thread, sums[thread]); });
            finish_tile<Tile::rows, Tile::columns>(block, job, matrix, slice, row, column);
        }
    }

  private:
    /// Reads a thread's operands for one step.
    static MACHEPS_KERNEL void read(const Block& block, int thread, std::int64_t tile, int step,
                                    MmaOperands<down, across>& operands) {
        const std::byte* const a = block.shared() + tile % Tile::stages * Tile::stage_bytes;
        const std::byte* const b = a + Tile::rows * Tile::depth_bytes;
        MACHEPS_UNROLL
        for (int i = 0; i < down; ++i) {
            const int first = Tile::first_row(thread) + 16 * i;
            load_matrices(operands.a[i], thread % 32,
                          [&](int q, int r) { return a + Tile::at(first + q % 2 * 8 + r, 2 * step + q / 2); });
        }
        MACHEPS_UNROLL
        for (int j = 0; j < across; j += 2) {
            const int first = Tile::first_column(thread) + 8 * j;
            std::uint32_t pair[4];
            load_matrices(pair, thread % 32,
                          [&](int q, int r) { return b + Tile::at(first + q / 2 * 8 + r, 2 * step + q % 2); });
            MACHEPS_UNROLL
            for (int r = 0; r < 4; ++r) operands.b[j + r / 2][r % 2] = pair[r];
        }
    }
    static MACHEPS_KERNEL void write(const Block& block, int thread, const MmaSums<down, across, registers>& sums) {
        auto* const out = reinterpret_cast<float*>(block.shared());
        MACHEPS_UNROLL
        for (int i = 0; i < down; ++i) {
            MACHEPS_UNROLL
            for (int j = 0; j < across; ++j) {
                MACHEPS_UNROLL
                for (int e = 0; e < 4; ++e) {
                    const auto [r, c] = mma_c_place(thread % 32, e);
                    out[tile_output_at(Tile::columns, Tile::first_row(thread) + 16 * i + r,
                                       Tile::first_column(thread) + 8 * j + c)] = sum_value(sums.c[i][j], e);
                }
            }
        }
    }
};

constexpr std::int64_t rounded_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

/// Packed operands, and the owners of their memory.
struct PackedMemory {
    PackedCodes codes{};
    std::shared_ptr<void> a{}, b{};
};

/// Packs both operands as codes, for tiles of `rows` x `columns` outputs.
template <int bytes, class Device, class Memory>
PackedMemory pack_codes(Device& device, Memory& memory, const MatmulJob& job, const PackedDepth& packed, int rows,
                        int columns) {
    const Matmul& args = job.args;
    PackedOperand<EncodeCodes<bytes>> a{{args.a.format}, true, rounded_up(args.m, rows)};
    PackedOperand<EncodeCodes<bytes>> b{{args.b.format}, false, rounded_up(args.n, columns)};
    const std::int64_t row_bytes = packed.slices * packed.padded * bytes;
    const auto take = [&](std::int64_t lines) {
        return memory.take(static_cast<std::size_t>(job.matrices() * lines * row_bytes));
    };
    PackedMemory out{.a = take(a.outer_padded), .b = take(b.outer_padded)};
    a.words = static_cast<std::uint32_t*>(out.a.get());
    b.words = static_cast<std::uint32_t*>(out.b.get());
    pack(device, job, packed, a, b);
    out.codes = {static_cast<const std::byte*>(out.a.get()),
                 static_cast<const std::byte*>(out.b.get()),
                 a.outer_padded,
                 b.outer_padded,
                 row_bytes,
                 packed.padded * bytes};
    return out;
}

/// Allocates memory for the sums of slices, if there are several, and stores its address in the job.
template <class Memory>
std::shared_ptr<void> take_partials(Memory& memory, MatmulJob& job) {
    if (job.args.rule.slices <= 1) return nullptr;
    const std::int64_t count = job.matrices() * job.args.m * job.args.n * job.args.rule.slices;
    std::shared_ptr<void> partials = memory.take(static_cast<std::size_t>(count) * sizeof(float));
    job.partials = static_cast<float*>(partials.get());
    return partials;
}

/// Returns the parameters with which the host emulates the instruction that computes `args`.
inline UnitModel unit_model(const Matmul& args, int code_bytes) {
    return {args.rule.machine->sum, args.rule.machine->k, args.a.format, args.b.format, code_bytes};
}

template <MmaType type, int down, int across, int warps_down, int warps_across, class Device, class Memory>
void run_mma(Device& device, Memory& memory, MatmulJob job) {
    using Tile = MmaTile<down, across, warps_down, warps_across>;
    constexpr int bytes = type == MmaType::tf32 ? 4 : 2;
    const PackedDepth packed = packed_depth(job.args, Tile::depth_bytes / bytes);
    const PackedMemory operands = pack_codes<bytes>(device, memory, job, packed, Tile::rows, Tile::columns);
    const std::shared_ptr<void> partials = take_partials(memory, job);
    Grid grid = tile_grid(job.args, Tile::rows, Tile::columns, Tile::threads, Tile::shared_bytes());
    grid.y = static_cast<int>(packed.slices);
    UnitModel model = unit_model(job.args, bytes);
    device.blocks(grid, MmaKernel<Tile, type, down, across>{job, packed, operands.codes, model});
    if (job.partials != nullptr) join_slices(device, job);
}

template <MmaType type, class Device, class Memory>
void matmul_mma(Device& device, Memory& memory, const MatmulJob& job) {
    constexpr std::int64_t enough = 100;
    const std::int64_t slices = max_of(job.args.rule.slices, 1);
    if (tile_count(job.args, 128, 128) * slices >= enough) {
        run_mma<type, 4, 4, 2, 4>(device, memory, job);
    } else {
        run_mma<type, 2, 2, 2, 2>(device, memory, job);  // tiles of 64 x 32
    }
}

}  // namespace macheps::gpu
