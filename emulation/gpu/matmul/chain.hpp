// SPDX-License-Identifier: Apache-2.0
// The machine fp32.chain on CUDA cores. A block computes a tile of the output. It copies the operands to shared memory
// in steps of ascending k.
#pragma once
#include "emulation/gpu/device/copies.hpp"
#include "emulation/gpu/matmul/output.hpp"

namespace macheps::gpu {

/// Returns whether each sum is one chain over all of k, with one fp32 fma per term. The kernels below compute such
/// sums, with any epilogue.
inline bool is_fp32_chain(const Matmul& args) {
    const SumRule& sum = args.rule.machine->sum;
    return sum.is_plain_chain() && sum.delivery == Delivery::fp32_nearest_even &&
           args.rule.promotion == Promotion::none && args.rule.slices <= 1 && !args.rule.has_blocks();
}

struct alignas(16) Quad {
    float x[4];
};

/// View of one operand with the indices (outer, p). outer is a row of the output for a, and a column for b. p is the
/// index of the term.
struct OuterMajor {
    const float* data = nullptr;
    std::int64_t outer_step = 0, k_step = 0;  ///< in elements; one of them is 1
    std::int64_t outer = 0, k = 0;            ///< sizes of the two dimensions
    bool quads = false;                       ///< each row in memory begins at a multiple of 16 bytes

    MACHEPS_HD bool outer_is_contiguous() const { return outer_step == 1; }
    MACHEPS_HD float at(std::int64_t o, std::int64_t p) const {
        return o < outer && p < k ? data[o * outer_step + p * k_step] : 0.0f;
    }
};

MACHEPS_HD inline bool reads_quads(const MatmulOperand& x) {
    return (reinterpret_cast<std::uintptr_t>(x.data) & 15) == 0 && x.ld % 4 == 0 && x.stride_outer % 4 == 0 &&
           x.stride_inner % 4 == 0;
}
MACHEPS_HD inline OuterMajor rows_of_a(const MatmulJob& job, std::int64_t matrix) {
    const MatmulOperand& a = job.args.a;
    return {job.a(matrix), a.transposed ? 1 : a.ld, a.transposed ? a.ld : 1, job.args.m, job.args.k, reads_quads(a)};
}
MACHEPS_HD inline OuterMajor columns_of_b(const MatmulJob& job, std::int64_t matrix) {
    const MatmulOperand& b = job.args.b;
    return {job.b(matrix), b.transposed ? b.ld : 1, b.transposed ? 1 : b.ld, job.args.n, job.args.k, reads_quads(b)};
}

/// A block computes M x N outputs, and a thread TM x TN of them. The lanes of a warp form a grid of 4 x 8, so that a
/// warp reads 64 bytes of a and 128 bytes of b from shared memory at a time.
template <int M, int N, int TM, int TN>
struct ChainTile {
    static constexpr int depth = 16, stages = 4;  ///< terms per step; number of steps in shared memory
    static constexpr int threads = M / TM * (N / TN);
    static constexpr int warps_down = M / (4 * TM);
    /// Distances between consecutive terms p in shared memory. With the padding, the addresses that a warp writes when
    /// it transposes a tile are in different banks.
    static constexpr int a_stride = M + 4, b_stride = N + 4;
    static constexpr int buffer = depth * (a_stride + b_stride);
    static_assert(M % (4 * TM) == 0 && N % (8 * TN) == 0 && TM % 4 == 0 && TN % 4 == 0);

    static MACHEPS_HD constexpr int row(int thread, int r) {
        return thread / 32 % warps_down * (4 * TM) + r / 4 * 16 + thread % 32 / 8 * 4 + r % 4;
    }
    static MACHEPS_HD constexpr int column(int thread, int c) {
        return thread / 32 / warps_down * (8 * TN) + c / 4 * 32 + thread % 8 * 4 + c % 4;
    }
    static constexpr std::size_t shared_bytes() {
        return max_of(stages * buffer * sizeof(float), tile_output_bytes(M, N, threads));
    }
};

/// Starts one thread's share of the copies that fill a tile of outer x depth elements. Element (o, p) goes to
/// `tile[p * stride + o]`. Elements outside the matrix are +0.
template <int outer, int depth, int threads>
MACHEPS_KERNEL void start_copy_of_floats(const OuterMajor& x, std::int64_t first_outer, std::int64_t first_k,
                                         float* tile, int stride, int thread) {
    constexpr int count = outer * depth / 4 / threads;
    static_assert(count * threads * 4 == outer * depth && depth % 8 == 0);
    if (x.outer_is_contiguous()) {
        MACHEPS_UNROLL
        for (int i = 0; i < count; ++i) {
            const int v = thread + i * threads, o = v % (outer / 4) * 4, p = v / (outer / 4);
            const float* const from = x.data + (first_k + p) * x.k_step + (first_outer + o);
            float* const to = tile + p * stride + o;
            const bool row = first_k + p < x.k;
            if (x.quads && row && first_outer + o + 4 <= x.outer) {
                start_copy(to, from);
            } else {
                for (int e = 0; e < 4; ++e) {
                    const bool there = row && first_outer + o + e < x.outer;
                    start_copy(to + e, there ? from + e : x.data, there);
                }
            }
        }
    } else {
        MACHEPS_UNROLL
        for (int i = 0; i < count; ++i) {
            // Two neighbouring threads copy eight terms of one row: 32 bytes, the smallest memory transaction.
            const int v = thread + i * threads, o = v / 2 % outer, p = v / (2 * outer) * 8 + v % 2 * 4;
            const float* const from = x.data + (first_outer + o) * x.outer_step + (first_k + p);
            MACHEPS_UNROLL
            for (int e = 0; e < 4; ++e) {
                const bool there = first_outer + o < x.outer && first_k + p + e < x.k;
                start_copy(tile + (p + e) * stride + o, there ? from + e : x.data, there);
            }
        }
    }
}

template <class Tile, int M, int N, int TM, int TN>
struct ChainKernel {
    static constexpr int threads = Tile::threads, blocks_per_processor = 512 / threads;
    MatmulJob job;

    struct Sums {
        float x[TM][TN];
    };

    /// Adds one term to every sum of a thread.
    static MACHEPS_KERNEL void term(const float* a, const float* b, int thread, Sums& sums) {
        Quad x[TM / 4], y[TN / 4];
        MACHEPS_UNROLL
        for (int r = 0; r < TM / 4; ++r) x[r] = *reinterpret_cast<const Quad*>(a + Tile::row(thread, 4 * r));
        MACHEPS_UNROLL
        for (int c = 0; c < TN / 4; ++c) y[c] = *reinterpret_cast<const Quad*>(b + Tile::column(thread, 4 * c));
        MACHEPS_UNROLL
        for (int r = 0; r < TM; ++r) {
            MACHEPS_UNROLL
            for (int c = 0; c < TN; ++c) sums.x[r][c] = fma(x[r / 4].x[r % 4], y[c / 4].x[c % 4], sums.x[r][c]);
        }
    }

    MACHEPS_KERNEL void operator()(const Block& block) const {
        const std::int64_t tiles_across = (job.args.n + N - 1) / N;
        const std::int64_t row = block.x() / tiles_across * M, column = block.x() % tiles_across * N;
        const std::int64_t k = job.args.k, steps = (k + Tile::depth - 1) / Tile::depth;
        auto* const shared = reinterpret_cast<float*>(block.shared());
        // A batch may have more matrices than a grid can have layers (65535).
        for (std::int64_t matrix = block.z(); matrix < job.matrices(); matrix += 65535) {
            const OuterMajor a = rows_of_a(job, matrix), b = columns_of_b(job, matrix);
            const auto load = [&](int thread, std::int64_t step) {
                if (step < steps) {
                    float* const tile = shared + step % Tile::stages * Tile::buffer;
                    start_copy_of_floats<M, Tile::depth, threads>(a, row, step * Tile::depth, tile, Tile::a_stride,
                                                                  thread);
                    start_copy_of_floats<N, Tile::depth, threads>(
                        b, column, step * Tile::depth, tile + Tile::depth * Tile::a_stride, Tile::b_stride, thread);
                }
                end_copy_group();
            };
            PerThread<Sums> sums(block, Sums{});
            block.apart([&](int thread) {
                for (int step = 0; step < Tile::stages - 1; ++step) load(thread, step);
            });
            for (std::int64_t step = 0; step < steps; ++step) {
                // After this phase, the copies of this tile are complete in all threads, and all threads are done with
                // the previous tile.
                block.each([&](int) { wait_copies<Tile::stages - 2>(); });
                block.apart([&](int thread) { load(thread, step + Tile::stages - 1); });
                block.apart([&](int thread) {
                    const float* const tile_a = shared + step % Tile::stages * Tile::buffer;
                    const float* const tile_b = tile_a + Tile::depth * Tile::a_stride;
                    Sums& mine = sums[thread];
                    if (step + 1 < steps || k % Tile::depth == 0) {
                        MACHEPS_UNROLL
                        for (int p = 0; p < Tile::depth; ++p) {
                            term(tile_a + p * Tile::a_stride, tile_b + p * Tile::b_stride, thread, mine);
                        }
                    } else {
                        // The last step adds only the terms that exist: a term +0 * +0 would turn a sum of -0 into +0.
                        for (int p = 0; p < static_cast<int>(k % Tile::depth); ++p) {
                            term(tile_a + p * Tile::a_stride, tile_b + p * Tile::b_stride, thread, mine);
                        }
                    }
                });
            }
            block.each([&](int) { wait_copies<0>(); });
            block.each([&](int thread) {
                MACHEPS_UNROLL
                for (int r = 0; r < TM; ++r) {
                    MACHEPS_UNROLL
                    for (int c = 0; c < TN / 4; ++c) {
                        Quad q;
                        MACHEPS_UNROLL
                        for (int x = 0; x < 4; ++x) q.x[x] = sums[thread].x[r][4 * c + x];
                        const int at = tile_output_at(N, Tile::row(thread, r), Tile::column(thread, 4 * c));
                        *reinterpret_cast<Quad*>(shared + at) = q;
                    }
                }
            });
            finish_tile<M, N>(block, job, matrix, 0, row, column);
        }
    }
};

/// Returns a grid with one block for each rows x columns tile of a matrix, and one layer for each matrix (at most
/// 65535).
constexpr Grid tile_grid(const Matmul& args, int rows, int columns, int threads, std::size_t shared_bytes) {
    const std::int64_t tiles = ((args.m + rows - 1) / rows) * ((args.n + columns - 1) / columns);
    return {.x = tiles,
            .z = static_cast<int>(min_of(args.batch_outer * args.batch_inner, std::int64_t{65535})),
            .threads = threads,
            .shared_bytes = shared_bytes};
}
constexpr std::int64_t tile_count(const Matmul& args, int rows, int columns) {
    return ((args.m + rows - 1) / rows) * ((args.n + columns - 1) / columns) * args.batch_outer * args.batch_inner;
}

template <int M, int N, int TM, int TN, class Device>
void run_chain(Device& device, const MatmulJob& job) {
    using Tile = ChainTile<M, N, TM, TN>;
    device.blocks(tile_grid(job.args, M, N, Tile::threads, Tile::shared_bytes()), ChainKernel<Tile, M, N, TM, TN>{job});
}

/// Runs a matmul for which is_fp32_chain holds. Uses the largest tile for which every multiprocessor of a large GPU
/// still has work.
template <class Device>
void matmul_chain(Device& device, const MatmulJob& job) {
    constexpr std::int64_t enough = 100;
    if (tile_count(job.args, 128, 128) >= enough) {
        run_chain<128, 128, 8, 8>(device, job);
    } else if (tile_count(job.args, 64, 64) >= enough) {
        run_chain<64, 64, 8, 4>(device, job);
    } else {
        run_chain<32, 32, 4, 4>(device, job);
    }
}

}  // namespace macheps::gpu
