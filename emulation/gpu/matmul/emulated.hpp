// SPDX-License-Identifier: Apache-2.0
// Fast emulation of the matrix units of other NVIDIA GPUs. It supports instructions that truncate their terms at a
// common bit (T-FDPA, ST-FDPA, and fp8 instructions that run as two fp16 steps) and block-scaled fp4 instructions
// (GST-FDPA). Operands are first decomposed into integers. Then each thread computes 4 x 2 outputs with integer
// instructions. emulation/machine/step.hpp defines the steps. Outputs that sum a NaN or Inf are computed by the scalar
// definition.
#pragma once
#include "emulation/gpu/matmul/factors.hpp"

namespace macheps::gpu {

/// Returns x >> n for any n >= 0. The result is 0 if n >= 32.
MACHEPS_KERNEL inline std::uint32_t shifted_right(std::uint32_t x, int n) {
#if defined(__CUDA_ARCH__)
    std::uint32_t y;
    asm("shr.u32 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(n));  // PTX clamps the amount
    return y;
#else
    return n >= 32 ? 0 : x >> n;
#endif
}
/// Returns `sum` plus the dot product of the four signed bytes of a and the four signed bytes of b.
MACHEPS_KERNEL inline int dot4(std::uint32_t a, std::uint32_t b, int sum) {
#if defined(__CUDA_ARCH__)
    return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
#else
    for (int i = 0; i < 4; ++i) {
        sum += static_cast<std::int8_t>(a >> (8 * i)) * static_cast<std::int8_t>(b >> (8 * i));
    }
    return sum;
#endif
}

/// Tile of 64 x 32 outputs. Each of 256 threads computes 4 x 2 outputs.
struct EmulatedTile {
    static constexpr int rows = 64, columns = 32, threads = 256, down = 4, across = 2;
    static MACHEPS_HD constexpr int row(int thread) { return thread / 16 * down; }
    static MACHEPS_HD constexpr int column(int thread) { return thread % 16 * across; }
};
template <int n>
struct alignas(4 * n) Ints {
    int x[n];
};
template <class T>
struct PerOutput {
    T x[EmulatedTile::down][EmulatedTile::across];

    /// Calls f(row, column) for every output of a thread.
    template <class F>
    static MACHEPS_KERNEL void each(const F& f) {
        MACHEPS_UNROLL
        for (int i = 0; i < EmulatedTile::down; ++i) {
            MACHEPS_UNROLL
            for (int j = 0; j < EmulatedTile::across; ++j) f(i, j);
        }
    }
};

/// Operations on an accumulator of 32 bits with the bit fields of fp32. They give the same results as factor_of_code(),
/// cut() and deliver(), mostly with 32-bit arithmetic.
struct Fp32Sum {
    static MACHEPS_KERNEL int field(std::uint32_t c) { return static_cast<int>(c >> 23 & 0xff); }
    static MACHEPS_KERNEL int exponent(const SumRule& rule, std::uint32_t c) {
        return c << 1 == 0 ? rule.zero_exponent : max_of(field(c), 1) - 127;
    }
    /// Returns c + `sum` * 2^(largest - F), rounded, where F is rule.fraction_bits. Wide must hold |sum| plus |c| in
    /// units of 2^(largest - F).
    template <class Wide>
    static MACHEPS_KERNEL std::uint32_t add(const SumRule& rule, std::uint32_t c, Wide sum, int largest) {
        if (field(c) == 0xff) return c;  // after an overflow the sum stays infinite
        const std::uint32_t significand = (c & 0x7fffffu) | (field(c) != 0 ? 0x800000u : 0u);
        // The exponent of the addend is at most `largest`, so `down` is at least 23 - F. A left shift is thus by at
        // most F - 23 <= 2 bits.
        const int down = largest - (max_of(field(c), 1) - 127) + 23 - rule.fraction_bits;
        const auto cut = static_cast<int>(down < 0 ? significand << -down : shifted_right(significand, down));
        sum += static_cast<std::int32_t>(c) < 0 ? -cut : cut;
        if (sum == 0) return 0;
        const bool negative = sum < 0;
        const auto size = static_cast<std::uint64_t>(negative ? -sum : sum);
        const int fraction = rule.delivery == Delivery::e8m13_toward_zero ? 13 : 23;
        const int unit = largest - rule.fraction_bits;
        const int top = max_of(63 - countl_zero(size) + unit, -126), drop = top - fraction - unit;
        const auto ulps = static_cast<std::uint32_t>(drop >= 64 ? 0 : drop >= 0 ? size >> drop : size << -drop);
        // The leading one of `ulps` adds 1 to the exponent field, so only top + 126 is added to the field here. Results
        // beyond fp32's range are Inf, even with rounding toward zero.
        const std::uint32_t code =
            min_of((ulps << (23 - fraction)) + (static_cast<std::uint32_t>(top + 126) << 23), 0x7f800000u);
        return code == 0 ? 0 : code | (negative ? 0x80000000u : 0u);
    }
};
/// Operations on an accumulator of 16 bits.
struct Fp16Sum {
    static MACHEPS_KERNEL int exponent(const SumRule& rule, std::uint32_t c) {
        return ::macheps::matrix_unit::addend_exponent(rule, factor_of_code(rule.addend, c));
    }
    static MACHEPS_KERNEL std::uint32_t add(const SumRule& rule, std::uint32_t c, std::int64_t sum, int largest) {
        const Factor addend = factor_of_code(rule.addend, c);
        if (addend.kind != Unpacked::Kind::finite) return c;
        const int unit = largest - rule.fraction_bits;
        sum += ::macheps::matrix_unit::cut(addend.negative, addend.significand, addend.exponent, addend.fraction_bits,
                                           unit);
        return static_cast<std::uint32_t>(::macheps::matrix_unit::deliver(rule, sum, unit));
    }
};

/// Computes steps of truncated sums. Adds `chunk` terms at a time in 32 bits. Their sum fits, because the sum of eight
/// terms with F = 25 is below 2^30. Wide is the type of the sum of a whole step: 64 bits if the sum does not fit in 32
/// bits.
template <class Sum, class Wide, int chunk>
struct TruncatedSteps {
    static constexpr int depth = 32;  ///< positions along k that one stage in shared memory holds
    static constexpr int a_plane = depth * EmulatedTile::rows, b_plane = depth * EmulatedTile::columns;
    static constexpr int stage_bytes = 2 * (a_plane + b_plane) * 4;

    /// Starts copying positions [first, first + depth) along k of both operands.
    static MACHEPS_KERNEL void load(std::byte* stage, const EmulatedOperand& a, const EmulatedOperand& b,
                                    std::int64_t a_row, std::int64_t b_row, std::int64_t first, int thread) {
        auto* const to = reinterpret_cast<int*>(stage);
        copy<EmulatedTile::rows>(to, a, a_row, first, thread);
        copy<EmulatedTile::columns>(to + 2 * a_plane, b, b_row, first, thread);
    }
    /// Computes one step: adds plan.terms products to the accumulators c. The products begin at position `first` of the
    /// stage.
    static MACHEPS_KERNEL void step(const EmulatedPlan& plan, const std::byte* stage, int first, int thread,
                                    PerOutput<std::uint32_t>& c) {
        constexpr int a_width = EmulatedTile::rows, b_width = EmulatedTile::columns;
        const int* const a = reinterpret_cast<const int*>(stage) + first * a_width + EmulatedTile::row(thread);
        const int* const b =
            reinterpret_cast<const int*>(stage) + 2 * a_plane + first * b_width + EmulatedTile::column(thread);
        PerOutput<int> largest;
        largest.each([&](int i, int j) { largest.x[i][j] = Sum::exponent(plan.rule, c.x[i][j]); });
        for (int base = 0; base < plan.terms; base += 4) {
            MACHEPS_UNROLL
            for (int t = 0; t < 4; ++t) {
                const auto x = read<a_width, EmulatedTile::down>(a + a_plane, base + t);
                const auto y = read<b_width, EmulatedTile::across>(b + b_plane, base + t);
                largest.each([&](int i, int j) { largest.x[i][j] = max_of(largest.x[i][j], x.x[i] + y.x[j]); });
            }
        }
        PerOutput<Wide> sum{};
        for (int base = 0; base < plan.terms; base += chunk) {
            PerOutput<int> part{};
            MACHEPS_UNROLL
            for (int t = 0; t < chunk; ++t) {
                const auto m = read<a_width, EmulatedTile::down>(a, base + t);
                const auto x = read<a_width, EmulatedTile::down>(a + a_plane, base + t);
                const auto n = read<b_width, EmulatedTile::across>(b, base + t);
                const auto y = read<b_width, EmulatedTile::across>(b + b_plane, base + t);
                part.each([&](int i, int j) {
                    // The magnitude is cut, so terms of both signs are rounded toward zero.
                    const std::uint32_t cut =
                        shifted_right(magnitude(m.x[i]) * magnitude(n.x[j]), largest.x[i][j] - x.x[i] - y.x[j]);
                    const int sign = (m.x[i] ^ n.x[j]) >> 31;
                    part.x[i][j] += (static_cast<int>(cut) ^ sign) - sign;
                });
            }
            sum.each([&](int i, int j) { sum.x[i][j] += part.x[i][j]; });
        }
        c.each([&](int i, int j) { c.x[i][j] = Sum::add(plan.rule, c.x[i][j], sum.x[i][j], largest.x[i][j]); });
    }

  private:
    template <int width>
    static MACHEPS_KERNEL void copy(int* to, const EmulatedOperand& x, std::int64_t outer, std::int64_t first,
                                    int thread) {
        for (int v = thread; v < depth * width / 4; v += EmulatedTile::threads) {
            const int place = v / (width / 4), o = v % (width / 4) * 4;
            const std::int64_t at = (first + place) * x.padded + outer + o;
            start_copy(to + place * width + o, x.significands + at);
            start_copy(to + depth * width + place * width + o, x.exponents + at);
        }
    }
    static MACHEPS_KERNEL std::uint32_t magnitude(int x) { return static_cast<std::uint32_t>(x < 0 ? -x : x); }
    template <int width, int n>
    static MACHEPS_KERNEL Ints<n> read(const int* plane, int place) {
        return *reinterpret_cast<const Ints<n>*>(plane + place * width);
    }
};

/// Computes steps of scaled groups. Each group is an exact sum of fp4 products, multiplied by the scales of the group.
struct Fp4Steps {
    static constexpr int depth = 64;  ///< positions along k that one stage in shared memory holds: one instruction
    static constexpr int groups = depth / 16;
    static constexpr int a_groups = groups * EmulatedTile::rows, b_groups = groups * EmulatedTile::columns;
    static constexpr int stage_bytes = (a_groups + b_groups) * static_cast<int>(sizeof(Fp4Group));

    static MACHEPS_KERNEL void load(std::byte* stage, const EmulatedOperand& a, const EmulatedOperand& b,
                                    std::int64_t a_row, std::int64_t b_row, std::int64_t first, int thread) {
        auto* const to = reinterpret_cast<Fp4Group*>(stage);
        copy<EmulatedTile::rows>(to, a, a_row, first, thread);
        copy<EmulatedTile::columns>(to + a_groups, b, b_row, first, thread);
    }
    static MACHEPS_KERNEL void step(const EmulatedPlan& plan, const std::byte* stage, int, int thread,
                                    PerOutput<std::uint32_t>& c) {
        const auto* const a = reinterpret_cast<const Fp4Group*>(stage) + EmulatedTile::row(thread);
        const auto* const b = reinterpret_cast<const Fp4Group*>(stage) + a_groups + EmulatedTile::column(thread);
        c.each([&](int i, int j) { c.x[i][j] = one(plan.rule, a + i, b + j, c.x[i][j]); });
    }

  private:
    template <int width>
    static MACHEPS_KERNEL void copy(Fp4Group* to, const EmulatedOperand& x, std::int64_t outer, std::int64_t first,
                                    int thread) {
        for (int v = thread; v < groups * width; v += EmulatedTile::threads) {
            const Fp4Group* const from = x.groups + (first / 16 + v / width) * x.padded + outer + v % width;
            start_copy(&to[v], from);
            start_copy(reinterpret_cast<std::byte*>(&to[v]) + 16, reinterpret_cast<const std::byte*>(from) + 16);
        }
    }
    static MACHEPS_KERNEL std::uint32_t one(const SumRule& rule, const Fp4Group* a, const Fp4Group* b,
                                            std::uint32_t c) {
        if (Fp32Sum::field(c) == 0xff) return c;  // after an overflow the sum stays infinite
        int largest = Fp32Sum::exponent(rule, c);
        std::int64_t term[groups];
        int exponent[groups];
        MACHEPS_UNROLL
        for (int g = 0; g < groups; ++g) {
            const Fp4Group &x = a[g * EmulatedTile::rows], &y = b[g * EmulatedTile::columns];
            const bool present = (x.present & y.present) != 0 && x.scale_significand != 0 && y.scale_significand != 0;
            int dot = 0;
            MACHEPS_UNROLL
            for (int w = 0; w < 4; ++w) dot = dot4(x.twice[w], y.twice[w], dot);
            term[g] = present ? std::int64_t{dot} * static_cast<int>(x.scale_significand * y.scale_significand) : 0;
            exponent[g] = x.scale_exponent + y.scale_exponent;
            largest = max_of(largest, present ? exponent[g] : rule.zero_exponent);
        }
        const int unit = largest - rule.fraction_bits;
        const int fractions = 2 + a->scale_fraction_bits + b->scale_fraction_bits;
        const std::uint32_t significand = (c & 0x7fffffu) | (Fp32Sum::field(c) != 0 ? 0x800000u : 0u);
        std::int64_t sum = cut(c >> 31 != 0, significand, max_of(Fp32Sum::field(c), 1) - 127 - 23 - unit);
        MACHEPS_UNROLL
        for (int g = 0; g < groups; ++g) {
            const auto size = static_cast<std::uint64_t>(term[g] < 0 ? -term[g] : term[g]);
            sum += cut(term[g] < 0, size, exponent[g] - fractions - unit);
        }
        return static_cast<std::uint32_t>(::macheps::matrix_unit::deliver(rule, sum, unit));
    }
    /// Returns size * 2^shift, cut to an integer, with the given sign.
    static MACHEPS_KERNEL std::int64_t cut(bool negative, std::uint64_t size, int shift) {
        return ::macheps::matrix_unit::cut(negative, size, shift, 0, 0);
    }
};

/// Returns whether element (i, j) sums a NaN or Inf, which the integer steps above do not support.
MACHEPS_KERNEL inline bool is_special(const EmulatedOperand& a, const EmulatedOperand& b, std::int64_t matrix,
                                      std::int64_t i, std::int64_t j) {
    return (a.special[matrix * a.padded + i] | b.special[matrix * b.padded + j]) != 0;
}

template <class Steps>
struct EmulatedKernel {
    static constexpr int threads = EmulatedTile::threads, blocks_per_processor = 2, stages = 2;
    MatmulJob job;
    PackedDepth packed;
    EmulatedPlan plan;
    EmulatedOperand a, b;

    struct Sums {
        PerOutput<std::uint32_t> c{};  ///< codes of the machine's accumulator
        PerOutput<float> main{};       ///< main accumulators, used only if partial sums are added to them
    };

    MACHEPS_KERNEL void operator()(const Block& block) const {
        const std::int64_t tiles_across = (job.args.n + EmulatedTile::columns - 1) / EmulatedTile::columns;
        const std::int64_t row = block.x() / tiles_across * EmulatedTile::rows;
        const std::int64_t column = block.x() % tiles_across * EmulatedTile::columns;
        const int slice = block.y();
        const std::int64_t instructions =
            (packed.terms(slice, job.args.k) + plan.instruction_k - 1) / plan.instruction_k;
        const std::int64_t places = instructions * plan.instruction_k,
                           tiles = (places + Steps::depth - 1) / Steps::depth;
        const std::int64_t width = packed.slices * packed.padded;
        for (std::int64_t matrix = block.z(); matrix < job.matrices(); matrix += 65535) {
            const auto load = [&](int thread, std::int64_t tile) {
                if (tile < tiles) {
                    const std::int64_t first = slice * packed.padded + tile * Steps::depth;
                    Steps::load(block.shared() + tile % stages * Steps::stage_bytes, of(a, matrix, width),
                                of(b, matrix, width), row, column, first, thread);
                }
                end_copy_group();
            };
            PerThread<Sums> sums(block, Sums{});
            block.apart([&](int thread) { load(thread, 0); });
            for (std::int64_t tile = 0; tile < tiles; ++tile) {
                block.apart([&](int thread) { load(thread, tile + 1); });
                block.each([&](int) { wait_copies<1>(); });
                block.each([&](int thread) {
                    const std::byte* const stage = block.shared() + tile % stages * Steps::stage_bytes;
                    const std::int64_t first = tile * Steps::depth;
                    for (int place = 0; place < Steps::depth && first + place < places; place += plan.terms) {
                        Steps::step(plan, stage, place, thread, sums[thread].c);
                        if (plan.join == PartialJoin::none) continue;
                        const std::int64_t done = (first + place) / plan.terms + 1, chain = plan.steps_per_join;
                        if (done % chain == 0 || done * plan.terms >= places) {
                            const std::int64_t start = (done - 1) / chain * chain * plan.terms;
                            promote(thread, row, column, packed.first(slice, job.args.k) + start, sums[thread]);
                        }
                    }
                });
            }
            block.each([&](int) { wait_copies<0>(); });
            block.each([&](int thread) {
                auto* const out = reinterpret_cast<float*>(block.shared());
                const Sums& mine = sums[thread];
                mine.main.each([&](int i, int j) {
                    const int r = EmulatedTile::row(thread) + i, c = EmulatedTile::column(thread) + j;
                    const float x =
                        plan.join == PartialJoin::none ? decode(plan.rule.addend, mine.c.x[i][j]) : mine.main.x[i][j];
                    out[tile_output_at(EmulatedTile::columns, r, c)] = x;
                });
            });
            finish_tile<EmulatedTile::rows, EmulatedTile::columns>(
                block, job, matrix, slice, row, column,
                [&](std::int64_t i, std::int64_t j) { return !is_special(a, b, matrix, i, j); });
        }
    }

  private:
    /// Returns the part of an operand that belongs to one matrix of the batch.
    static MACHEPS_KERNEL EmulatedOperand of(EmulatedOperand x, std::int64_t matrix, std::int64_t width) {
        if (x.groups != nullptr) {
            x.groups += matrix * (width / 16) * x.padded;
        } else {
            x.significands += matrix * width * x.padded;
            x.exponents += matrix * width * x.padded;
        }
        return x;
    }
    MACHEPS_KERNEL void promote(int thread, std::int64_t row, std::int64_t column, std::int64_t first,
                                Sums& sums) const {
        const Matmul& args = job.args;
        sums.main.each([&](int i, int j) {
            // Rows and columns beyond the matrix have no scales. They use the scales of the last row or column. Their
            // sums are not stored.
            const std::int64_t at = min_of(row + EmulatedTile::row(thread) + i, args.m - 1);
            const std::int64_t to = min_of(column + EmulatedTile::column(thread) + j, args.n - 1);
            sums.main.x[i][j] = definition::promote(args, {.i = at, .j = to}, first,
                                                    decode(plan.rule.addend, sums.c.x[i][j]), sums.main.x[i][j]);
            sums.c.x[i][j] = 0;
        });
    }
};

/// Computes the elements for which is_special() is true, by the scalar definition.
template <class Device>
void sum_special_lines(Device& device, const MatmulJob& job, const PackedDepth& packed, const EmulatedOperand& a,
                       const EmulatedOperand& b) {
    const std::int64_t count = job.matrices() * job.args.m * job.args.n;
    device.each(count * packed.slices, [=] MACHEPS_KERNEL(std::int64_t at) {
        const std::int64_t j = at % job.args.n, i = at / job.args.n % job.args.m;
        const std::int64_t matrix = at % count / job.args.n / job.args.m, slice = at / count;
        if (!is_special(a, b, matrix, i, j)) return;
        ThreadTally tally;
        put_sum(
            job, matrix, static_cast<int>(slice), i, j,
            slice_by_definition(job, matrix, i, j, packed.first(slice, job.args.k), packed.terms(slice, job.args.k)),
            tally);
        if (job.tally != nullptr) add_to(job.tally, tally);
    });
}

template <class Steps, class Device, class Memory>
void run_emulated(Device& device, Memory& memory, MatmulJob job, const EmulatedPlan& plan) {
    const Matmul& args = job.args;
    const PackedDepth packed = packed_depth(args, Steps::depth);
    const bool fp4 = plan.rule.model == SumModel::scaled_groups;
    std::shared_ptr<void> owners[6];
    const auto operand = [&](bool is_a, std::int64_t outer, int tile, std::shared_ptr<void>* owner) {
        EmulatedOperand x{.outer = outer, .padded = rounded_up(outer, tile)};
        const std::int64_t lines = job.matrices() * x.padded, places = packed.slices * packed.padded;
        const auto take = [&](std::shared_ptr<void>& owned, std::int64_t bytes) {
            owned = memory.take(static_cast<std::size_t>(bytes));
            return owned.get();
        };
        if (fp4) {
            x.groups = static_cast<Fp4Group*>(
                take(owner[0], lines * (places / 16) * static_cast<std::int64_t>(sizeof(Fp4Group))));
        } else {
            x.significands = static_cast<int*>(take(owner[0], lines * places * 4));
            x.exponents = static_cast<int*>(take(owner[1], lines * places * 4));
        }
        x.special = static_cast<std::uint32_t*>(take(owner[2], lines * 4));
        device.clear(x.special, static_cast<std::size_t>(lines) * 4);
        take_apart(device, TakeApart{job, packed, plan, x, is_a});
        return x;
    };
    const EmulatedOperand a = operand(true, args.m, EmulatedTile::rows, owners);
    const EmulatedOperand b = operand(false, args.n, EmulatedTile::columns, owners + 3);
    const std::shared_ptr<void> partials = take_partials(memory, job);
    Grid grid = tile_grid(args, EmulatedTile::rows, EmulatedTile::columns, EmulatedTile::threads,
                          max_of(std::size_t{EmulatedKernel<Steps>::stages} * Steps::stage_bytes,
                                 tile_output_bytes(EmulatedTile::rows, EmulatedTile::columns, EmulatedTile::threads)));
    grid.y = static_cast<int>(packed.slices);
    device.blocks(grid, EmulatedKernel<Steps>{job, packed, plan, a, b});
    sum_special_lines(device, job, packed, a, b);
    if (job.partials != nullptr) join_slices(device, job);
}

template <class Device, class Memory>
void matmul_emulated(Device& device, Memory& memory, const MatmulJob& job, const EmulatedPlan& plan) {
    // Every term is below 2^(F + 2). `narrow` is true if the sum of all terms of a step and the addend is certain to
    // fit in 32 bits.
    const bool narrow = (std::int64_t{plan.terms} << (plan.rule.fraction_bits + 2)) <= std::int64_t{1} << 30;
    if (plan.rule.model == SumModel::scaled_groups) {
        run_emulated<Fp4Steps>(device, memory, job, plan);
    } else if (plan.rule.delivery == Delivery::fp16_nearest_even) {
        run_emulated<TruncatedSteps<Fp16Sum, std::int64_t, 4>>(device, memory, job, plan);
    } else if (narrow) {
        run_emulated<TruncatedSteps<Fp32Sum, std::int32_t, 4>>(device, memory, job, plan);
    } else {
        run_emulated<TruncatedSteps<Fp32Sum, std::int64_t, 8>>(device, memory, job, plan);
    }
}

}  // namespace macheps::gpu
