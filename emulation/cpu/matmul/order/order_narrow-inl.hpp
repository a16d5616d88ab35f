// SPDX-License-Identifier: Apache-2.0
// Computes chains of fp16 fma in tiles of several vectors. Each sum is rounded to fp32 and then to fp16. The result can
// be wrong only if the fp32 number is a tie: a number halfway between two fp16 numbers. Adding half a unit of fp16
// turns the dropped bits of a tie into zeros. Therefore, one comparison of the smallest dropped bits finds the ties in
// a whole group of vectors. Included once per SIMD target.
#include "emulation/cpu/matmul/order/order_step-inl.hpp"

#include <utility>

#if defined(MACHEPS_ORDER_NARROW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_ORDER_NARROW_INL
#undef MACHEPS_ORDER_NARROW_INL
#else
#define MACHEPS_ORDER_NARROW_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// fp16 sums, stored as fp32 and scaled by 2^-112. The scale maps the subnormal numbers of fp16 to subnormal numbers of
/// fp32, so rounding always drops 13 bits. An overflow of fp16 is detected by the magnitude of the sum. The columns of
/// b must be scaled by the same factor.
struct HalfSums {
    static constexpr std::int32_t half_unit = 0x1000, kept = -0x2000;
    static constexpr float unscale = 0x1p112f, overflow = 65520 / unscale;  // 65520: fp16's maximum plus half a unit
    struct Seen {
        I32 least;
        F32 largest;
        HWY_INLINE Seen() : least(-1) {}
        /// Records `sum` and `s`, where `s` is the bit pattern of `sum` plus half a unit.
        HWY_INLINE void observe(F32 sum, I32 s) {
            const I32 dropped = s & I32(0x1fff);
#if HWY_TARGET == HWY_AVX3
            least = I32(hn::Vec<DI32>{_mm512_min_epu32(least.v.raw, dropped.v.raw)});
            // VRANGE ignores a quiet NaN, but a signalling NaN would replace the maximum so far. If `sum` is infinite,
            // the bit pattern `s` is a signalling NaN, so VRANGE reads `sum` instead of `s`.
            constexpr int largest_magnitude = 0b1011;
            largest = F32(hn::Vec<DF32>{_mm512_range_ps(largest.v.raw, sum.v.raw, largest_magnitude)});
#else
            least = I32(hn::Vec<DI32>{_mm256_min_epu32(least.v.raw, dropped.v.raw)});
            largest = F32(hn::Max(abs(sum).v, largest.v));  // on x86, the second operand if the first is NaN
#endif
        }
        /// Returns true if a sum of the group may need careful(). An infinite sum does not need it, but it hides a
        /// large finite sum in `largest`, so the result is true in this case as well.
        HWY_INLINE bool needs_care() const { return any((least == I32(0)) | !(largest < F32(overflow))); }
    };
    /// Returns true if a sum of one vector needs careful(). An infinite sum does not.
    HWY_INLINE static bool needs_care(F32 sum, I32 s) {
        const F32 size = abs(sum);
        return any(((s & I32(0x1fff)) == I32(0)) | ((size >= F32(overflow)) & (size < from_bits(I32(0x7f800000)))));
    }
    HWY_NOINLINE static F32 careful(float a, const float* b, F32 sum) {
        alignas(64) float columns[f32_lanes];
        store(load(b) * F32(unscale), columns);
        HalfOrder order{sum * F32(unscale)};
        order.step(&a, columns, 0);
        return order.sum * F32(1 / unscale);
    }
};

/// Adds one product to each sum of a group of rows. Each row has two vectors of sums.
template <class Sums, int... v>
HWY_INLINE void narrow_step(const float* a, std::int64_t a_row, const float* b, F32* sum,
                            std::integer_sequence<int, v...>) {
    const F32 columns[] = {load(b), load(b + lanes_of_vector)};
    const I32 half_unit(Sums::half_unit);
    const F32 sums[] = {fma(F32(a[v / 2 * a_row]), columns[v % 2], sum[v])...};
    const I32 s[] = {(bits(sums[v]) + half_unit)...};
    typename Sums::Seen seen;
    (seen.observe(sums[v], s[v]), ...);
    if (HWY_UNLIKELY(seen.needs_care())) {
        ((sum[v] = Sums::needs_care(sums[v], s[v])
                       ? Sums::careful(a[v / 2 * a_row], b + v % 2 * lanes_of_vector, sum[v])
                       : from_bits(s[v] & I32(Sums::kept))),
         ...);
    } else {
        ((sum[v] = from_bits(s[v] & I32(Sums::kept))), ...);
    }
}

/// An OrderTile (order_tile-inl.hpp).
template <class Sums, int rows>
HWY_NOINLINE void narrow_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums) {
    constexpr std::int64_t columns = 2 * lanes_of_vector;
    constexpr int pairs = rows / 2;
    F32 sum[2 * rows];
    for (int v = 0; v < 2 * rows; ++v) {
        sum[v] = load(sums + v / 2 * columns + v % 2 * lanes_of_vector) * F32(1 / Sums::unscale);
    }
    for (std::int64_t p = 0; p < n; ++p, ++a, b += columns) {
        if constexpr (pairs > 0) narrow_step<Sums>(a, a_row, b, sum, std::make_integer_sequence<int, 4>());
        if constexpr (pairs > 1)
            narrow_step<Sums>(a + 2 * a_row, a_row, b, sum + 4, std::make_integer_sequence<int, 4>());
        if constexpr (rows % 2 != 0) {
            narrow_step<Sums>(a + 2 * pairs * a_row, a_row, b, sum + 4 * pairs, std::make_integer_sequence<int, 2>());
        }
    }
    for (int v = 0; v < 2 * rows; ++v) {
        store(sum[v] * F32(Sums::unscale), sums + v / 2 * columns + v % 2 * lanes_of_vector);
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
