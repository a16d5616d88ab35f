// SPDX-License-Identifier: Apache-2.0
// One fused step of a matrix unit on a row of a and the columns of a panel, one output per lane. Included once per
// target. On AVX2 the caller sets the rounding mode: int32 to fp32 must cut, and everything else here is exact.
#include "emulation/cpu/matmul/machine_pack-inl.hpp"

#include <immintrin.h>

#if defined(MACHEPS_MACHINE_STEP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_MACHINE_STEP_INL
#undef MACHEPS_MACHINE_STEP_INL
#else
#define MACHEPS_MACHINE_STEP_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

// --- conversions that Highway has not, or wraps in a range check that would cost half the speed of the term loop

/// Toward zero; meaningless out of range.
HWY_INLINE I32 cut_to_int(F32 x) {
#if HWY_TARGET == HWY_AVX3
    return I32(hn::Vec<DI32>{_mm512_cvttps_epi32(x.v.raw)});
#else
    return I32(hn::Vec<DI32>{_mm256_cvttps_epi32(x.v.raw)});
#endif
}

/// Toward zero (on AVX2 by the rounding mode that is set).
HWY_INLINE F32 cut_to_float(I32 x) {
#if HWY_TARGET == HWY_AVX3
    return F32(hn::Vec<DF32>{_mm512_cvt_roundepi32_ps(x.v.raw, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)});
#else
    return F32(hn::Vec<DF32>{_mm256_cvtepi32_ps(x.v.raw)});
#endif
}

/// The same from two halves of fp64.
HWY_INLINE F32 cut_to_float(F64 lower, F64 upper) {
    const hn::Half<DF32> half;
    using H = hn::Vec<decltype(half)>;
#if HWY_TARGET == HWY_AVX3
    const H low{_mm512_cvt_roundpd_ps(lower.v.raw, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
    const H high{_mm512_cvt_roundpd_ps(upper.v.raw, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
#else
    const H low{_mm256_cvtpd_ps(lower.v.raw)}, high{_mm256_cvtpd_ps(upper.v.raw)};
#endif
    return F32(hn::Combine(DF32(), high, low));
}

HWY_INLINE F64 cut_to_whole(F64 x) { return F64(hn::Trunc(x.v)); }

/// To fp16 and back, nearest even.
HWY_INLINE F32 through_half(F32 x) {
#if HWY_TARGET == HWY_AVX3
    const __m256i h = _mm512_cvtps_ph(x.v.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return F32(hn::Vec<DF32>{_mm512_cvtph_ps(h)});
#else
    const __m128i h = _mm256_cvtps_ph(x.v.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return F32(hn::Vec<DF32>{_mm256_cvtph_ps(h)});
#endif
}

/// Rounds toward zero while it lives: the mode that AVX2's conversions take from the control register.
class CutMode {
  public:
    CutMode() : before_(_mm_getcsr()) {
        if (HWY_TARGET != HWY_AVX3) _mm_setcsr((before_ & ~0x6000u) | 0x6000u);
    }
    ~CutMode() {
        if (HWY_TARGET != HWY_AVX3) _mm_setcsr(before_);
    }
    CutMode(const CutMode&) = delete;
    CutMode& operator=(const CutMode&) = delete;

  private:
    unsigned before_;
};

// --- a step

/// Operands of one step: `terms` products per column.
template <class E>
struct StepOperands {
    const float* a = nullptr;  ///< [terms]
    const E* a_exponent = nullptr;
    const float* b = nullptr;  ///< [terms, machine_columns]
    const E* b_exponent = nullptr;
    // Block scales, for machines that have them: of this row [count] and of the columns [count, machine_columns].
    const float* a_scale = nullptr;
    const std::int32_t* a_scale_exponent = nullptr;
    const float* b_scale = nullptr;
    const std::int32_t* b_scale_exponent = nullptr;
};

/// Exponents within which the fast path is exact; beyond them a lane is computed by the definition.
inline constexpr int least_exponent = -100, most_exponent = 120;
/// Sums of scales' exponents beyond these hold a zero or a NaN (see PackedScale).
inline constexpr int zero_threshold = -5000, nan_threshold = 5000;

/// Largest stored exponent of products [0, terms) in every column, for `rows` rows of a that lie `stride` apart. Where
/// all products are zero it is so low that no addend's is lower. A pass of its own: within one row it would be a chain
/// of maxima that the term loop waits for.
template <int terms, class E>
HWY_INLINE void largest_exponents(const E* a, std::int64_t stride, std::int64_t rows, const E* b, E* out) {
    const hn::ScalableTag<E> d;
    constexpr std::int64_t lanes = machine_columns / static_cast<std::int64_t>(sizeof(E));
    const auto finish = [&](auto top) HWY_ATTR {
        if (sizeof(E) == 1) return hn::IfThenElse(hn::MaskFromVec(hn::BroadcastSignBit(top)), hn::Set(d, E{-128}), top);
        return top;
    };
    for (std::int64_t j = 0; j < machine_columns; j += lanes) {
        const E* x = a;
        std::int64_t r = 0;
        for (; r + 4 <= rows; r += 4, x += 4 * stride) {
            const E *x1 = x + stride, *x2 = x + 2 * stride, *x3 = x + 3 * stride;
            auto e = hn::LoadU(d, b + j);
            auto t0 = hn::Add(e, hn::Set(d, x[0])), t1 = hn::Add(e, hn::Set(d, x1[0]));
            auto t2 = hn::Add(e, hn::Set(d, x2[0])), t3 = hn::Add(e, hn::Set(d, x3[0]));
            for (int t = 1; t < terms; ++t) {
                e = hn::LoadU(d, b + t * machine_columns + j);
                t0 = hn::Max(t0, hn::Add(e, hn::Set(d, x[t])));
                t1 = hn::Max(t1, hn::Add(e, hn::Set(d, x1[t])));
                t2 = hn::Max(t2, hn::Add(e, hn::Set(d, x2[t])));
                t3 = hn::Max(t3, hn::Add(e, hn::Set(d, x3[t])));
            }
            E* to = out + r * machine_columns + j;
            hn::Store(finish(t0), d, to);
            hn::Store(finish(t1), d, to + machine_columns);
            hn::Store(finish(t2), d, to + 2 * machine_columns);
            hn::Store(finish(t3), d, to + 3 * machine_columns);
        }
        for (; r < rows; ++r, x += stride) {
            auto top = hn::Add(hn::LoadU(d, b + j), hn::Set(d, x[0]));
            for (int t = 1; t < terms; ++t) {
                top = hn::Max(top, hn::Add(hn::LoadU(d, b + t * machine_columns + j), hn::Set(d, x[t])));
            }
            hn::Store(finish(top), d, out + r * machine_columns + j);
        }
    }
}

template <class E>
HWY_INLINE I32 widened(const E* exponents) {
    const hn::Rebind<E, DI32> part;
    return I32(hn::PromoteTo(DI32(), hn::LoadU(part, exponents)));
}

HWY_INLINE std::uint64_t mask_bits(M32 m) {
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(DF32(), m.m, bytes);
    return bytes[0] | static_cast<std::uint64_t>(bytes[1]) << 8;
}

HWY_INLINE M32 not_finite(F32 x) { return (bits(x) & I32(0x7f800000)) == I32(0x7f800000); }

/// An addend that no nonzero product joins, delivered: cut or unchanged, zero as +0.
HWY_INLINE F32 deliver_addend(const MachinePlan& plan, F32 c) {
    const bool narrow = plan.rule.delivery == Delivery::e8m13_toward_zero;
    const F32 kept = select(not_finite(c), c, narrow ? from_bits(bits(c) & I32(~0x3ff)) : c);
    return select(kept == F32(0.0f), F32(0.0f), kept);
}

/// Lanes of `mask` by the definition: `column` is the first lane's, `c` the addends.
template <class E>
HWY_NOINLINE void redo_lanes(const MachinePlan& plan, const StepOperands<E>& x, std::uint64_t mask, std::int64_t column,
                             const float* c, float* d) {
    Factor a[64], b[64], alpha[4], beta[4];
    for (int t = 0; t < plan.terms; ++t) a[t] = factor_of_value(plan.a_format, x.a[t]);
    for (; mask != 0; mask &= mask - 1) {
        const std::int64_t j = column + __builtin_ctzll(mask);
        for (int t = 0; t < plan.terms; ++t) b[t] = factor_of_value(plan.b_format, x.b[t * machine_columns + j]);
        for (int s = 0; s < plan.scale_count; ++s) {
            alpha[s] = definition::scale_factor(plan.scale, x.a_scale[s]);
            beta[s] = definition::scale_factor(plan.scale, x.b_scale[s * machine_columns + j]);
        }
        const std::uint64_t bits = matrix_step(
            plan.rule, a, b, plan.terms, encode(plan.rule.addend, c[j], Round::nearest_even, Overflow::nonsaturate),
            {alpha, beta, plan.scale_count});
        d[j] = decode(matrix_unit::delivered_format(plan.rule.delivery), bits);
    }
}

/// Lanes of `beyond` in vector v, out of the fast range: where `kept` the addend is delivered, the rest is left to the
/// definition.
template <class E>
HWY_INLINE F32 settle(const MachinePlan& plan, const StepOperands<E>& x, M32 beyond, M32 kept, int v, const float* c,
                      F32 d) {
    d = select(kept & beyond, deliver_addend(plan, load(c + v * lanes_of_vector)), d);
    const std::uint64_t slow = mask_bits(beyond & !kept);
    if (slow == 0) return d;
    alignas(64) float lane[machine_columns];
    store(d, lane + v * lanes_of_vector);
    redo_lanes(plan, x, slow, v * lanes_of_vector, c, lane);
    return load(lane + v * lanes_of_vector);
}

/// Exponent field of an fp32 number.
HWY_INLINE I32 exponent_field(F32 x) { return shift_right_logical(bits(x) << 1, 24); }

/// 2^exponent, for exponents that a normal fp32 number has.
HWY_INLINE F32 power_of_two(I32 exponent) { return from_bits((exponent + I32(127)) << 23); }

/// 2^exponent or, below that, the least normal number.
HWY_INLINE F32 power_of_two_or_least(I32 exponent) {
    return from_bits(I32(hn::Max((exponent + I32(127)).v, I32(1).v)) << 23);
}

/// S * unit in the delivered format, for sums whose unit is in the fast range.
template <Delivery delivery>
HWY_INLINE F32 deliver_sum(I32 sum, F32 unit) {
    F32 r = cut_to_float(sum);
    if constexpr (delivery == Delivery::e8m13_toward_zero) r = from_bits(bits(r) & I32(~0x3ff));
    if constexpr (delivery == Delivery::fp16_nearest_even) {
        // Rounding to odd first makes the second rounding harmless.
        r = select(cut_to_int(r) == sum, r, from_bits(bits(r) | I32(1)));
        return through_half(r * unit);
    }
    return r * unit;
}

/// The sign bit is set where x + y = sum wrapped around: its sign is that of neither.
HWY_INLINE I32 wrap_sign(I32 x, I32 y, I32 sum) { return (x ^ sum) & (y ^ sum); }

/// T-FDPA and, with `scaled`, ST-FDPA on machine_columns columns: c becomes D. `halves` == 2: sums of more than 16
/// products of F = 25, in two accumulators.
template <class E, int terms, int halves, bool scaled, Delivery delivery>
HWY_INLINE void truncated_row(const MachinePlan& plan, const StepOperands<E>& x, const E* largest, float* c) {
    constexpr std::int64_t lanes = lanes_of_vector;
    const int fraction = plan.rule.fraction_bits;
    const I32 base(plan.a_base + plan.b_base + 127), shift_field(fraction + 254);

    // Exponents are biased by 127 here.
    F32 scale[4], product_scale[4];
    I32 exponent[4];
    for (int v = 0; v < 4; ++v) {
        I32 e = widened(largest + v * lanes) + base, block(0);
        if constexpr (scaled) {
            block = I32(x.a_scale_exponent[0]) + load(x.b_scale_exponent + v * lanes);
            e = select(widened(largest + v * lanes) < I32(0), e, e + block);
            e = select(block > I32(nan_threshold), block, e);
        }
        // A zero or subnormal addend counts as -127 instead of what the unit reads: that matters out of the fast range
        // only, but with fp16 addends.
        I32 ec = exponent_field(load(c + v * lanes));
        if constexpr (delivery == Delivery::fp16_nearest_even) {
            ec = select(ec == I32(0), I32(plan.rule.zero_exponent + 127), I32(hn::Max(ec.v, I32(127 - 14).v)));
        }
        exponent[v] = I32(hn::Max(e.v, ec.v));
        scale[v] = from_bits((shift_field - exponent[v]) << 23);
        product_scale[v] = scaled ? power_of_two_or_least(I32(fraction + 127) - exponent[v] + block) : scale[v];
    }

    I32 s0, s1, s2, s3, h0, h1, h2, h3;
    const auto add_terms = [&](int first, int last, I32& t0, I32& t1, I32& t2, I32& t3) HWY_ATTR {
        const F32 p0 = product_scale[0], p1 = product_scale[1], p2 = product_scale[2], p3 = product_scale[3];
        const float* b = x.b + first * machine_columns;
        I32 u0, u1, u2, u3;
        for (int t = first; t < last; ++t, b += machine_columns) {
            const F32 a(x.a[t]);
            u0 = u0 + cut_to_int((a * load(b)) * p0);
            u1 = u1 + cut_to_int((a * load(b + lanes)) * p1);
            u2 = u2 + cut_to_int((a * load(b + 2 * lanes)) * p2);
            u3 = u3 + cut_to_int((a * load(b + 3 * lanes)) * p3);
        }
        t0 = u0, t1 = u1, t2 = u2, t3 = u3;
    };
    add_terms(0, terms / halves, s0, s1, s2, s3);
    if constexpr (halves == 2) add_terms(terms / 2, terms, h0, h1, h2, h3);

    const I32 sums[4] = {s0, s1, s2, s3}, others[4] = {h0, h1, h2, h3};
    for (int v = 0; v < 4; ++v) {
        const F32 addend = load(c + v * lanes);
        const I32 cut = cut_to_int(addend * scale[v]);
        I32 sum = sums[v], wrapped;
        if constexpr (halves == 2) {
            sum = sums[v] + others[v];
            wrapped = wrap_sign(sums[v], others[v], sum);
        }
        const I32 total = sum + cut;
        wrapped = wrapped | wrap_sign(sum, cut, total);
        F32 d = deliver_sum<delivery>(total, from_bits(I32(254 << 23) - bits(scale[v])));
        const M32 beyond =
            (exponent[v] < I32(least_exponent + 127)) | (exponent[v] > I32(most_exponent + 127)) | (wrapped < I32(0));
        if (HWY_UNLIKELY(any(beyond))) {
            const M32 no_product = widened(largest + v * lanes) < I32(0);
            const M32 kept = (no_product | not_finite(addend)) & !(exponent[v] > I32(nan_threshold));
            d = settle(plan, x, beyond, kept, v, c, d);
        }
        store(d, c + v * lanes);
    }
}

/// GST-FDPA on machine_columns columns: c becomes D.
template <class E>
HWY_INLINE void scaled_groups_row(const MachinePlan& plan, const StepOperands<E>& x, float* c) {
    constexpr int group = 16, most_groups = 4;
    const int groups = plan.terms / group;
    constexpr std::int64_t lanes = lanes_of_vector;
    constexpr int least = -90, most = 85;  // 2^(35 - exponent) and its inverse are normal numbers of fp32
    alignas(64) E present[most_groups][machine_columns];
    for (int g = 0; g < groups; ++g) {
        largest_exponents<group>(x.a_exponent + g * group, 0, 1, x.b_exponent + g * group * machine_columns,
                                 present[g]);
    }
    for (int v = 0; v < 4; ++v) {
        const F32 addend = load(c + v * lanes);
        I32 exponent = exponent_field(addend) - I32(127);
        exponent = select(addend == F32(0.0f), I32(plan.rule.zero_exponent), exponent);
        M32 any_product = first_n(0);
        F32 dot[most_groups];
        for (int g = 0; g < groups; ++g) {
            const int s = g * plan.scale_count / groups;
            const I32 block = I32(x.a_scale_exponent[s]) + load(x.b_scale_exponent + s * machine_columns + v * lanes);
            // A zero scale has an exponent far below all others.
            const M32 here = !(widened(present[g] + v * lanes) < I32(0)) & !(block < I32(zero_threshold));
            any_product = any_product | here;
            const M32 counts = here | (block > I32(nan_threshold));
            exponent = I32(hn::Max(exponent.v, select(counts, block, I32(plan.rule.zero_exponent)).v));
            F32 sum;
            const float* b = x.b + g * group * machine_columns + v * lanes;
            for (int t = 0; t < group; ++t) sum = fma(F32(x.a[g * group + t]), load(b + t * machine_columns), sum);
            dot[g] = sum;
        }
        const M32 beyond = (exponent < I32(least)) | (exponent > I32(most));
        const F32 scale = power_of_two(I32(plan.rule.fraction_bits) - exponent);
        const F64 low_scale = promote_lower(scale), high_scale = promote_upper(scale);
        F64 low = cut_to_whole(promote_lower(addend) * low_scale) + F64(0.0);
        F64 high = cut_to_whole(promote_upper(addend) * high_scale) + F64(0.0);
        for (int g = 0; g < groups; ++g) {
            const int s = g * plan.scale_count / groups;
            const F64 alpha(double{x.a_scale[s]});
            const F32 beta = load(x.b_scale + s * machine_columns + v * lanes);
            low = low + cut_to_whole(promote_lower(dot[g]) * (alpha * promote_lower(beta)) * low_scale);
            high = high + cut_to_whole(promote_upper(dot[g]) * (alpha * promote_upper(beta)) * high_scale);
        }
        const F32 unit = power_of_two(exponent - I32(plan.rule.fraction_bits));
        F32 d = cut_to_float(low * promote_lower(unit), high * promote_upper(unit));
        if (any(beyond)) {
            const M32 kept = !any_product | not_finite(addend);
            const M32 bad_scale = exponent > I32(nan_threshold);
            d = settle(plan, x, beyond, kept & !bad_scale, v, c, d);
        }
        store(d, c + v * lanes);
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
