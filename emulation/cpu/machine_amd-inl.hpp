// SPDX-License-Identifier: Apache-2.0
// Steps of AMD's matrix units on a row of a and the columns of a panel. They round to nearest: the caller leaves the
// rounding mode alone. Included once per target, after machine_step-inl.hpp.
#include "emulation/cpu/machine_step-inl.hpp"

#if defined(MACHEPS_MACHINE_AMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_MACHINE_AMD_INL
#undef MACHEPS_MACHINE_AMD_INL
#else
#define MACHEPS_MACHINE_AMD_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Two vectors of fp64 for one of fp32.
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

/// TR-FDPA, and GTR-FDPA with `groups` == 2 and the even products before the odd ones.
/// largest [groups][.., machine_columns], `group_step` apart.
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
            exponent[g] = stored + base;  // without products: below every addend's
            // Without products there is nothing to scale; any power of two will do.
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

        // Sums in units of 2^(largest - 32).
        Wide total = from_int(sum[0]);
        if constexpr (groups == 2) {
            total = rounded_down(total * Wide(power_of_two_or_least(exponent[0] - products))) +
                    rounded_down(from_int(sum[1]) * Wide(power_of_two_or_least(exponent[1] - products)));
        }
        total = rounded_down(total * Wide(power_of_two_or_least(products - largest_exponent + I32(8))));
        F32 joining = addend;
        if (groups == 2) joining = select(ec < largest_exponent - I32(fraction + 1), F32(0.0f), addend);
        const Wide c_part = rounded_down(Wide(joining) * Wide(power_of_two(I32(fraction) - largest_exponent)));
        total = total + c_part * Wide(F32(256.0f));
        // 31 bits below the leading one stay, rounded down: whole numbers of 2^(leading exponent - 31), or of 1.
        const auto cut_low = [](F64 x) HWY_ATTR {
            const hn::RebindToSigned<DF64> d;
            const auto field = hn::And(hn::BitCast(d, x.v), hn::Set(d, std::int64_t{0x7ff} << 52));
            const F64 quantum(
                hn::Max(hn::BitCast(DF64(), hn::Sub(field, hn::Set(d, std::int64_t{31} << 52))), F64(1.0).v));
            const F64 inverse(
                hn::BitCast(DF64(), hn::Sub(hn::Set(d, std::int64_t{2046} << 52), hn::BitCast(d, quantum.v))));
            return F64(hn::Floor((x * inverse).v)) * quantum;
        };
        const Wide whole{cut_low(total.low), cut_low(total.high)};
        // In the fast range scaling moves no rounding.
        F32 d = whole.narrowed() * power_of_two(largest_exponent - I32(fraction + 8));

        M32 beyond = (largest_exponent < I32(least)) | (largest_exponent > I32(most));
        // Products far below the addend are cut at a unit of their own.
        for (int g = 0; g < groups; ++g) beyond = beyond | (!none[g] & (exponent[g] < I32(least - 20)));
        if (HWY_UNLIKELY(any(beyond))) {
            // A product beyond fp32's range is an infinity of its own.
            const M32 kept =
                (groups == 2 ? none[0] & none[groups - 1] : none[0]) | (not_finite(addend) & (products < I32(126)));
            d = settle(plan, x, beyond, kept, v, c, d);
        }
        store(d, c + v * lanes);
    }
}

/// CDNA1: the sum in fp64, which is the exact one unless an addition leaves a rest; then the definition.
template <class E, int terms>
HWY_INLINE void exact_row(const MachinePlan& plan, const StepOperands<E>& x, float* c) {
    constexpr std::int64_t lanes = lanes_of_vector;
    for (int v = 0; v < 4; ++v) {
        Wide sum(load(c + v * lanes)), rest(F32(0.0f));
        sum = sum + Wide(F32(0.0f));
        for (int t = 0; t < terms; ++t) {
            const Wide p = Wide(F32(x.a[t])) * Wide(load(x.b + t * machine_columns + v * lanes));
            // Knuth's two-sum: what the addition lost.
            const Wide s = sum + p, q = s - sum;
            const Wide lost = (sum - (s - q)) + (p - q);
            rest = {F64(hn::Or(rest.low.v, hn::Abs(lost.low.v))), F64(hn::Or(rest.high.v, hn::Abs(lost.high.v)))};
            sum = s;
        }
        F32 d = sum.narrowed();
        // Narrowing may lose it: a rest far below fp32's range counts too.
        const auto inexact = [](F64 r)
                                 HWY_ATTR { return F64(hn::IfThenElse(hn::Eq(r.v, F64(0.0).v), r.v, F64(1.0).v)); };
        const M32 beyond =
            !(Wide(inexact(rest.low), inexact(rest.high)).narrowed() == F32(0.0f)) | not_finite(load(c + v * lanes));
        if (HWY_UNLIKELY(any(beyond))) d = settle(plan, x, beyond, not_finite(load(c + v * lanes)), v, c, d);
        store(d, c + v * lanes);
    }
}

/// Subnormal numbers as zeros of their sign.
HWY_INLINE F32 flushed_vector(F32 x) {
    return select((bits(x) & I32(0x7f800000)) == I32(0), from_bits(bits(x) & I32(-0x7fffffff - 1)), x);
}

/// CDNA2: pairs of flushed fp32 products, then the addend.
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
