// SPDX-License-Identifier: Apache-2.0
// Dot products of fp8 numbers with one rounding. fp64 holds the sum of the products exactly. Adding this sum to the
// addend rounds to odd, so that the final rounding is correct. Included once per SIMD target.
#include "emulation/cpu/matmul/machine/machine_step-inl.hpp"
#include "emulation/cpu/matmul/order/order_step-inl.hpp"

#if defined(MACHEPS_ORDER_DOT8_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_ORDER_DOT8_INL
#undef MACHEPS_ORDER_DOT8_INL
#else
#define MACHEPS_ORDER_DOT8_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Returns x + y rounded to odd. A sum of two zeros is +0 unless both are -0.
HWY_INLINE F64 odd_add(F64 x, F64 y) {
#if HWY_TARGET == HWY_AVX3
    const __m512d down = _mm512_add_round_pd(x.v.raw, y.v.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    const __m512d up = _mm512_add_round_pd(x.v.raw, y.v.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
    const __mmask8 is_odd = _mm512_test_epi64_mask(_mm512_castpd_si512(down), _mm512_set1_epi64(1));
    return F64(hn::Vec<DF64>{_mm512_mask_blend_pd(is_odd, up, down)});
#else
    const hn::RebindToSigned<DF64> di;
    const F64 s = x + y, other = s - x, error = (x - (s - other)) + (y - other);
    const auto word = hn::BitCast(di, s.v), of_error = hn::BitCast(di, error.v);
    // `s` is rounded to nearest. To round to odd instead, |s| is decreased by one unit in the last place if it is above
    // the exact |x + y|, and then the last bit is set if s is inexact. If s is infinite, the error is NaN and the
    // result is s.
    const auto below = hn::Lt(hn::Xor(word, of_error), hn::Zero(di));
    const auto cut = hn::Or(hn::IfThenElse(below, hn::Sub(word, hn::Set(di, 1)), word), hn::Set(di, 1));
    const M64 inexact{hn::Or(hn::Lt(error.v, F64().v), hn::Gt(error.v, F64().v))};
    return select(inexact, F64(hn::BitCast(DF64(), cut)), s);
#endif
}

/// Rounds x to odd, to the 24 significant bits of fp32. The exponent of x must be in the range of fp32.
HWY_INLINE F64 odd_in_float(F64 x) {
    const hn::RebindToSigned<DF64> di;
    constexpr std::int64_t unit = std::int64_t{1} << 29;
    const auto word = hn::BitCast(di, x.v), kept = hn::And(word, hn::Set(di, -unit));
    return select(M64{hn::RebindMask(DF64(), hn::Eq(word, kept))}, x,
                  F64(hn::BitCast(DF64(), hn::Or(kept, hn::Set(di, unit)))));
}

/// The Arm instructions FP8DOT2 (fp16 results, count = 2) and FP8DOT4 (fp32 results, count = 4). If both operands are
/// e5m2, some sums of products do not fit in fp64. FP8DOT4 must not be used then. FP8DOT2 stays correct, because sums
/// that do not fit in fp64 are beyond the range of fp16.
template <int count>
struct Dot8Order {
    static constexpr int terms = count;
    F32 sum;
    HWY_INLINE void step(const float* a, const float* b, std::int64_t b_step) {
        F64 low, high;
        for (int t = 0; t < count; ++t) {
            const F64 x(static_cast<double>(a[t]));
            const F32 y = load(b + t * b_step);
            low = fma(x, promote_lower(y), low);
            high = fma(x, promote_upper(y), high);
        }
        // The sum of the products is never -0, so adding it to `sum` never gives -0.
        if constexpr (count == 2) {
            sum = through_half(demote(odd_in_float(low + promote_lower(sum)), odd_in_float(high + promote_upper(sum))));
        } else {
            sum = demote(odd_add(low, promote_lower(sum)), odd_add(high, promote_upper(sum)));
        }
    }
    HWY_INLINE F32 value() const { return sum; }
};

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
