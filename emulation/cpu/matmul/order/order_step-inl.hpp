// SPDX-License-Identifier: Apache-2.0
// One step of each chain that is neither fp32.chain nor a fused step with exponents. A step adds `terms` packed terms
// to the accumulators of a row and a vector of columns. Included once per target.
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
/// Returns the odd one of `down` and `up`, the two neighbours of an inexact result. Both are the result if it is exact.
/// If an exact difference is zero, it is `up`, +0.
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

/// Returns `t` with the lanes of `wrong` replaced by round(a b + c), computed by the definition.
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

// --- steps. The first member is the start value of a chain, and value() is its result. `a` and `b` point to the first
// of `terms` terms of a row and of a vector of columns. The terms of b are b_step apart.

/// An fma in fp32. With MXCSR's flush modes on, it is the fma of VDPBF16PS and of AMX.
struct FmaOrder {
    static constexpr int terms = 1;
    F32 sum;
    HWY_INLINE void step(const float* a, const float* b, std::int64_t) { sum = fma(F32(*a), load(b), sum); }
    HWY_INLINE F32 value() const { return sum; }
};

/// An fma rounded to bf16. Rounding twice, to fp32 first, can be wrong only if the fp32 result is a tie.
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

/// An fma rounded to fp16, in the same way. Below fp16's normal numbers, a tie can end in more zeros, so every nonzero
/// result there is treated as a tie.
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

/// A rounded product, which is then added and rounded again.
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

/// AMX: adds the even and the odd products of `tile` terms in two separate chains, then adds these to each other and to
/// the sum. With `joined` == 2 (fp8), two products are added first and count as one.
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
                // A product of fp8 is exact, so one fma rounds the sum of two once.
                even = even + fma(F32(a[1]), load(b + b_step), F32(a[0]) * load(b));
                odd = odd + fma(F32(a[3]), load(b + 3 * b_step), F32(a[2]) * load(b + 2 * b_step));
            }
        }
        sum = sum + (even + odd);
    }
    HWY_INLINE F32 value() const { return sum; }
};

/// Replaces subnormal numbers by zeros of their sign.
HWY_INLINE F32 flushed(F32 x) {
    const M32 small = abs(x) < F32(0x1p-126f);
    return select(small, from_bits(bits(x) & I32(-0x7fffffff - 1)), x);
}

/// Returns x + y rounded to odd and flushed. An overflow gives infinity.
HWY_INLINE F32 odd_flushed_sum(F32 x, F32 y) {
    const F32 s = x + y, other = s - x, error = (x - (s - other)) + (y - other);
    // If |x + y| is below |s|, the result is one unit less. The last bit of an inexact result is set.
    const I32 word = bits(s);
    const M32 inexact = !(error == F32()) & (error == error);
    const M32 below = (bits(error) ^ word) < I32(0);
    const I32 cut = select(below, word - I32(1), word) | I32(1);
    F32 result = select(inexact, from_bits(cut), s);
    // A sum beyond the largest number becomes infinity. If s is infinite, the error is NaN, and the result is s.
    const M32 over = inexact & (bits(abs(s)) == I32(0x7f7fffff)) & !below;
    result = select(over, from_bits((word & I32(-0x7fffffff - 1)) | I32(0x7f800000)), result);
    return flushed(result);
}

/// BFDOT: rounds both products, their sum and the sum with C to odd. A product of bf16 is exact in fp32 unless it
/// overflows or is flushed.
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

/// Adds two products with one rounding, then the result to the sum. fp64 holds the products exactly. Rounding their sum
/// to fp64 before fp32 can be wrong only below 2^-120, where the definition computes it.
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
