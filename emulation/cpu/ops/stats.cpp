// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/stats.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <vector>

#include "emulation/cpu/ops/casts/fidelity.hpp"
#include "emulation/cpu/ops/stats.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/cpu/simd/vec-inl.hpp"
#include "emulation/definitions.hpp"

#ifndef MACHEPS_STATS_KERNELS
#define MACHEPS_STATS_KERNELS
namespace macheps {

/// Serial kernels. A chunk has at most 1024 elements.
struct StatsKernels {
    std::uint32_t (*largest_pattern)(const float* x, std::int64_t n);  ///< max of the bits of |x|, as integers
    definition::ErrorTerms (*chunk_errors)(const float* x, const float* y, std::int64_t n, float decode_scale,
                                           std::uint64_t& finite);
    float (*chunk_squares)(const float* x, std::int64_t n);
    void (*fidelity)(const FidelityCast& cast, const float* x, const float* y, const float* codes, std::int64_t n,
                     FidelityFigures& figures);
};

}  // namespace macheps
#endif

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

std::uint32_t largest_pattern(const float* x, std::int64_t n) {
    const DI32 di;
    const auto magnitude = hn::Set(di, 0x7fffffff);
    auto top0 = hn::Zero(di), top1 = top0;
    std::int64_t i = 0;
    for (; i + 2 * vector_step <= n; i += 2 * vector_step) {
        top0 = hn::Max(top0, hn::And(bits(load(x + i)).v, magnitude));
        top1 = hn::Max(top1, hn::And(bits(load(x + i + vector_step)).v, magnitude));
    }
    for (; i < n; i += vector_step) {
        const auto count = static_cast<std::size_t>(min_of(vector_step, n - i));
        top0 = hn::Max(top0, hn::And(bits(load_n(x + i, count)).v, magnitude));
    }
    return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, hn::Max(top0, top1))));
}

/// Sums a chunk by the lane rule. The outer loop goes over the 32 lanes, one vector of lanes at a time, because AVX2
/// has too few registers for the sums of all lanes. Elements beyond n are loaded as zeros, whose terms are +0.
definition::ErrorTerms chunk_errors(const float* x, const float* y, std::int64_t n, float decode_scale,
                                    std::uint64_t& finite) {
    constexpr auto half = static_cast<std::int64_t>(f64_lanes);
    const F32 infinity = from_bits(I32(0x7f800000)), zero, scale(decode_scale);
    HWY_ALIGN double sum[4][lanes];
    for (std::int64_t l = 0; l < lanes; l += vector_step) {
        F64 error2[2], x2[2], y2[2], xy[2];
        for (std::int64_t i = l; i < n; i += lanes) {
            const auto count = static_cast<std::size_t>(min_of(vector_step, n - i));
            F32 a = load_n(x + i, count), b = load_n(y + i, count);
            if (decode_scale != 1) b = b * scale;
            const M32 both = (abs(a) < infinity) & (abs(b) < infinity);
            finite += macheps::HWY_NAMESPACE::count(both & first_n(count));
            a = select(both, a, zero);
            b = select(both, b, zero);
            for (int h = 0; h < 2; ++h) {
                const F64 u = h == 0 ? promote_lower(a) : promote_upper(a),
                          v = h == 0 ? promote_lower(b) : promote_upper(b);
                const F64 error = v - u;
                error2[h] = error2[h] + error * error;
                x2[h] = x2[h] + u * u;
                y2[h] = y2[h] + v * v;
                xy[h] = xy[h] + u * v;
            }
        }
        for (int h = 0; h < 2; ++h) {
            store(error2[h], sum[0] + l + h * half);
            store(x2[h], sum[1] + l + h * half);
            store(y2[h], sum[2] + l + h * half);
            store(xy[h], sum[3] + l + h * half);
        }
    }
    return {detail::fold_lanes(sum[0]), detail::fold_lanes(sum[1]), detail::fold_lanes(sum[2]),
            detail::fold_lanes(sum[3])};
}

float chunk_squares(const float* x, std::int64_t n) {
    return chunk_sum(0, n, [=](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 v = load_n(x + i, count);
        return v * v;
    });
}

/// Adds the statistics of a chunk to `figures`. Terms that must be added in the order of the elements are first stored
/// in arrays. Pairs (x, y) that the statistics leave out get zeros in these arrays. Adding a zero does not change a
/// sum, because sums are never -0.
template <bool has_groups>
void chunk_fidelity(const FidelityCast& cast, const float* x, const float* y, const float* codes, std::int64_t n,
                    FidelityFigures& figures) {
    constexpr auto half = static_cast<std::int64_t>(f64_lanes);
    const DF64 d;
    const auto zero = hn::Zero(d), infinity = hn::Set(d, HUGE_VAL), min_normal = hn::Set(d, cast.min_normal);
    const auto min_beyond = hn::Set(d, cast.min_beyond);
    const F32 scale(cast.encode_scale);
    HWY_ALIGN double relative[chunk], error_toward[chunk], size_of[chunk];
    auto relative_max = zero, z_max = zero;
    std::uint64_t overflow_rounded = 0, subnormal_inexact = 0, nonzero = 0;
    for (std::int64_t i = 0; i < n; i += vector_step) {
        const auto count = static_cast<std::size_t>(min_of(vector_step, n - i));
        const F32 xs = load_n(x + i, count), ys = load_n(y + i, count), qs = load_n(codes + i, count);
        const F32 scaled = xs * scale;
        for (int h = 0; h < 2; ++h) {
            const auto of = [h](F32 a) HWY_ATTR { return (h == 0 ? promote_lower(a) : promote_upper(a)).v; };
            const auto u = of(xs), v = of(ys), q = of(qs), size = hn::Abs(u), code = hn::Abs(q);
            // If there are groups, q / y gives the encode scale of the group, to within one ulp.
            const auto z = has_groups ? hn::IfThenElse(hn::Eq(v, zero), zero, hn::Mul(size, hn::Div(code, hn::Abs(v))))
                                      : hn::Abs(of(scaled));
            const auto is_number = hn::Lt(size, infinity);
            const auto z_here = hn::IfThenElseZero(is_number, z);
            z_max = hn::IfThenElse(hn::Lt(z_max, z_here), z_here, z_max);
            auto is_beyond = hn::Ge(z, min_beyond);
            if (has_groups) is_beyond = hn::Or(is_beyond, hn::Not(hn::Lt(code, infinity)));
            overflow_rounded += hn::CountTrue(d, hn::And(is_number, is_beyond));
            const auto both = hn::And(is_number, hn::Lt(hn::Abs(v), infinity));
            const auto error = hn::Sub(v, u);
            const auto is_subnormal = hn::And(hn::Lt(code, min_normal), hn::Gt(code, zero));
            const auto is_inexact = hn::Not(hn::Eq(error, zero));
            subnormal_inexact += hn::CountTrue(d, hn::And(both, hn::And(is_subnormal, is_inexact)));
            const auto is_counted = hn::And(both, hn::Gt(size, zero));
            nonzero += hn::CountTrue(d, is_counted);
            const auto r = hn::IfThenElseZero(is_counted, hn::Div(hn::Abs(error), size));
            relative_max = hn::IfThenElse(hn::Lt(relative_max, r), r, relative_max);
            hn::Store(r, d, relative + i + h * half);
            const auto toward = hn::Xor(error, hn::And(u, hn::SignBit(d)));
            hn::Store(hn::IfThenElseZero(is_counted, toward), d, error_toward + i + h * half);
            hn::Store(hn::IfThenElseZero(is_counted, size), d, size_of + i + h * half);
        }
    }
    figures.overflow_rounded += overflow_rounded;
    figures.subnormal_inexact += subnormal_inexact;
    figures.nonzero += nonzero;
    figures.relative_max = max_of(figures.relative_max, hn::GetLane(hn::MaxOfLanes(d, relative_max)));
    figures.z_max = max_of(figures.z_max, hn::GetLane(hn::MaxOfLanes(d, z_max)));
    double relative_sum = figures.relative_sum, signed_error = figures.signed_error, abs_x = figures.abs_x;
    for (std::int64_t i = 0; i < n; ++i) {
        relative_sum += relative[i];
        signed_error += error_toward[i];
        abs_x += size_of[i];
    }
    figures.relative_sum = relative_sum;
    figures.signed_error = signed_error;
    figures.abs_x = abs_x;
}

void fidelity(const FidelityCast& cast, const float* x, const float* y, const float* codes, std::int64_t n,
              FidelityFigures& figures) {
    for (std::int64_t i = 0; i < n; i += chunk) {
        const std::int64_t count = min_of(chunk, n - i);
        (cast.has_groups ? chunk_fidelity<true> : chunk_fidelity<false>)(cast, x + i, y + i, codes + i, count, figures);
    }
}

}  // namespace

const StatsKernels& stats_table() {
    static constexpr StatsKernels table{largest_pattern, chunk_errors, chunk_squares, fidelity};
    return table;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace N_AVX2 {
const StatsKernels& stats_table();
}
namespace N_AVX3 {
const StatsKernels& stats_table();
}

namespace {

std::uint32_t scalar_largest_pattern(const float* x, std::int64_t n) {
    std::uint32_t top = 0;
    for (std::int64_t i = 0; i < n; ++i) top = std::max(top, bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
    return top;
}

definition::ErrorTerms scalar_chunk_errors(const float* x, const float* y, std::int64_t n, float decode_scale,
                                           std::uint64_t& finite) {
    return lane_sum<definition::ErrorTerms>(n, [&](std::int64_t i) {
        const float b = definition::decoded(y[i], decode_scale);
        finite += definition::is_finite(x[i]) && definition::is_finite(b);
        return definition::error_terms(x[i], b);
    });
}

float scalar_chunk_squares(const float* x, std::int64_t n) {
    return lane_sum<float>(n, [=](std::int64_t i) { return x[i] * x[i]; });
}

void scalar_fidelity(const FidelityCast& cast, const float* xs, const float* ys, const float* codes, std::int64_t n,
                     FidelityFigures& figures) {
    for (std::int64_t i = 0; i < n; ++i) {
        const double x = xs[i], y = ys[i], q = codes[i];
        if (!std::isfinite(x)) continue;
        const double size = std::abs(x), code = std::abs(q);
        // If there are groups, q / y gives the encode scale of the group, to within one ulp.
        const double z =
            cast.has_groups ? (y != 0 ? size * (code / std::abs(y)) : 0) : std::abs(double{xs[i] * cast.encode_scale});
        figures.z_max = std::max(figures.z_max, z);
        figures.overflow_rounded += z >= cast.min_beyond || (cast.has_groups && !std::isfinite(q)) ? 1 : 0;
        if (!std::isfinite(y)) continue;
        const double error = y - x;
        figures.subnormal_inexact += q != 0 && code < cast.min_normal && error != 0 ? 1 : 0;
        if (x == 0) continue;
        const double relative = std::abs(error) / size;
        ++figures.nonzero;
        figures.relative_sum += relative;
        figures.relative_max = std::max(figures.relative_max, relative);
        figures.signed_error += x < 0 ? -error : error;
        figures.abs_x += size;
    }
}

const StatsKernels& scalar_table() {
    static constexpr StatsKernels table{scalar_largest_pattern, scalar_chunk_errors, scalar_chunk_squares,
                                        scalar_fidelity};
    return table;
}

const StatsKernels& kernels(Simd simd) { return MACHEPS_CHOOSE_TARGET(simd, scalar_table, stats_table)(); }

constexpr std::int64_t chunks_per_task = 64;
constexpr std::int64_t block = chunk * chunks_per_task;  ///< elements per task

std::uint32_t largest_pattern(Simd simd, ThreadPool& pool, const float* x, std::int64_t n) {
    std::atomic<std::uint32_t> top = 0;
    pool.run((n + block - 1) / block, [&](std::int64_t b) {
        const std::uint32_t here = kernels(simd).largest_pattern(x + b * block, std::min(block, n - b * block));
        for (std::uint32_t seen = top; seen < here && !top.compare_exchange_weak(seen, here);) {
        }
    });
    return top;
}

/// Sums n elements by the lane rule. On the pool, `of_chunk(first, count)` computes the sum of each chunk. If there is
/// more than one chunk, the sums of the chunks are then summed by the same rule.
template <class T, class OfChunk>
T sum_of_chunks(ThreadPool& pool, std::int64_t n, const OfChunk& of_chunk) {
    const std::int64_t chunks = (n + chunk - 1) / chunk;
    if (chunks <= 1) return of_chunk(0, n);
    std::vector<T> result(static_cast<std::size_t>(chunks));
    pool.run((chunks + chunks_per_task - 1) / chunks_per_task, [&](std::int64_t task) {
        const std::int64_t end = std::min((task + 1) * chunks_per_task, chunks);
        for (std::int64_t c = task * chunks_per_task; c < end; ++c) {
            result[static_cast<std::size_t>(c)] = of_chunk(c * chunk, std::min(chunk, n - c * chunk));
        }
    });
    return lane_sum<T>(chunks, [&](std::int64_t c) { return result[static_cast<std::size_t>(c)]; });
}

}  // namespace

float amax_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n) {
    const std::uint32_t top = largest_pattern(simd, pool, x, n);  // NaNs have the largest patterns
    return top > 0x7f800000u ? bit_cast<float>(0x7fc00000u) : bit_cast<float>(top);
}

bool any_nonfinite_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n) {
    return largest_pattern(simd, pool, x, n) >= 0x7f800000u;
}

ErrorSums compare_arrays(Simd simd, ThreadPool& pool, const float* x, const float* y, std::int64_t n,
                         float decode_scale) {
    std::atomic<std::uint64_t> finite = 0;
    const auto sums = sum_of_chunks<definition::ErrorTerms>(pool, n, [&](std::int64_t first, std::int64_t count) {
        std::uint64_t here = 0;
        const auto terms = kernels(simd).chunk_errors(x + first, y + first, count, decode_scale, here);
        finite += here;
        return terms;
    });
    return {.error2 = sums.error2, .x2 = sums.x2, .y2 = sums.y2, .xy = sums.xy, .count = finite};
}

void add_fidelity(Simd simd, const FidelityCast& cast, const float* x, const float* y, const float* codes,
                  std::int64_t n, FidelityFigures& figures) {
    kernels(simd).fidelity(cast, x, y, codes, n, figures);
}

namespace {

/// Counts a value whose exponent field is 0 or 255: a zero, a subnormal number, an infinity or a NaN. Ignores other
/// values.
void add_rare(float value, ExponentHistogram& sums) {
    const std::uint32_t magnitude = bit_cast<std::uint32_t>(value) & 0x7fffffffu;
    sums.zeros += magnitude == 0;
    sums.infinities += magnitude == 0x7f800000u;
    sums.nans += magnitude > 0x7f800000u;
    if (magnitude != 0 && magnitude < 0x800000u)
        ++sums.bins[static_cast<std::size_t>(definition::exponent_of(value) - sums.lowest)];
}

/// Returns the histogram of one task. Each value of the exponent field has four counters. With a single counter, each
/// increment in a run of equal exponents would have to wait for the previous increment.
ExponentHistogram block_exponents(const float* x, std::int64_t n) {
    std::uint32_t fields[4][256] = {};
    for (std::int64_t i = 0; i < n; ++i) ++fields[i & 3][(bit_cast<std::uint32_t>(x[i]) >> 23) & 0xff];
    const auto count = [&](int field) {
        return fields[0][field] + fields[1][field] + fields[2][field] + fields[3][field];
    };
    ExponentHistogram sums;
    for (int field = 1; field < 255; ++field)
        sums.bins[static_cast<std::size_t>(field - 127 - sums.lowest)] = count(field);
    if (count(0) + count(255) != 0) {
        for (std::int64_t i = 0; i < n; ++i) add_rare(x[i], sums);
    }
    return sums;
}

/// Returns the histogram of a short tensor, for which clearing and reading the counters of block_exponents() would take
/// longer than counting its values.
ExponentHistogram few_exponents(const float* x, std::int64_t n) {
    ExponentHistogram sums;
    for (std::int64_t i = 0; i < n; ++i) {
        const int field = static_cast<int>((bit_cast<std::uint32_t>(x[i]) >> 23) & 0xff);
        if (field == 0 || field == 255)
            add_rare(x[i], sums);
        else
            ++sums.bins[static_cast<std::size_t>(field - 127 - sums.lowest)];
    }
    return sums;
}

constexpr std::int64_t few = 512;

}  // namespace

ExponentHistogram exponents_array(Simd, ThreadPool& pool, const float* x, std::int64_t n) {
    if (n <= few) return few_exponents(x, n);
    ExponentHistogram total;
    std::mutex adding;
    pool.run((n + block - 1) / block, [&](std::int64_t b) {
        const ExponentHistogram here = block_exponents(x + b * block, std::min(block, n - b * block));
        const std::lock_guard lock(adding);
        for (std::size_t i = 0; i < total.bins.size(); ++i) total.bins[i] += here.bins[i];
        total.zeros += here.zeros;
        total.infinities += here.infinities;
        total.nans += here.nans;
    });
    return total;
}

float sum_of_squares_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n) {
    return definition::canonical(sum_of_chunks<float>(pool, n, [&](std::int64_t first, std::int64_t count) {
        return kernels(simd).chunk_squares(x + first, count);
    }));
}

}  // namespace macheps
#endif
