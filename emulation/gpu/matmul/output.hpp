// SPDX-License-Identifier: Apache-2.0
// Code that all matmul kernels share: the arguments that a kernel captures, and the steps from a finished sum to the
// output.
#pragma once
#include "emulation/gpu/device/device_tally.hpp"
#include "emulation/matmul/matmul.hpp"

namespace macheps::gpu {

/// Arguments of a matmul that a kernel captures. The pointers point to device memory. The job contains a copy of the
/// machine, because args.rule.machine points to host memory.
struct MatmulJob {
    Matmul args{};
    Machine machine{};
    DeviceTally* tally = nullptr;  ///< null: casts are not counted
    TallyLimits limits{};
    /// Sums of the slices of k, [slice][batch_outer][batch_inner][m][n]; null if there is only one slice.
    float* partials = nullptr;
    bool plain = false;  ///< the output is the sum itself, without an epilogue

    MACHEPS_HD std::int64_t matrices() const { return args.batch_outer * args.batch_inner; }
    /// Returns a copy of the arguments that a kernel may read. The copy is valid as long as the job exists.
    MACHEPS_HD Matmul matmul() const {
        Matmul copy = args;
        copy.rule.machine = &machine;
        return copy;
    }
    MACHEPS_HD const float* a(std::int64_t matrix) const { return of(args.a, matrix); }
    MACHEPS_HD const float* b(std::int64_t matrix) const { return of(args.b, matrix); }
    MACHEPS_HD const float* addend(std::int64_t matrix) const {
        if (args.addend == nullptr) return nullptr;
        return args.addend + matrix / args.batch_inner * args.stride_addend_outer +
               matrix % args.batch_inner * args.stride_addend_inner;
    }
    /// Returns the index of an output element. It is used in the random stream and in the sums of a slice.
    MACHEPS_HD std::uint64_t element(std::int64_t matrix, std::int64_t i, std::int64_t j) const {
        return static_cast<std::uint64_t>((matrix * args.m + i) * args.n + j);
    }

  private:
    MACHEPS_HD const float* of(const MatmulOperand& x, std::int64_t matrix) const {
        if (args.k == 0) return x.data;
        return x.data + matrix / args.batch_inner * x.stride_outer + matrix % args.batch_inner * x.stride_inner;
    }
};

inline MatmulJob matmul_job(const Matmul& args, DeviceTally* tally) {
    MatmulJob job{.args = args, .machine = *args.rule.machine, .tally = tally};
    job.limits = tally_limits(args.out_cast.format);
    job.plain = args.rule.slices <= 1 && args.a.scales.data == nullptr && args.b.scales.data == nullptr &&
                args.out_scale == 1 && args.bias == nullptr && args.out_cast.is_identity() && tally == nullptr;
    return job;
}

/// Stores an element of the output and counts it.
MACHEPS_KERNEL inline void store_output(const MatmulJob& job, std::int64_t matrix, std::int64_t i, std::int64_t j,
                                        const definition::MatmulOutput& x, ThreadTally& tally) {
    const Matmul& args = job.args;
    if (job.tally != nullptr) {
        const float scale = args.out_cast.encode_scale;
        tally.add(job.limits, x.before, scale == 1 ? x.before : x.before * scale, x.after);
    }
    args.out[matrix / args.batch_inner * args.stride_out_outer + matrix % args.batch_inner * args.stride_out_inner +
             i * args.ld_out + j] = x.after;
}

/// Computes the epilogue of one element. The function is not inlined, because every kernel contains it and no kernel
/// spends much time in it.
MACHEPS_KERNEL MACHEPS_NOINLINE inline definition::MatmulOutput finish_sum(const MatmulJob& job, std::int64_t i,
                                                                           std::int64_t j, std::uint64_t element,
                                                                           float sum) {
    const Matmul args = job.matmul();
    return definition::matmul_output(args, sum, i, j, element);
}

/// Stores the `sum` of one slice of k in job.partials if k has several slices. Otherwise, applies the epilogue to `sum`
/// and stores the output.
MACHEPS_KERNEL inline void put_sum(const MatmulJob& job, std::int64_t matrix, int slice, std::int64_t i, std::int64_t j,
                                   float sum, ThreadTally& tally) {
    const std::uint64_t element = job.element(matrix, i, j);
    if (job.partials != nullptr) {
        const std::int64_t count = job.matrices() * job.args.m * job.args.n;
        job.partials[slice * count + static_cast<std::int64_t>(element)] = sum;
        return;
    }
    definition::MatmulOutput x{sum, definition::canonical(sum)};
    if (!job.plain) x = finish_sum(job, i, j, element, sum);
    store_output(job, matrix, i, j, x, tally);
}

/// Adds up the tallies of a block's threads and adds the result to job.tally. Uses the block's shared memory.
MACHEPS_KERNEL inline void add_block_tally(const Block& block, const MatmulJob& job,
                                           const PerThread<ThreadTally>& all) {
    if (job.tally == nullptr) return;
    constexpr int fields = sizeof(ThreadTally) / 4, parts = 6;
    static_assert(fields == 10 && fields * parts <= 64);  // the smallest block has 64 threads
    struct Words {
        std::uint32_t word[fields];
    };
    auto* const mine = reinterpret_cast<Words*>(block.shared());
    const auto join = [](int field, std::uint32_t x, std::uint32_t y) {
        return field == 8 ? max_of(x, y) : field == 9 ? min_of(x, y) : x + y;
    };
    block.each([&](int thread) { mine[thread] = bit_cast<Words>(all[thread]); });
    const auto fold = [&](int field, int first, int step) {
        std::uint32_t x = mine[first].word[field];
        for (int t = first + step; t < block.threads(); t += step) x = join(field, x, mine[t].word[field]);
        return x;
    };
    PerThread<std::uint32_t> folded(block);
    block.each([&](int thread) {
        if (thread < fields * parts) folded[thread] = fold(thread % fields, thread / fields, parts);
    });
    block.each([&](int thread) {
        if (thread < fields * parts) mine[thread / fields].word[thread % fields] = folded[thread];
    });
    block.each([&](int thread) {
        if (thread != 0) return;
        Words sum = mine[0];
        for (int part = 1; part < parts; ++part) {
            for (int field = 0; field < fields; ++field) {
                sum.word[field] = join(field, sum.word[field], mine[part].word[field]);
            }
        }
        add_to(job.tally, bit_cast<ThreadTally>(sum));
    });
}

/// Returns the index at which finish_tile reads element (row, column) of a tile. Neighbouring rows are 8 banks apart,
/// so that the accesses of a warp to the eight rows of a matrix fragment are spread over the banks.
MACHEPS_HD constexpr int tile_output_at(int columns, int row, int column) { return row * (columns + 8) + column; }

/// Returns the number of bytes of shared memory that finish_tile needs.
constexpr std::size_t tile_output_bytes(int rows, int columns, int threads) {
    return max_of(sizeof(float) * static_cast<std::size_t>(tile_output_at(columns, rows, 0)),
                  sizeof(ThreadTally) * static_cast<std::size_t>(threads));
}

struct EveryElement {
    MACHEPS_KERNEL bool operator()(std::int64_t, std::int64_t) const { return true; }
};

/// Stores the sums of one slice for which wanted(i, j) is true. The sums are in shared memory, at the indices that
/// tile_output_at returns. All threads of the block must have written their sums, in a phase that has ended
/// (Block::each). Consecutive threads store consecutive columns.
template <int rows, int columns, class Wanted = EveryElement>
MACHEPS_KERNEL void finish_tile(const Block& block, const MatmulJob& job, std::int64_t matrix, int slice,
                                std::int64_t row, std::int64_t column, const Wanted& wanted = {}) {
    const auto* const sums = reinterpret_cast<const float*>(block.shared());
    PerThread<ThreadTally> tally(block);
    block.each([&](int thread) {
        ThreadTally mine;
        for (int at = thread; at < rows * columns; at += block.threads()) {
            const std::int64_t i = row + at / columns, j = column + at % columns;
            if (i >= job.args.m || j >= job.args.n || !wanted(i, j)) continue;
            put_sum(job, matrix, slice, i, j, sums[tile_output_at(columns, at / columns, at % columns)], mine);
        }
        tally[thread] = mine;
    });
    add_block_tally(block, job, tally);
}

/// Joins the sums of the slices of k, and stores the outputs.
template <class Device>
void join_slices(Device& device, const MatmulJob& job) {
    const std::int64_t count = job.matrices() * job.args.m * job.args.n;
    device.each(count, [=] MACHEPS_KERNEL(std::int64_t at) {
        const Matmul args = job.matmul();
        const std::int64_t j = at % args.n, i = at / args.n % args.m, matrix = at / args.n / args.m;
        const auto element = static_cast<std::uint64_t>(at);
        float sum = 0;
        for (std::int64_t s = 0; s < args.rule.slices; ++s) {
            sum = definition::join_slice(args, s, sum, job.partials[s * count + at], i, j, element);
        }
        ThreadTally tally;
        store_output(job, matrix, i, j,
                     args.rule.join == SliceJoin::serial ? definition::finish_output(args, sum, j, element)
                                                         : definition::matmul_output(args, sum, i, j, element),
                     tally);
        if (job.tally != nullptr) add_to(job.tally, tally);
    });
}

/// Returns the sum of `terms` products, beginning at index `first` along k, by the scalar definition.
MACHEPS_KERNEL MACHEPS_NOINLINE inline float slice_by_definition(const MatmulJob& job, std::int64_t matrix,
                                                                 std::int64_t i, std::int64_t j, std::int64_t first,
                                                                 std::int64_t terms) {
    const Matmul args = job.matmul();
    return definition::slice_sum(args, definition::dot_operands(args, job.a(matrix), job.b(matrix), i, j), first,
                                 first + terms);
}

/// Computes every element by the scalar definition. This is slow, but it supports every rule.
template <class Device>
void matmul_by_definition(Device& device, const MatmulJob& job) {
    device.each(job.matrices() * job.args.m * job.args.n, [=] MACHEPS_KERNEL(std::int64_t at) {
        const Matmul args = job.matmul();
        const std::int64_t j = at % args.n, i = at / args.n % args.m, matrix = at / args.n / args.m;
        ThreadTally tally;
        store_output(job, matrix, i, j,
                     definition::matmul_element(args, job.a(matrix), job.b(matrix), i, j,
                                                static_cast<std::uint64_t>(at), job.addend(matrix)),
                     tally);
        if (job.tally != nullptr) add_to(job.tally, tally);
    });
}

}  // namespace macheps::gpu
