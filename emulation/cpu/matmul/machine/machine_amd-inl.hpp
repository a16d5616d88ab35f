// SPDX-License-Identifier: Apache-2.0
// Steps of AMD's matrix units. A function computes one step for one row of a and all columns of a panel of b. The units
// round to nearest, so the caller does not change the rounding mode. Included once per SIMD target.
#include "emulation/cpu/matmul/machine/machine_step-inl.hpp"

#if defined(MACHEPS_MACHINE_AMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_MACHINE_AMD_INL
#undef MACHEPS_MACHINE_AMD_INL
#else
#define MACHEPS_MACHINE_AMD_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Two vectors of fp64 that hold the lanes of one vector of fp32.
struct Wide {
    F64 low, high;
    HWY_INLINE Wide(F64 l, F64 h) : low(l), high(h) {}
    HWY_INLINE explicit Wide(F32 x) : low(promote_lower(x)), high(promote_upper(x)) {}
    HWY_INLINE F32 narrowed() const { return demote(low, high); }
};
HWY_INLINE Wide operator+(Wide a, Wide b) { return {a.low + b.low, a.high + b.high}; }
HWY_INLINE Wide operator-(Wide a, Wide b) { return {a.low - b.low, a.high - b.high}; }
HWY_INLINE Wide operator*(Wide a, Wide b) { return {a.low * b.low, a.high * b.high}; }
HWY_INLINE Wide rounded_down(Wide a) { return {F64(hn::Floor(a.low.v)), F64(hn::Floor(a.high.v))}; }
HWY_INLINE Wide from_int(I32 x) {
    const hn::Half<DI32> half;
    return {F64(hn::PromoteTo(DF64(), hn::LowerHalf(half, x.v))), F64(hn::PromoteTo(DF64(), hn::UpperHalf(half, x.v)))};
}

/// Integers below 2^40 in magnitude, 64 bits per lane. floored_row() keeps its sums in this type.
#if HWY_TARGET == HWY_AVX3
struct Whole {
    __m512i low, high;
    HWY_INLINE Whole(__m512i l, __m512i h) : low(l), high(h) {}
    HWY_INLINE explicit Whole(I32 x)
        : low(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(x.v.raw))),
          high(_mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(x.v.raw, 1))) {}

    /// Shifts right and rounds toward -Inf. Counts must not be negative.
    HWY_INLINE Whole shifted_right(I32 count) const {
        const Whole by(count);
        return {_mm512_srav_epi64(low, by.low), _mm512_srav_epi64(high, by.high)};
    }
    template <int count>
    HWY_INLINE Whole shifted_left() const {
        return {_mm512_slli_epi64(low, count), _mm512_slli_epi64(high, count)};
    }
    /// Rounds toward -Inf to 32 significant bits, and then to fp32, to nearest even.
    HWY_INLINE F32 narrowed() const {
        const hn::Half<DF32> half;
        const hn::Vec<decltype(half)> l{narrowed(low)}, h{narrowed(high)};
        return F32(hn::Combine(DF32(), h, l));
    }

  private:
    static HWY_INLINE __m256 narrowed(__m512i x) {
        // Clears the low 21 bits of the fp64 fraction. The magnitude of a negative number is increased first, so that
        // clearing the bits rounds it toward -Inf.
        const __m512i rest = _mm512_set1_epi64((std::int64_t{1} << 21) - 1);
        const __m512i exact = _mm512_castpd_si512(_mm512_cvtepi64_pd(x));
        const __m512i away = _mm512_mask_add_epi64(exact, _mm512_movepi64_mask(x), exact, rest);
        return _mm512_cvtpd_ps(_mm512_castsi512_pd(_mm512_andnot_si512(rest, away)));
    }
};
HWY_INLINE Whole operator+(Whole a, Whole b) {
    return {_mm512_add_epi64(a.low, b.low), _mm512_add_epi64(a.high, b.high)};
}

/// Returns floor(x 2^exponent), for results below 2^31 in magnitude.
HWY_INLINE Whole floor_scaled(F32 x, I32 exponent) {
    constexpr int down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    // The product is rounded down, so that a negative product that underflows stays negative.
    const __m512 scaled = _mm512_mul_round_ps(x.v.raw, power_of_two(exponent).v.raw, down);
    return Whole(I32(hn::Vec<DI32>{_mm512_cvt_roundps_epi32(scaled, down)}));
}
#else
/// The same integers for AVX2, held in fp64, which represents them exactly.
struct Whole {
    Wide x;
    HWY_INLINE explicit Whole(Wide value) : x(value) {}
    HWY_INLINE explicit Whole(I32 value) : x(from_int(value)) {}

    HWY_INLINE Whole shifted_right(I32 count) const {
        return Whole(rounded_down(x * Wide(power_of_two_or_min(I32(0) - count))));
    }
    template <int count>
    HWY_INLINE Whole shifted_left() const {
        return Whole(x * Wide(F32(static_cast<float>(1 << count))));
    }
    HWY_INLINE F32 narrowed() const { return Wide(cut_low(x.low), cut_low(x.high)).narrowed(); }

  private:
    static HWY_INLINE F64 cut_low(F64 value) {
        const hn::RebindToSigned<DF64> d;
        const auto field = hn::And(hn::BitCast(d, value.v), hn::Set(d, std::int64_t{0x7ff} << 52));
        const F64 quantum(hn::Max(hn::BitCast(DF64(), hn::Sub(field, hn::Set(d, std::int64_t{31} << 52))), F64(1.0).v));
        const F64 inverse(
            hn::BitCast(DF64(), hn::Sub(hn::Set(d, std::int64_t{2046} << 52), hn::BitCast(d, quantum.v))));
        return F64(hn::Floor((value * inverse).v)) * quantum;
    }
};
HWY_INLINE Whole operator+(Whole a, Whole b) { return Whole(a.x + b.x); }

HWY_INLINE Whole floor_scaled(F32 x, I32 exponent) {
    return Whole(rounded_down(Wide(x) * Wide(power_of_two(exponent))));
}
#endif

/// Computes a step of TR-FDPA, or of GTR-FDPA if `groups` == 2. For GTR-FDPA, the even products come before the odd
/// products. For each group, `largest` holds the largest exponent of its products in every column; the groups are
/// `group_step` elements apart.
template <class E, int terms, int groups>
HWY_INLINE void floored_row(const MachinePlan& plan, const StepOperands<E>& x, const E* largest,
                            std::int64_t group_step, float* c) {
    constexpr std::int64_t lanes = lanes_of_vector;
    constexpr int each = terms / groups, fraction = 24, least = -80, most = 90;
    const I32 base(plan.a_base + plan.b_base);
    for (int v = 0; v < 4; ++v) {
        I32 exponent[groups], sum[groups];
        M32 none[groups];
        for (int g = 0; g < groups; ++g) {
            const I32 stored = widened(largest + g * group_step + v * lanes);
            none[g] = stored < I32(0);
            exponent[g] = stored + base;  // below the exponent of every addend if all products are 0
            // If all products are 0, any power of two is a correct scale.
            const F32 scale = power_of_two(I32(fraction) - I32(hn::Max(exponent[g].v, I32(least - 20).v)));
            const float* b = x.b + g * each * machine_columns + v * lanes;
            I32 total;
            for (int t = 0; t < each; ++t) {
                total = total + cut_to_int((F32(x.a[g * each + t]) * load(b + t * machine_columns)) * scale);
            }
            sum[g] = total;
        }
        I32 products = exponent[0];
        if (groups == 2) products = I32(hn::Max(exponent[0].v, exponent[groups - 1].v));
        const F32 addend = load(c + v * lanes);
        const I32 ec(hn::Max((exponent_field(addend) - I32(127)).v, I32(-126).v));
        const I32 largest_exponent(hn::Max(products.v, ec.v));

        // Converts the sums to units of 2^(largest_exponent - 32).
        Whole total(sum[0]);
        if constexpr (groups == 2) {
            total = total.shifted_right(products - exponent[0]) + Whole(sum[1]).shifted_right(products - exponent[1]);
        }
        total = total.template shifted_left<8>().shifted_right(largest_exponent - products);
        F32 joining = addend;
        if (groups == 2) joining = select(ec < largest_exponent - I32(fraction + 1), F32(0.0f), addend);
        total = total + floor_scaled(joining, I32(fraction) - largest_exponent).template shifted_left<8>();
        // narrowed() keeps 31 bits below the leading one. In the fast range, scaling by a power of two is exact.
        F32 d = total.narrowed() * power_of_two(largest_exponent - I32(fraction + 8));

        M32 beyond = (largest_exponent < I32(least)) | (largest_exponent > I32(most));
        // The products of a group are cut at a unit that depends on the group's largest exponent. If the products are
        // far below the addend, this unit can be out of the fast range.
        for (int g = 0; g < groups; ++g) beyond = beyond | (!none[g] & (exponent[g] < I32(least - 20)));
        if (HWY_UNLIKELY(any(beyond))) {
            // A product beyond the range of fp32 counts as an infinity. If no product can be that large, an addend that
            // is an infinity or NaN determines the result alone.
            const M32 kept =
                (groups == 2 ? none[0] & none[groups - 1] : none[0]) | (not_finite(addend) & (products < I32(126)));
            d = settle(plan, x, beyond, kept, v, c, d);
        }
        store(d, c + v * lanes);
    }
}

/// Computes a step of CDNA1 in fp64. If an addition is not exact in a lane, the scalar definition computes this lane.
template <class E, int terms>
HWY_INLINE void exact_row(const MachinePlan& plan, const StepOperands<E>& x, float* c) {
    static_assert(terms % 2 == 0);
    constexpr std::int64_t lanes = lanes_of_vector;
    double factors[terms];
    for (int t = 0; t < terms; ++t) factors[t] = static_cast<double>(static_cast<float>(x.a[t]));
    for (int v = 0; v < 4; ++v) {
        Wide sum(load(c + v * lanes)), rest(F32(0.0f));
        // Adds term t and returns the rounding error of the addition (Knuth's two-sum). The first product is never -0,
        // so that a sum of zeros is +0.
        const auto add = [&](int t) HWY_ATTR {
            const F64 factor(factors[t]);
            const Wide column(load(x.b + t * machine_columns + v * lanes));
            const Wide p = t == 0 ? Wide(F64(hn::MulAdd(column.low.v, factor.v, F64(0.0).v)),
                                         F64(hn::MulAdd(column.high.v, factor.v, F64(0.0).v)))
                                  : column * Wide(factor, factor);
            const Wide s = sum + p, q = s - sum;
            const Wide lost = (sum - (s - q)) + (p - q);
            sum = s;
            return lost;
        };
        for (int t = 0; t < terms; t += 2) {
            const Wide one = add(t), two = add(t + 1);
            // The bitwise or of the errors is zero (of either sign) only if all errors are zero.
            rest = {F64(hn::Or3(rest.low.v, one.low.v, two.low.v)), F64(hn::Or3(rest.high.v, one.high.v, two.high.v))};
        }
        F32 d = sum.narrowed();
        // If the addend is not finite, the errors are NaN.
        const auto is_zero = [](F64 r) HWY_ATTR { return hn::Eq(r.v, F64(0.0).v); };
        if (HWY_UNLIKELY(!hn::AllTrue(DF64(), is_zero(F64(hn::Or(rest.low.v, rest.high.v)))))) {
            // Replaces nonzero errors by 1, because narrowing to fp32 would turn very small errors into zeros.
            const auto inexact = [&](F64 r) HWY_ATTR { return F64(hn::IfThenElse(is_zero(r), r.v, F64(1.0).v)); };
            const M32 kept = not_finite(load(c + v * lanes));
            const M32 beyond = !(Wide(inexact(rest.low), inexact(rest.high)).narrowed() == F32(0.0f)) | kept;
            d = settle(plan, x, beyond, kept, v, c, d);
        }
        store(d, c + v * lanes);
    }
}

/// Replaces subnormal numbers by zeros of the same sign.
HWY_INLINE F32 flushed_vector(F32 x) {
    return select((bits(x) & I32(0x7f800000)) == I32(0), from_bits(bits(x) & I32(-0x7fffffff - 1)), x);
}

/// Computes a step of CDNA2: adds pairs of flushed fp32 products, then the addend.
template <int terms>
HWY_INLINE void flushed_pairs_row(const float* a, const float* b, float* c) {
    constexpr std::int64_t lanes = lanes_of_vector;
    const auto product = [&](int t, int v)
                             HWY_ATTR { return flushed_vector(F32(a[t]) * load(b + t * machine_columns + v * lanes)); };
    for (int v = 0; v < 4; ++v) {
        F32 sum = flushed_vector(product(0, v) + product(1, v));
        if constexpr (terms == 4) sum = flushed_vector(sum + flushed_vector(product(2, v) + product(3, v)));
        const F32 addend = load(c + v * lanes);
        const M32 subnormal = ((bits(addend) & I32(0x7f800000)) == I32(0)) & !(addend == F32(0.0f));
        const F32 read = select(subnormal, F32(0.0f), addend);
        store(flushed_vector(read + sum), c + v * lanes);
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
