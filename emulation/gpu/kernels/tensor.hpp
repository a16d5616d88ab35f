// SPDX-License-Identifier: Apache-2.0
// Kernels of casts and their tallies, elementwise operations, statistics of whole tensors, and optimizer steps. A sum
// over a tensor takes two launches: the first sums chunks of 1024 elements, and the second sums the results of the
// chunks. This is the order of the lane rule (emulation/reduce.hpp).
#pragma once
#include "emulation/adam.hpp"
#include "emulation/gpu/device/device_tally.hpp"
#include "emulation/scaling/cast_plan.hpp"
#include "emulation/scaling/scaling.hpp"

namespace macheps::gpu {

/// Number of elements that one warp processes in operations for which the order of elements does not matter.
inline constexpr std::int64_t warp_share = 4096;

/// Returns the number of pieces of `share` elements that cover n elements.
constexpr std::int64_t pieces(std::int64_t n, std::int64_t share) { return (n + share - 1) / share; }

/// Casts one element, with the fast operations of a CastPlan if they support the cast, and by the scalar definition
/// otherwise.
struct ElementCast {
    explicit ElementCast(const Cast& cast)
        : plan(cast),
          is_planned(cast.round == Round::nearest_even &&
                     (plan.path == CastPlan::Path::wide || plan.path == CastPlan::Path::narrow)) {}

    MACHEPS_KERNEL float operator()(float x, std::int64_t i) const {
        return is_planned ? definition::cast_nearest_even(plan, x)
                          : definition::cast_element(plan.cast, x, static_cast<std::uint64_t>(i));
    }

    CastPlan plan;
    bool is_planned;
};

/// Four neighbouring elements, which a thread reads and writes in one access.
struct alignas(16) Four {
    float of[4];
};

/// Computes out[i] = cast of in[i]. Counts the elements in *tally unless `tally` is null.
template <class Device>
void cast(Device& device, const float* in, float* out, std::int64_t n, const Cast& cast, DeviceTally* tally) {
    const ElementCast element(cast);
    const TallyLimits limits = tally_limits(cast.format);
    const auto address = [](const float* p) { return reinterpret_cast<std::uintptr_t>(p); };
    const std::int64_t fours = address(in) % 16 == 0 && address(out) % 16 == 0 ? n / 4 : 0;
    const std::int64_t share = warp_share / 4;
    device.warps(pieces(fours, share), [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t piece) {
        const std::int64_t end = min_of((piece + 1) * share, fours);
        Lanes<ThreadTally> counts;
        warp.each([&](int lane) {
            ThreadTally mine;
#if defined(__CUDA_ARCH__)
#pragma unroll 4
#endif
            for (std::int64_t at = piece * share + lane; at < end; at += lanes) {
                const Four x = reinterpret_cast<const Four*>(in)[at];
                Four q;
                for (int j = 0; j < 4; ++j) {
                    q.of[j] = element(x.of[j], at * 4 + j);
                    if (tally == nullptr) continue;
                    const float scale = element.plan.cast.encode_scale;
                    mine.add(limits, x.of[j], scale == 1 ? x.of[j] : x.of[j] * scale, q.of[j]);
                }
                reinterpret_cast<Four*>(out)[at] = q;
            }
            counts[lane] = mine;
        });
        if (tally == nullptr) return;
        const ThreadTally sum = warp.fold(counts);
        warp.each([&](int lane) {
            if (lane == 0) add_to(tally, sum);
        });
    });
    // Cast the remaining elements: at most three, or all elements if the tensors are not aligned.
    const std::int64_t first = fours * 4;
    device.each(n - first, [=] MACHEPS_KERNEL(std::int64_t k) {
        const std::int64_t i = first + k;
        const float x = in[i], q = element(x, i), scale = element.plan.cast.encode_scale;
        out[i] = q;
        if (tally == nullptr) return;
        ThreadTally mine;
        mine.add(limits, x, scale == 1 ? x : x * scale, q);
        add_to(tally, mine);
    });
}

// --- elementwise operations. The code of each kernel is in a class with operator(), because CUDA does not allow an
// extended lambda inside a generic lambda.

template <class F>
struct UnaryElement {
    const float* x;
    float* out;
    MACHEPS_KERNEL void operator()(std::int64_t i) const { out[i] = definition::map<F>(x[i]); }
};
template <class F>
struct BackwardElement {
    const float *x, *dout;
    float* dx;
    MACHEPS_KERNEL void operator()(std::int64_t i) const { dx[i] = definition::map_backward<F>(x[i], dout[i]); }
};
template <class F>
struct BinaryElement {
    const float *a, *b;
    float* out;
    MACHEPS_KERNEL void operator()(std::int64_t i) const { out[i] = definition::map<F>(a[i], b[i]); }
};
template <class F>
struct NumberElement {
    const float* a;
    float b;
    float* out;
    MACHEPS_KERNEL void operator()(std::int64_t i) const { out[i] = definition::map<F>(a[i], b); }
};

template <class Device>
void map(Device& device, const elementwise::Unary& f, const float* x, std::int64_t n, float* out) {
    elementwise::visit(elementwise::Unaries{}, f.place,
                       [&]<class F>(F) { device.each(n, UnaryElement<F>{.x = x, .out = out}); });
}
template <class Device>
void map_backward(Device& device, const elementwise::Unary& f, const float* x, const float* dout, std::int64_t n,
                  float* dx) {
    elementwise::visit(elementwise::Unaries{}, f.place,
                       [&]<class F>(F) { device.each(n, BackwardElement<F>{.x = x, .dout = dout, .dx = dx}); });
}
template <class Device>
void map(Device& device, const elementwise::Binary& f, const float* a, const float* b, std::int64_t n, float* out) {
    elementwise::visit(elementwise::Binaries{}, f.place,
                       [&]<class F>(F) { device.each(n, BinaryElement<F>{.a = a, .b = b, .out = out}); });
}
template <class Device>
void map(Device& device, const elementwise::Binary& f, const float* a, float b, std::int64_t n, float* out) {
    elementwise::visit(elementwise::Binaries{}, f.place,
                       [&]<class F>(F) { device.each(n, NumberElement<F>{.a = a, .b = b, .out = out}); });
}

// --- statistics of whole tensors

/// Writes the bits of the largest magnitude to *top, which must be 0 before the call. The bits are compared as
/// integers, so a NaN is larger than every number.
template <class Device>
void largest_magnitude(Device& device, const float* x, std::int64_t n, std::uint32_t* top) {
    device.warps(pieces(n, warp_share), [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t piece) {
        const std::int64_t end = min_of((piece + 1) * warp_share, n);
        Lanes<std::uint32_t> largest;
        warp.each([&](int lane) {
            std::uint32_t mine = 0;
            for (std::int64_t i = piece * warp_share + lane; i < end; i += lanes) {
                mine = max_of(mine, bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
            }
            largest[lane] = mine;
        });
        const std::uint32_t here = warp.fold(largest, [](std::uint32_t a, std::uint32_t b) { return max_of(a, b); });
        warp.each([&](int lane) {
            if (lane == 0) atomic_max(top, here);
        });
    });
}

/// Adds the hash of x to *sum. Backend::bit_hash defines the hash.
template <class Device>
void hash_bits(Device& device, const float* x, std::int64_t n, std::uint64_t* sum) {
    device.warps(pieces(n, warp_share), [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t piece) {
        const std::int64_t end = min_of((piece + 1) * warp_share, n);
        Lanes<std::uint64_t> parts;
        warp.each([&](int lane) {
            std::uint64_t mine = 0;
            for (std::int64_t i = piece * warp_share + lane; i < end; i += lanes)
                mine += definition::hash_term(i, x[i]);
            parts[lane] = mine;
        });
        const std::uint64_t here = warp.fold(parts);
        warp.each([&](int lane) {
            if (lane == 0) atomic_add(sum, here);
        });
    });
}

/// Sets parts[c] to the sum of term(1024 c) .. term(1024 c + 1023). Each sum is in the order of the lane rule
/// (emulation/reduce.hpp). The last sum may have fewer terms. Call sum_parts to add the parts.
template <class T, class Device, class Term>
void sum_chunks(Device& device, std::int64_t n, const Term& term, T* parts) {
    device.warps(pieces(n, chunk), [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t c) {
        const T sum = warp_sum<T>(warp, min_of(chunk, n - c * chunk), term, c * chunk);
        warp.each([&](int lane) {
            if (lane == 0) parts[c] = sum;
        });
    });
}

/// Sets *sum to the sum of parts[0 .. n - 1], in the order of the lane rule.
template <class T, class Device>
void sum_parts(Device& device, const T* parts, std::int64_t n, T* sum) {
    device.warps(1, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t) {
        const T all = warp_sum<T>(warp, n, [=](std::int64_t i) { return parts[i]; });
        warp.each([&](int lane) {
            if (lane == 0) *sum = all;
        });
    });
}

/// Counts the i for which x[i] and decoded(y[i], decode_scale) are both finite, and adds the count to *counter.
template <class Device>
void count_finite_pairs(Device& device, const float* x, const float* y, std::int64_t n, float decode_scale,
                        std::uint64_t* counter) {
    device.warps(pieces(n, warp_share), [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t piece) {
        const std::int64_t end = min_of((piece + 1) * warp_share, n);
        Lanes<std::uint32_t> found;
        warp.each([&](int lane) {
            for (std::int64_t i = piece * warp_share + lane; i < end; i += lanes) {
                found[lane] +=
                    definition::is_finite(x[i]) && definition::is_finite(definition::decoded(y[i], decode_scale));
            }
        });
        const std::uint32_t here = warp.fold(found);
        warp.each([&](int lane) {
            if (lane == 0) atomic_add(counter, std::uint64_t{here});
        });
    });
}

/// Number of bins of an ExponentHistogram.
inline constexpr int exponent_bins = ExponentHistogram::highest - ExponentHistogram::lowest + 1;
/// Number of counters of an ExponentHistogram: the bins, then zeros, infinities and NaNs.
inline constexpr int exponent_counters = exponent_bins + 3;

template <class Device>
void count_exponents(Device& device, const float* x, std::int64_t n, std::uint64_t* counters) {
    constexpr std::int64_t share = 1 << 15;
    const Grid grid{.x = pieces(n, share), .shared_bytes = exponent_counters * sizeof(std::uint32_t)};
    device.blocks(grid, [=] MACHEPS_KERNEL(const Block& block) {
        auto* here = reinterpret_cast<std::uint32_t*>(block.shared());
        const std::int64_t begin = block.x() * share, end = min_of(begin + share, n);
        block.each([&](int thread) {
            for (int i = thread; i < exponent_counters; i += block.threads()) here[i] = 0;
        });
        block.each([&](int thread) {
            for (std::int64_t i = begin + thread; i < end; i += block.threads()) {
                const std::uint32_t magnitude = bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
                const int bin = magnitude == 0             ? exponent_bins
                                : magnitude == 0x7f800000u ? exponent_bins + 1
                                : magnitude > 0x7f800000u  ? exponent_bins + 2
                                                           : definition::exponent_of(x[i]) - ExponentHistogram::lowest;
                atomic_add(here + bin, 1u);
            }
        });
        block.each([&](int thread) {
            for (int i = thread; i < exponent_counters; i += block.threads()) {
                if (here[i] != 0) atomic_add(counters + i, std::uint64_t{here[i]});
            }
        });
    });
}

// --- scaled casts

/// Division of a tensor [rows, columns] into groups, each with its own scale. The groups are rectangles of block_rows x
/// block_columns elements. They form a grid with `down` rows and `across` columns.
struct GroupGrid {
    std::int64_t rows, columns, block_rows, block_columns, down, across;

    MACHEPS_KERNEL std::int64_t group_of(std::int64_t i) const {
        return i / columns / block_rows * across + i % columns / block_columns;
    }
};

inline GroupGrid group_grid(const ScaledCast& how, std::int64_t rows, std::int64_t columns) {
    const Granularity& block = *how.granularity;
    const std::int64_t down = how.k_is_last ? block.outer : block.k, across = how.k_is_last ? block.k : block.outer;
    const ScaleGrid grid = scale_grid(block, how.k_is_last, rows, columns);
    return {.rows = rows,
            .columns = columns,
            .block_rows = down == 0 ? max_of(rows, std::int64_t{1}) : down,
            .block_columns = across == 0 ? max_of(columns, std::int64_t{1}) : across,
            .down = grid.rows,
            .across = grid.columns};
}

/// Writes the bits of the largest magnitude of group g to largest[g], which must be 0 before the call. A NaN counts as
/// the largest magnitude, or is ignored if `ignore_nan` is set.
template <class Device>
void group_magnitudes(Device& device, const float* x, const GroupGrid& grid, bool ignore_nan, std::uint32_t* largest) {
    // One warp processes a whole group, or a rectangle of at most warp_share elements of a group.
    const std::int64_t wide = min_of(grid.block_columns, std::int64_t{1024});
    const std::int64_t parts_across = pieces(grid.block_columns, wide);
    const std::int64_t high = max_of(min_of(grid.block_rows, warp_share / wide), std::int64_t{1});
    const std::int64_t parts_down = pieces(grid.block_rows, high), parts = parts_across * parts_down;
    device.warps(grid.down * grid.across * parts, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t i) {
        const std::int64_t group = i / parts, part = i % parts;
        const std::int64_t r0 = group / grid.across * grid.block_rows, c0 = group % grid.across * grid.block_columns;
        const std::int64_t first_row = r0 + part / parts_across * high, first = c0 + part % parts_across * wide;
        const std::int64_t last_row = min_of(min_of(first_row + high, r0 + grid.block_rows), grid.rows);
        const std::int64_t last = min_of(min_of(first + wide, c0 + grid.block_columns), grid.columns);
        const std::int64_t width = max_of(last - first, std::int64_t{0});
        const std::int64_t count = width * max_of(last_row - first_row, std::int64_t{0});
        Lanes<std::uint32_t> top;
        warp.each([&](int lane) {
            std::uint32_t mine = 0;
            for (std::int64_t e = lane; e < count; e += lanes) {
                const float v = x[(first_row + e / width) * grid.columns + first + e % width];
                const std::uint32_t size = bit_cast<std::uint32_t>(v) & 0x7fffffffu;
                if (!(ignore_nan && size > 0x7f800000u)) mine = max_of(mine, size);
            }
            top[lane] = mine;
        });
        const std::uint32_t here = warp.fold(top, [](std::uint32_t a, std::uint32_t b) { return max_of(a, b); });
        warp.each([&](int lane) {
            if (lane == 0) atomic_max(largest + group, here);
        });
    });
}

/// Computes out[i] = cast of fl32(in[i] * encode[group of i]). Counts the elements in *tally unless `tally` is null. An
/// element whose product is not finite changes only the counts that describe inputs.
template <class Device>
void cast_groups(Device& device, const float* in, float* out, const GroupGrid& grid, const float* encode,
                 const Cast& cast, DeviceTally* tally) {
    const std::int64_t n = grid.rows * grid.columns;
    const TallyLimits limits = tally_limits(cast.format);
    device.warps(pieces(n, warp_share), [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t piece) {
        const std::int64_t end = min_of((piece + 1) * warp_share, n);
        Lanes<ThreadTally> counts;
        warp.each([&](int lane) {
            ThreadTally mine;
            for (std::int64_t i = piece * warp_share + lane; i < end; i += lanes) {
                const float x = in[i], z = definition::canonical(x * encode[grid.group_of(i)]);
                const float q = definition::cast_element(cast, z, i);
                const bool counts_all = definition::is_finite(z);
                mine.add(limits, x, counts_all ? z : 0.0f, counts_all ? q : z - z);
                out[i] = q;
            }
            counts[lane] = mine;
        });
        if (tally == nullptr) return;
        const ThreadTally sum = warp.fold(counts);
        warp.each([&](int lane) {
            if (lane == 0) add_to(tally, sum);
        });
    });
}

// --- optimizer

/// Counters of UpdateStats, in device memory.
struct UpdateCounts {
    std::uint64_t nonzero = 0, lost = 0, frozen = 0;

    MACHEPS_KERNEL UpdateCounts& operator+=(const UpdateCounts& other) {
        nonzero += other.nonzero;
        lost += other.lost;
        frozen += other.frozen;
        return *this;
    }
};

/// Statistics of an optimizer step on a tensor, in device memory.
struct UpdateTotals {
    definition::UpdateSums sums;
    UpdateCounts counts;
};

/// Computes one step of Adam on element i with the given kernel of adam::Kernels.
template <class Kernel>
struct AdamElement {
    AdamConstants constants;
    float *p, *m, *v;
    const float* g;
    MACHEPS_KERNEL definition::UpdateSums operator()(std::int64_t i, UpdateStats& counts) const {
        const auto at = static_cast<std::uint64_t>(i);
        const definition::Updated after = definition::adam<Kernel>(p[i], g[i], m[i], v[i], constants, at);
        return definition::store(after, &counts, p[i], g[i], m[i], v[i]);
    }
};

/// Calls step(i, stats) for each element. step() updates element i, counts it in `stats`, and returns the numbers that
/// this element adds to UpdateSums. Unless `parts` is null, writes the sums of each chunk of 1024 elements to `parts`,
/// and adds the counts to *counts.
template <class Device, class Step>
void update(Device& device, std::int64_t n, const Step& step, definition::UpdateSums* parts, UpdateCounts* counts) {
    device.warps(pieces(n, chunk), [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t c) {
        Lanes<UpdateCounts> found;
        const auto term = [&](std::int64_t i) {
            UpdateStats one;
            const definition::UpdateSums sums = step(i, one);
            UpdateCounts& mine = found[static_cast<int>(i % lanes)];
            mine.nonzero += one.nonzero;
            mine.lost += one.lost;
            mine.frozen += one.frozen;
            return sums;
        };
        const auto sum = warp_sum<definition::UpdateSums>(warp, min_of(chunk, n - c * chunk), term, c * chunk);
        if (parts == nullptr) return;
        const UpdateCounts all = warp.fold(found);
        warp.each([&](int lane) {
            if (lane != 0) return;
            parts[c] = sum;
            atomic_add(&counts->nonzero, all.nonzero);
            atomic_add(&counts->lost, all.lost);
            atomic_add(&counts->frozen, all.frozen);
        });
    });
}

}  // namespace macheps::gpu
