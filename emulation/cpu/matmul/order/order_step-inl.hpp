// SPDX-License-Identifier: Apache-2.0
// Steps of the sums that the order kernels compute. A step adds `terms` packed products to one vector of accumulators,
// for one row of a and one vector of columns of b. Included once per SIMD target.
#include "emulation/cpu/matmul/parts-inl.hpp"
#include "emulation/machine/step.hpp"

#include <immintrin.h>

#if defined(MACHEPS_ORDER_STEP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_ORDER_STEP_INL
#undef MACHEPS_ORDER_STEP_INL
#else
#define MACHEPS_ORDER_STEP_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

// --- rounding to odd

#if HWY_TARGET == HWY_AVX3
/// Returns the result rounded to odd, given the result rounded down and rounded up. If the result is inexact, returns
/// either `down` or `up`: the number whose last bit is set. If the result is exact, `down` and `up` are equal, except
/// that an exact difference of zero returns `up`, which is +0.
HWY_INLINE F32 odd_neighbour(__m512 down, __m512 up) {
    const __mmask16 is_odd = _mm512_test_epi32_mask(_mm512_castps_si512(down), _mm512_set1_epi32(1));
    return F32(hn::Vec<DF32>{_mm512_mask_blend_ps(is_odd, up, down)});
}
HWY_INLINE F32 odd_fma(F32 a, F32 b, F32 c) {
    return odd_neighbour(_mm512_fmadd_round_ps(a.v.raw, b.v.raw, c.v.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC),
                         _mm512_fmadd_round_ps(a.v.raw, b.v.raw, c.v.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC));
}
#endif

/// Rounds fp32 to bf16, nearest even, and returns the result as fp32. The low 16 bits of a NaN must be 0.
HWY_INLINE F32 through_bf16(F32 x) {
    const I32 word = bits(x);
    return from_bits((word + I32(0x7fff) + (shift_right_logical(word, 16) & I32(1))) & I32(-0x10000));
}

/// Returns `t`, except that the lanes in `wrong` are replaced by round(a b + c), which the scalar definition computes.
HWY_NOINLINE inline F32 defined_lanes(const Format& format, M32 wrong, F32 a, F32 b, F32 c, F32 t) {
    alignas(64) float x[f32_lanes], y[f32_lanes], z[f32_lanes], out[f32_lanes], is_wrong[f32_lanes];
    store(a, x);
    store(b, y);
    store(c, z);
    store(t, out);
    store(select(wrong, F32(1.0f), F32()), is_wrong);
    for (std::size_t i = 0; i < f32_lanes; ++i) {
        if (is_wrong[i] == 0) continue;
        const std::uint64_t code = encode64(format, z[i], Round::nearest_even, Overflow::nonsaturate);
        out[i] = decode(format, matrix_unit::round_fma(format, x[i], y[i], code));
    }
    return load(out);
}

// --- steps. The first data member is the accumulator: it is initialised with the start value of the chain, and value()
// returns the result. `a` points to the next `terms` terms of a row, and `b` points to the next `terms` terms of a
// vector of columns. Consecutive terms of b are b_step elements apart.

/// An fma in fp32. If MXCSR's flush modes are on, this is the fma of VDPBF16PS and of AMX.
struct FmaOrder {
    static constexpr int terms = 1;
    F32 sum;
    HWY_INLINE void step(const float* a, const float* b, std::int64_t) { sum = fma(F32(*a), load(b), sum); }
    HWY_INLINE F32 value() const { return sum; }
};

/// An fma rounded to bf16. The step rounds to fp32 and then to bf16. The result can be wrong only if the fp32 number is
/// a tie: a number halfway between two bf16 numbers.
struct BrainOrder {
    static constexpr int terms = 1;
    F32 sum;
    HWY_INLINE void step(const float* a, const float* b, std::int64_t) {
        const F32 x(*a), y = load(b), t = fma(x, y, sum);
#if HWY_TARGET == HWY_AVX3
        const __m512i word = bits(t).v.raw;
        const __mmask32 halves = _mm512_cmpeq_epi16_mask(word, _mm512_set1_epi32(0x8000));
        if (HWY_UNLIKELY((halves & 0x55555555u) != 0)) {
            sum = through_bf16(odd_fma(x, y, sum));
            return;
        }
#else
        const M32 ties = (bits(t) & I32(0xffff)) == I32(0x8000);
        if (HWY_UNLIKELY(any(ties))) {
            sum = defined_lanes(bf16, ties, x, y, sum, through_bf16(t));
            return;
        }
#endif
        sum = from_bits((bits(t) + I32(0x8000)) & I32(-0x10000));
    }
    HWY_INLINE F32 value() const { return sum; }
};

/// An fma rounded to fp16, in the same way as BrainOrder rounds to bf16. In the subnormal range of fp16, a tie has more
/// trailing zeros than the bit pattern for which the code tests. Therefore every nonzero result in that range is
/// treated as a tie.
struct HalfOrder {
    static constexpr int terms = 1;
    F32 sum;
    HWY_INLINE void step(const float* a, const float* b, std::int64_t) {
        const F32 x(*a), y = load(b), t = fma(x, y, sum);
        const M32 ties = ((bits(t) & I32(0x1fff)) == I32(0x1000)) | ((abs(t) < F32(0x1p-14f)) & !(t == F32()));
        if (HWY_UNLIKELY(any(ties))) {
#if HWY_TARGET == HWY_AVX3
            sum = through_half(odd_fma(x, y, sum));
#else
            sum = defined_lanes(fp16, ties, x, y, sum, through_half(t));
#endif
            return;
        }
        sum = through_half(t);
    }
    HWY_INLINE F32 value() const { return sum; }
};

/// A product rounded to fp32, which is then added to the sum with a second rounding.
struct UnfusedOrder {
    static constexpr int terms = 1;
    F32 sum;
    HWY_INLINE void step(const float* a, const float* b, std::int64_t) { sum = sum + F32(*a) * load(b); }
    HWY_INLINE F32 value() const { return sum; }
};

/// Kahan's compensated sum of rounded products.
struct KahanOrder {
    static constexpr int terms = 1;
    F32 sum, error{};
    HWY_INLINE void step(const float* a, const float* b, std::int64_t) {
        const F32 y = F32(*a) * load(b) - error, t = sum + y;
        error = (t - sum) - y;
        sum = t;
    }
    HWY_INLINE F32 value() const { return sum; }
};

/// The AMX units. A step adds the even and the odd products of `tile` terms in two separate chains, then adds the two
/// chains, and adds the result to the accumulator. With `joined` == 2 (fp8), two adjacent products are added first and
/// count as one product.
template <int tile, int joined>
struct PartedOrder {
    static constexpr int terms = tile;
    F32 sum;
    HWY_INLINE void step(const float* a, const float* b, std::int64_t b_step) {
        F32 even, odd;
        for (int i = 0; i < tile; i += 2 * joined, a += 2 * joined, b += 2 * joined * b_step) {
            if constexpr (joined == 1) {
                even = fma(F32(a[0]), load(b), even);
                odd = fma(F32(a[1]), load(b + b_step), odd);
            } else {
                // A product of fp8 numbers is exact in fp32, so the fma rounds the sum of two products once.
                even = even + fma(F32(a[1]), load(b + b_step), F32(a[0]) * load(b));
                odd = odd + fma(F32(a[3]), load(b + 3 * b_step), F32(a[2]) * load(b + 2 * b_step));
            }
        }
        sum = sum + (even + odd);
    }
    HWY_INLINE F32 value() const { return sum; }
};

/// Replaces subnormal numbers by zeros of the same sign.
HWY_INLINE F32 flushed(F32 x) {
    const M32 small = abs(x) < F32(0x1p-126f);
    return select(small, from_bits(bits(x) & I32(-0x7fffffff - 1)), x);
}

/// Returns x + y rounded to odd. A subnormal result becomes a zero, and an overflow gives infinity.
HWY_INLINE F32 odd_flushed_sum(F32 x, F32 y) {
    const F32 s = x + y, other = s - x, error = (x - (s - other)) + (y - other);
    // `s` is rounded to nearest. To round to odd instead, |s| is decreased by one unit in the last place if it is above
    // the exact |x + y|, and then the last bit is set if s is inexact.
    const I32 word = bits(s);
    const M32 inexact = !(error == F32()) & (error == error);
    const M32 below = (bits(error) ^ word) < I32(0);
    const I32 cut = select(below, word - I32(1), word) | I32(1);
    F32 result = select(inexact, from_bits(cut), s);
    // An exact sum above the largest finite number becomes infinity. If s is already infinite, the error is NaN and the
    // result is s.
    const M32 over = inexact & (bits(abs(s)) == I32(0x7f7fffff)) & !below;
    result = select(over, from_bits((word & I32(-0x7fffffff - 1)) | I32(0x7f800000)), result);
    return flushed(result);
}

/// The Arm instruction BFDOT: rounds both products, their sum, and the sum with C to odd. A product of bf16 numbers is
/// exact in fp32 unless it overflows or is flushed.
struct OddPairsOrder {
    static constexpr int terms = 2;
    F32 sum;
    HWY_INLINE static F32 product(F32 x, F32 y) {
        const F32 p = x * y;
        return flushed(p);
    }
    HWY_INLINE void step(const float* a, const float* b, std::int64_t b_step) {
        const F32 first = product(F32(a[0]), load(b)), second = product(F32(a[1]), load(b + b_step));
        sum = odd_flushed_sum(sum, odd_flushed_sum(first, second));
    }
    HWY_INLINE F32 value() const { return sum; }
};

/// Adds two products with one rounding, then adds the result to the accumulator. fp64 holds each product exactly. The
/// sum of the two products is rounded to fp64 and then to fp32. This double rounding can be wrong only below 2^-120,
/// where the scalar definition computes the sum.
struct PairThenAddOrder {
    static constexpr int terms = 2;
    F32 sum;
    HWY_INLINE void step(const float* a, const float* b, std::int64_t b_step) {
        const F32 b0 = load(b), b1 = load(b + b_step);
        const F64 x(static_cast<double>(a[0])), y(static_cast<double>(a[1]));
        const F64 low = fma(y, promote_lower(b1), x * promote_lower(b0));
        const F64 high = fma(y, promote_upper(b1), x * promote_upper(b0));
        F32 pair = demote(low, high);
        const M32 tiny = (abs(pair) < F32(0x1p-120f)) & (abs(F32(a[0]) * b0) + abs(F32(a[1]) * b1) < F32(0x1p-90f));
        if (HWY_UNLIKELY(any(tiny))) pair = defined_pairs(tiny, a[0], a[1], b0, b1, pair);
        sum = sum + pair;
    }
    HWY_INLINE F32 value() const { return sum; }

  private:
    HWY_NOINLINE static F32 defined_pairs(M32 tiny, float a0, float a1, F32 b0, F32 b1, F32 pair) {
        alignas(64) float x[f32_lanes], y[f32_lanes], out[f32_lanes], is_tiny[f32_lanes];
        store(b0, x);
        store(b1, y);
        store(pair, out);
        store(select(tiny, F32(1.0f), F32()), is_tiny);
        for (std::size_t i = 0; i < f32_lanes; ++i) {
            if (is_tiny[i] == 0) continue;
            const double first = static_cast<double>(a0) * x[i], second = static_cast<double>(a1) * y[i];
            if (first == 0 && second == 0) continue;
            out[i] = decode(
                fp32, encode64(fp32, matrix_unit::odd_sum(first, second), Round::nearest_even, Overflow::nonsaturate));
        }
        return load(out);
    }
};

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
