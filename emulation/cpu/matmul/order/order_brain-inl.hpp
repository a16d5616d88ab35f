// SPDX-License-Identifier: Apache-2.0
// Computes chains of bf16 fma without a branch for ties. The operands have at most eight significant bits and moderate
// magnitudes.
//
// A step rounds s + a b first to fp32 and then to bf16. The result can be wrong only if the first rounding is inexact
// and gives a tie: a number halfway between two bf16 numbers. Let p = a b, and let u be the unit in the last place of
// fp32 at the sum. p is an integer of at most 255^2 times a power of two, and s is an integer of at most 255 times a
// power of two. The first rounding is inexact only in these two cases:
//   p has bits below u:  s is a multiple of 2^16 u, so p must be within u / 2 of an odd multiple of 2^15 u. This
//                        requires that p is at least 65535 units of its last place, but it is at most 255^2 = 65025.
//   s has bits below u:  |s| is below 128 u, and p is a multiple of 128 u, or of 256 u if no carry makes u larger. Then
//                        p is the tie itself, and |s| is at most u / 2.
// So a wrong result requires 0 < |s| <= 2^-23 |p|. The columns of b are scaled so that all products are below 2^24.
// Therefore a step cannot be wrong if |s| is 2 or more. One exponent bit is set if and only if |s| is 2 or more. The
// code ANDs this bit over several steps. If the bit was clear in any sum, the code repeats these steps with BrainOrder,
// which checks for ties.
// Included once per SIMD target.
#include "emulation/cpu/matmul/order/order_tile-inl.hpp"

#include <cmath>
#include <limits>
#include <utility>

#if defined(MACHEPS_ORDER_BRAIN_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_ORDER_BRAIN_INL
#undef MACHEPS_ORDER_BRAIN_INL
#else
#define MACHEPS_ORDER_BRAIN_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Smallest nonzero magnitude and largest magnitude in an array of packed numbers.
struct OperandSizes {
    float least = 0, largest = 0;  ///< least is infinite if all numbers are zero
    bool are_finite = false;

    static OperandSizes of(const float* x, std::int64_t count) {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        F32 least{infinity}, largest, zeros;
        for (std::int64_t i = 0; i < count; i += lanes_of_vector) {
            const F32 size = abs(load_n(x + i, static_cast<std::size_t>(min_of(lanes_of_vector, count - i))));
            least = F32(hn::Min(least.v, select(size == F32(), F32(infinity), size).v));
            largest = F32(hn::Max(largest.v, size.v));
            zeros = zeros + size * F32();
        }
        alignas(64) float low[f32_lanes], high[f32_lanes], sums[f32_lanes];
        store(least, low);
        store(largest, high);
        store(zeros, sums);
        OperandSizes sizes{.least = infinity, .largest = 0, .are_finite = true};
        for (std::size_t l = 0; l < f32_lanes; ++l) {
            sizes.least = min_of(sizes.least, low[l]);
            sizes.largest = max_of(sizes.largest, high[l]);
            sizes.are_finite = sizes.are_finite && sums[l] == 0;
        }
        return sizes;
    }
    /// Returns true if the magnitudes are moderate. If this holds for both operands, no sum of products is subnormal or
    /// infinite, whether or not b is scaled.
    bool are_moderate() const {
        return are_finite && least >= 0x1p-50f && largest <= 0x1p50f && largest > 0 && largest * 0x1p-40f <= least;
    }
};

/// Returns the power of two by which the columns of b must be multiplied, or 0 if brain_tile() does not support the
/// operands.
inline float brain_scale(const OperandSizes& a, const OperandSizes& b) {
    if (!a.are_moderate() || !b.are_moderate()) return 0;
    constexpr int most = 24;
    return std::ldexp(1.0f, most - 2 - std::ilogb(a.largest) - std::ilogb(b.largest));
}

/// Adds one product to each sum. To round a sum with exponent e to eight significant bits, ties to even, the function
/// adds and subtracts 1.5 * 2^(e + 16). The bits of all sums are ANDed into `safe`, whose bit 0x40000000 stays set only
/// if all sums are 2 or more.
template <int... i>
HWY_INLINE void brain_step(const float* a, std::int64_t a_row, const float* b, F32* sum, I32& safe,
                           std::integer_sequence<int, i...>) {
    constexpr float by = 0x1.8p16f;
    const F32 columns[] = {load(b), load(b + lanes_of_vector)};
    const auto step = [&](F32 factor, F32 column, F32& s) HWY_ATTR {
        const F32 t = fma(factor, column, s), power = from_bits(bits(t) & I32(0x7f800000));
        s = fma(power, F32(-by), fma(power, F32(by), t));
    };
    (step(F32(a[i / 2 * a_row]), columns[i % 2], sum[i]), ...);
#if HWY_TARGET == HWY_AVX3
    constexpr int and_of_three = 0x80;
    const auto keep = [&](F32 x, F32 y) HWY_ATTR {
        safe = I32(hn::Vec<DI32>{_mm512_ternarylogic_epi32(safe.v.raw, bits(x).v.raw, bits(y).v.raw, and_of_three)});
    };
    ((i % 2 == 0 ? keep(sum[i], sum[i + 1 - i % 2]) : void()), ...);
#else
    ((safe = safe & bits(sum[i])), ...);
#endif
}

/// An OrderTile for columns of b that are scaled by brain_scale(). The sums begin with +0.
template <int rows>
HWY_NOINLINE void brain_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums) {
    constexpr std::int64_t batch = 16;
    constexpr int vectors = 2 * rows;
    const auto all = std::make_integer_sequence<int, vectors>();
    F32 sum[vectors], before[vectors];
    const auto place = [](int v) { return v / 2 * order_columns + v % 2 * lanes_of_vector; };
    // BrainOrder computes the next `with_care` batches. When a batch has an unsafe sum, `with_care` becomes `streak`,
    // and the batch is repeated as the first of them.
    int with_care = 0, streak = 1;
    for (std::int64_t p = 0; p < n; p += batch) {
        const std::int64_t count = min_of(batch, n - p);
        const float *x = a + p, *y = b + p * order_columns;
        if (with_care == 0) {
            for (int v = 0; v < vectors; ++v) before[v] = sum[v];
            I32 safe(-1);
            for (std::int64_t q = 0; q < count; ++q) brain_step(x + q, a_row, y + q * order_columns, sum, safe, all);
            if (HWY_LIKELY(!any((safe & I32(0x40000000)) == I32(0)))) {
                streak = 1;
                continue;
            }
            for (int v = 0; v < vectors; ++v) sum[v] = before[v];
            with_care = streak;
            streak = min_of(2 * streak, 8);
        }
        --with_care;
        for (int v = 0; v < vectors; ++v) {
            BrainOrder order{sum[v]};
            for (std::int64_t q = 0; q < count; ++q) {
                order.step(x + v / 2 * a_row + q, y + q * order_columns + v % 2 * lanes_of_vector, order_columns);
            }
            sum[v] = order.sum;
        }
    }
    for (int v = 0; v < vectors; ++v) store(sum[v], sums + place(v));
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
