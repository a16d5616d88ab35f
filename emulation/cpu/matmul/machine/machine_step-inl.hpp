// SPDX-License-Identifier: Apache-2.0
// One fused step of a matrix unit, for one row of a and all columns of a panel of b, with one output per lane. On AVX2,
// the caller must set the rounding mode to round toward zero (CutMode), because conversions to fp32 must truncate. The
// mode does not affect the other operations in this file: they are exact or specify their own rounding. Included once
// per SIMD target.
#include "emulation/cpu/matmul/machine/machine_pack-inl.hpp"

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

// --- conversions that Highway lacks, or provides only with a range check that would halve the speed of the term loop

/// Converts to integers, rounding toward zero. The result is meaningless if x is out of range.
HWY_INLINE I32 cut_to_int(F32 x) {
#if HWY_TARGET == HWY_AVX3
    return I32(hn::Vec<DI32>{_mm512_cvttps_epi32(x.v.raw)});
#else
    return I32(hn::Vec<DI32>{_mm256_cvttps_epi32(x.v.raw)});
#endif
}

/// Converts to fp32, rounding toward zero. On AVX2, this requires CutMode.
HWY_INLINE F32 cut_to_float(I32 x) {
#if HWY_TARGET == HWY_AVX3
    return F32(hn::Vec<DF32>{_mm512_cvt_roundepi32_ps(x.v.raw, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)});
#else
    return F32(hn::Vec<DF32>{_mm256_cvtepi32_ps(x.v.raw)});
#endif
}

/// Converts the two halves of a vector from fp64 to fp32, rounding toward zero. On AVX2, this requires CutMode.
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

/// Rounds to fp16, to nearest even, and converts back to fp32.
HWY_INLINE F32 through_half(F32 x) {
#if HWY_TARGET == HWY_AVX3
    const __m256i h = _mm512_cvtps_ph(x.v.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return F32(hn::Vec<DF32>{_mm512_cvtph_ps(h)});
#else
    const __m128i h = _mm256_cvtps_ph(x.v.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return F32(hn::Vec<DF32>{_mm256_cvtph_ps(h)});
#endif
}

/// Sets the rounding mode to round toward zero for the lifetime of the object. The conversions of AVX2 use the mode in
/// the control register.
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
    // Block scales, if the machine has them: [count] for the row, and [count, machine_columns] for the columns.
    const float* a_scale = nullptr;
    const std::int32_t* a_scale_exponent = nullptr;
    const float* b_scale = nullptr;
    const std::int32_t* b_scale_exponent = nullptr;
    // For SumModel::scaled_groups: a bit for each of the 16 terms of a group, set if the term is not zero. Shapes:
    // [groups] and [groups, machine_columns].
    const std::int32_t* a_nonzero = nullptr;
    const std::int32_t* b_nonzero = nullptr;
};

/// Range of exponents in which the fast path is exact. settle() computes lanes with exponents outside this range.
inline constexpr int min_exponent = -100, max_exponent = 120;
/// Limits for the sum of the exponents of two scales. A sum below `zero_threshold` means that a scale is zero. A sum
/// above `nan_threshold` means that a scale is a NaN (see PackedScale).
inline constexpr int zero_threshold = -5000, nan_threshold = 5000;

/// Returns a vector with the same exponent in all lanes. An 8-bit exponent is stored as four copies in 32 bits, because
/// Intel's processors can broadcast 32 bits while they load them, but need an additional permutation for 8 bits.
template <class D>
HWY_INLINE auto exponent_everywhere(D d, std::int32_t four_times) {
    return hn::BitCast(d, hn::Set(DI32(), four_times));
}
template <class D>
HWY_INLINE auto exponent_everywhere(D d, std::int16_t exponent) {
    return hn::Set(d, exponent);
}

/// Finds the largest stored exponent of products [0, terms) in every column, for `rows` rows of a that are `stride`
/// elements apart. If all products of a column are zero, the result is so small that no addend has a smaller exponent.
/// This is a separate pass over several rows. Within one row, each maximum has to wait for the previous maximum, which
/// would slow down the term loop.
template <int terms, class E>
HWY_INLINE void largest_exponents(const Spread<E>* a, std::int64_t stride, std::int64_t rows, const E* b, E* out) {
    static_assert(terms % 2 == 0);
    const hn::ScalableTag<E> d;
    constexpr std::int64_t lanes = machine_columns / static_cast<std::int64_t>(sizeof(E));
    const auto finish = [&](auto top) HWY_ATTR {
        if (sizeof(E) == 1) return hn::IfThenElse(hn::Lt(top, hn::Zero(d)), hn::Set(d, E{-128}), top);
        return top;
    };
    for (std::int64_t j = 0; j < machine_columns; j += lanes) {
        const Spread<E>* x = a;
        const auto sum = [&](const Spread<E>* row, int t, auto e)
                             HWY_ATTR { return hn::Add(e, exponent_everywhere(d, row[t])); };
        std::int64_t r = 0;
        for (; r + 4 <= rows; r += 4, x += 4 * stride) {
            const Spread<E>*x1 = x + stride, *x2 = x + 2 * stride, *x3 = x + 3 * stride;
            const auto first = hn::LoadU(d, b + j);
            auto t0 = sum(x, 0, first), t1 = sum(x1, 0, first), t2 = sum(x2, 0, first), t3 = sum(x3, 0, first);
            const auto observe = [&](int t) HWY_ATTR {
                const auto e = hn::LoadU(d, b + t * machine_columns + j);
                t0 = hn::Max(t0, sum(x, t, e));
                t1 = hn::Max(t1, sum(x1, t, e));
                t2 = hn::Max(t2, sum(x2, t, e));
                t3 = hn::Max(t3, sum(x3, t, e));
            };
            observe(1);
            for (int t = 2; t < terms; t += 2) observe(t), observe(t + 1);
            E* to = out + r * machine_columns + j;
            hn::Store(finish(t0), d, to);
            hn::Store(finish(t1), d, to + machine_columns);
            hn::Store(finish(t2), d, to + 2 * machine_columns);
            hn::Store(finish(t3), d, to + 3 * machine_columns);
        }
        for (; r < rows; ++r, x += stride) {
            auto top = sum(x, 0, hn::LoadU(d, b + j));
            for (int t = 1; t < terms; ++t) top = hn::Max(top, sum(x, t, hn::LoadU(d, b + t * machine_columns + j)));
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

/// Returns the result of a step in which only the addend c has an effect. This is c in the delivered format. A zero of
/// either sign gives +0.
HWY_INLINE F32 deliver_addend(const MachinePlan& plan, F32 c) {
    const bool narrow = plan.rule.delivery == Delivery::e8m13_toward_zero;
    const F32 kept = select(not_finite(c), c, narrow ? from_bits(bits(c) & I32(~0x3ff)) : c);
    return select(kept == F32(0.0f), F32(0.0f), kept);
}

/// Computes the lanes in `mask` with the scalar definition. `column` is the column of lane 0, and c holds the addends
/// of all columns.
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

/// Returns `d`, the results of vector v, after replacing the lanes in `beyond`, which are outside the fast range. The
/// result of a lane that is also in `kept` is its addend (deliver_addend()). The scalar definition computes the others.
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

/// Returns the exponent field of an fp32 number.
HWY_INLINE I32 exponent_field(F32 x) { return shift_right_logical(bits(x) << 1, 24); }

/// Returns 2^exponent, for the exponents of normal fp32 numbers.
HWY_INLINE F32 power_of_two(I32 exponent) { return from_bits((exponent + I32(127)) << 23); }

/// Returns 2^exponent, but at least the smallest normal number.
HWY_INLINE F32 power_of_two_or_min(I32 exponent) {
    return from_bits(I32(hn::Max((exponent + I32(127)).v, I32(1).v)) << 23);
}

/// Returns sum * unit in the delivered format, for units in the fast range.
template <Delivery delivery>
HWY_INLINE F32 deliver_sum(I32 sum, F32 unit) {
    F32 r = cut_to_float(sum);
    if constexpr (delivery == Delivery::e8m13_toward_zero) r = from_bits(bits(r) & I32(~0x3ff));
    if constexpr (delivery == Delivery::fp16_nearest_even) {
        // Rounding to odd first makes the later rounding to fp16 correct.
        r = select(cut_to_int(r) == sum, r, from_bits(bits(r) | I32(1)));
        return through_half(r * unit) + F32(0.0f);  // -0 becomes +0
    }
    return r * unit;
}

/// Returns a vector whose sign bits are set in the lanes where x + y = sum wrapped around. In these lanes, the sign of
/// the sum differs from the signs of both x and y.
HWY_INLINE I32 wrap_sign(I32 x, I32 y, I32 sum) { return (x ^ sum) & (y ^ sum); }

/// Computes a step of T-FDPA, or of ST-FDPA if `scaled`, on machine_columns columns. Replaces the addends in c by the
/// results. If `halves` == 2, the products are summed in two accumulators. More than 16 products need this if F = 25.
template <class E, int terms, int halves, bool scaled, Delivery delivery>
HWY_INLINE void truncated_row(const MachinePlan& plan, const StepOperands<E>& x, const E* largest, float* c) {
    constexpr std::int64_t lanes = lanes_of_vector;
    const int fraction = plan.rule.fraction_bits;
    const I32 base(plan.a_base + plan.b_base + 127), shift_field(fraction + 254);

    // In this function, exponents are biased by 127.
    F32 scale[4], product_scale[4];
    I32 exponent[4];
    for (int v = 0; v < 4; ++v) {
        I32 e = widened(largest + v * lanes) + base, block(0);
        if constexpr (scaled) {
            block = I32(x.a_scale_exponent[0]) + load(x.b_scale_exponent + v * lanes);
            e = select(widened(largest + v * lanes) < I32(0), e, e + block);
            e = select(block > I32(nan_threshold), block, e);
        }
        // A zero or subnormal addend gets the exponent -127 here, while the unit may read another exponent. Within the
        // fast range, this makes a difference only for fp16 addends, whose exponents are corrected below.
        I32 ec = exponent_field(load(c + v * lanes));
        if constexpr (delivery == Delivery::fp16_nearest_even) {
            ec = select(ec == I32(0), I32(plan.rule.zero_exponent + 127), I32(hn::Max(ec.v, I32(127 - 14).v)));
        }
        exponent[v] = I32(hn::Max(e.v, ec.v));
        scale[v] = from_bits((shift_field - exponent[v]) << 23);
        product_scale[v] = scaled ? power_of_two_or_min(I32(fraction + 127) - exponent[v] + block) : scale[v];
    }

    I32 s0, s1, s2, s3, h0, h1, h2, h3;
    static_assert(terms / halves % 2 == 0);
    const auto add_terms = [&](int first, int last, I32& t0, I32& t1, I32& t2, I32& t3) HWY_ATTR {
        const F32 p0 = product_scale[0], p1 = product_scale[1], p2 = product_scale[2], p3 = product_scale[3];
        const float* b = x.b + first * machine_columns;
        I32 u0, u1, u2, u3;
        const auto add = [&](int t, const float* row) HWY_ATTR {
            const F32 a(x.a[t]);
            u0 = u0 + cut_to_int((a * load(row)) * p0);
            u1 = u1 + cut_to_int((a * load(row + lanes)) * p1);
            u2 = u2 + cut_to_int((a * load(row + 2 * lanes)) * p2);
            u3 = u3 + cut_to_int((a * load(row + 3 * lanes)) * p3);
        };
        // Two terms per iteration, because GCC copies the sums from register to register at the end of each iteration.
        for (int t = first; t < last; t += 2, b += 2 * machine_columns) add(t, b), add(t + 1, b + machine_columns);
        t0 = u0, t1 = u1, t2 = u2, t3 = u3;
    };
    add_terms(0, terms / halves, s0, s1, s2, s3);
    if constexpr (halves == 2) add_terms(terms / 2, terms, h0, h1, h2, h3);

    const I32 sums[4] = {s0, s1, s2, s3}, others[4] = {h0, h1, h2, h3};
    F32 d[4];
    I32 beyond[4];  // negative in lanes that wrapped around or are out of the fast range
    for (int v = 0; v < 4; ++v) {
        const I32 cut = cut_to_int(load(c + v * lanes) * scale[v]);
        I32 sum = sums[v], wrapped;
        if constexpr (halves == 2) {
            sum = sums[v] + others[v];
            wrapped = wrap_sign(sums[v], others[v], sum);
        }
        const I32 total = sum + cut;
        wrapped = wrapped | wrap_sign(sum, cut, total);
        d[v] = deliver_sum<delivery>(total, from_bits(I32(254 << 23) - bits(scale[v])));
        beyond[v] = wrapped | (exponent[v] - I32(min_exponent + 127)) | (I32(max_exponent + 127) - exponent[v]);
    }
    if (HWY_UNLIKELY(any((beyond[0] | beyond[1] | beyond[2] | beyond[3]) < I32(0)))) {
        for (int v = 0; v < 4; ++v) {
            const M32 no_product = widened(largest + v * lanes) < I32(0);
            const M32 kept = (no_product | not_finite(load(c + v * lanes))) & !(exponent[v] > I32(nan_threshold));
            d[v] = settle(plan, x, beyond[v] < I32(0), kept, v, c, d[v]);
        }
    }
    for (int v = 0; v < 4; ++v) store(d[v], c + v * lanes);
}

/// Number of groups in a step of SumModel::scaled_groups. Each group has sixteen terms.
inline constexpr int step_groups = 4;
/// Limits of the largest exponent of a step. Between these limits, 2^(35 - exponent), its inverse and the values of
/// groups are normal numbers of fp32.
inline constexpr int min_group_exponent = -90, max_group_exponent = 85;

/// Sum of the exponents of a group's two scales, and the lanes in which the group has a product that is not 0.
struct GroupScales {
    I32 block;
    M32 here;
};
template <class E>
HWY_INLINE GroupScales group_scales_of(const MachinePlan& plan, const StepOperands<E>& x, int g, int v) {
    const std::int64_t at = v * lanes_of_vector, s = g * plan.scale_count / step_groups;
    const I32 block = I32(x.a_scale_exponent[s]) + load(x.b_scale_exponent + s * machine_columns + at);
    const I32 both = I32(x.a_nonzero[g]) & load(x.b_nonzero + g * machine_columns + at);
    // A zero scale has an exponent far below all others.
    return {block, !(both == I32(0)) & !(block < I32(zero_threshold))};
}

/// Returns the sum of the products of group g in vector v. The sum is exact in fp32, because the elements have few
/// bits.
template <class E>
HWY_INLINE F32 group_dot(const StepOperands<E>& x, int g, int v) {
    F32 sum;
    const float* b = x.b + g * group_terms * machine_columns + v * lanes_of_vector;
    for (int t = 0; t < group_terms; ++t) sum = fma(F32(x.a[g * group_terms + t]), load(b + t * machine_columns), sum);
    return sum;
}

/// Computes the results of vector v: cuts the addend and each group at the unit 2^(exponent - F) of the lane, adds them
/// in fp64, and converts the sum to fp32.
template <class E>
HWY_NOINLINE F32 cut_groups(const MachinePlan& plan, const StepOperands<E>& x, int v, I32 exponent, F32 addend) {
    const F32 scale = power_of_two(I32(plan.rule.fraction_bits) - exponent);
    const F64 low_scale = promote_lower(scale), high_scale = promote_upper(scale);
    F64 low = cut_to_whole(promote_lower(addend) * low_scale) + F64(0.0);
    F64 high = cut_to_whole(promote_upper(addend) * high_scale) + F64(0.0);
    for (int g = 0; g < step_groups; ++g) {
        const std::int64_t s = g * plan.scale_count / step_groups;
        const F32 dot = group_dot(x, g, v);
        const F64 alpha(double{x.a_scale[s]});
        const F32 beta = load(x.b_scale + s * machine_columns + v * lanes_of_vector);
        low = low + cut_to_whole(promote_lower(dot) * (alpha * promote_lower(beta)) * low_scale);
        high = high + cut_to_whole(promote_upper(dot) * (alpha * promote_upper(beta)) * high_scale);
    }
    const F32 unit = power_of_two(exponent - I32(plan.rule.fraction_bits));
    return cut_to_float(low * promote_lower(unit), high * promote_upper(unit));
}

/// Computes a step of GST-FDPA on machine_columns columns. Replaces the addends in c by the results. A group loses bits
/// only if its scales are far below the scales of another group or below the addend. Otherwise, the value of the group
/// is an integer multiple of the unit, and the sum in fp64 is exact.
template <class E>
HWY_INLINE void scaled_groups_row(const MachinePlan& plan, const StepOperands<E>& x, float* c) {
    constexpr std::int64_t lanes = lanes_of_vector;
    constexpr int none = 1 << 20;
    // The value of a group is a multiple of 2^(block - group_bits), where block is the sum of the exponents of its
    // scales.
    const int group_bits = 2 + 2 * plan.scale.fraction_bits(), fraction = plan.rule.fraction_bits;
    I32 top[4], least[4];
    M32 any_product[4];
    F64 low[4], high[4];
    for (int v = 0; v < 4; ++v) {
        top[v] = I32(plan.rule.zero_exponent), least[v] = I32(none);
        any_product[v] = first_n(0);
        low[v] = high[v] = F64(0.0);
    }
    for (int g = 0; g < step_groups; ++g) {
        // Computes four chains at a time. They share each load of an element of a.
        F32 dot[4];
        const float* b = x.b + g * group_terms * machine_columns;
        for (int t = 0; t < group_terms; ++t, b += machine_columns) {
            const F32 a(x.a[g * group_terms + t]);
            for (int v = 0; v < 4; ++v) dot[v] = fma(a, load(b + v * lanes), dot[v]);
        }
        const std::int64_t s = g * plan.scale_count / step_groups;
        const F32 alpha(x.a_scale[s]);
        for (int v = 0; v < 4; ++v) {
            const auto [block, here] = group_scales_of(plan, x, g, v);
            any_product[v] = any_product[v] | here;
            const M32 counts = here | (block > I32(nan_threshold));
            top[v] = select(counts, I32(hn::Max(top[v].v, block.v)), top[v]);
            least[v] = select(here, I32(hn::Min(least[v].v, block.v)), least[v]);
            const F32 value =
                select(here, dot[v] * (alpha * load(x.b_scale + s * machine_columns + v * lanes)), F32(0.0f));
            low[v] = low[v] + promote_lower(value);
            high[v] = high[v] + promote_upper(value);
        }
    }
    for (int v = 0; v < 4; ++v) {
        const F32 addend = load(c + v * lanes);
        const I32 of_addend = exponent_field(addend) - I32(127);
        const I32 exponent(hn::Max(top[v].v, select(addend == F32(0.0f), I32(plan.rule.zero_exponent), of_addend).v));
        const M32 beyond = (exponent < I32(min_group_exponent)) | (exponent > I32(max_group_exponent));
        const M32 is_cut = least[v] - exponent < I32(group_bits - fraction);
        F32 d;
        if (HWY_UNLIKELY(any(is_cut))) {
            d = cut_groups(plan, x, v, exponent, addend);
        } else {
            const F32 scale = power_of_two(I32(fraction) - exponent), unit = power_of_two(exponent - I32(fraction));
            const F64 low_scale = promote_lower(scale), high_scale = promote_upper(scale);
            // The addition of the groups changes an addend of -0 to +0.
            const F64 low_sum = cut_to_whole(promote_lower(addend) * low_scale) + low[v] * low_scale;
            const F64 high_sum = cut_to_whole(promote_upper(addend) * high_scale) + high[v] * high_scale;
            d = cut_to_float(low_sum * promote_lower(unit), high_sum * promote_upper(unit));
        }
        if (HWY_UNLIKELY(any(beyond))) {
            const M32 kept = !any_product[v] | not_finite(addend);
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
