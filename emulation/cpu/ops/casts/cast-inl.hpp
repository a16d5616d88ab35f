// SPDX-License-Identifier: Apache-2.0
// Casts one vector in registers: rounding, overflow, NaN and signs. Included once per SIMD target.
#include "emulation/cpu/ops/casts/cast.hpp"
#include "emulation/cpu/simd/vec-inl.hpp"

#if defined(MACHEPS_CAST_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_CAST_INL
#undef MACHEPS_CAST_INL
#else
#define MACHEPS_CAST_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
namespace vector_cast {

using VF = hn::Vec<DF32>;
using VI = hn::Vec<DI32>;
using VU = hn::Vec<DU32>;
using MI = hn::Mask<DI32>;

inline constexpr DF32 df{};
inline constexpr DI32 di{};
inline constexpr DU32 du{};
inline constexpr std::int32_t infinity_bits = 0x7f800000, exponent_mask = 0x7f800000, magnitude_mask = 0x7fffffff;

HWY_INLINE VI as_int(VF x) { return hn::BitCast(di, x); }
HWY_INLINE VI as_int(VU x) { return hn::BitCast(di, x); }
HWY_INLINE VU as_unsigned(VI x) { return hn::BitCast(du, x); }
HWY_INLINE VF as_float(VI x) { return hn::BitCast(df, x); }
HWY_INLINE VI all(std::int32_t x) { return hn::Set(di, x); }

/// Properties of a cast that a kernel assumes at compile time, to save work.
struct Known {
    bool wide = false;  ///< CastPlan::Path::wide; otherwise narrow
    bool signless = false;
    bool limited = false;          ///< every overflow and every infinity becomes the largest finite value
    bool beyond = false;           ///< only AVX-512 and narrow: every overflow becomes an infinity or NaN
    bool no_nan = false;           ///< only AVX-512, narrow and limited: NaN becomes the largest finite value
    bool carries_to_inf = false;   ///< only wide: an overflow carries into the exponent, which gives the infinity
    bool overflow_is_nan = false;  ///< only AVX2 and narrow: an overflow gives the same result as a NaN
    bool fp16 = false;             ///< only AVX-512: uses the processor's conversion instruction
    bool unit_scale = false;       ///< encode_scale is 1, and a NaN keeps its sign if the format has one
    bool tallied = false;
};

#if HWY_TARGET == HWY_AVX3
// Instructions that Highway does not offer: instructions with a rounding direction, and VFIXUPIMMPS, which replaces
// numbers according to their class. Its table has four bits per class, which select the replacement for numbers of that
// class.
namespace response {
inline constexpr std::uint32_t keep = 0, source = 1, nan = 3, positive_infinity = 5, positive_zero = 8;
}
struct Classes {
    std::uint32_t nan = response::keep, zero = response::keep, infinity = response::keep, negative = response::keep,
                  positive = response::keep;
    constexpr std::int32_t table() const {
        return static_cast<std::int32_t>(nan | nan << 4 | zero << 8 | positive << 12 | infinity << 16 | infinity << 20 |
                                         negative << 24 | positive << 28);
    }
};
/// Returns `kept`, with some lanes replaced according to the class of `x` in the lane. `table` (made by Classes) gives
/// the response for each class: `keep` keeps the lane, and response::nan gives the canonical NaN with the sign bit set.
HWY_INLINE VF fix_up(VF kept, VF x, VI table) { return VF{_mm512_fixupimm_ps(kept.raw, x.raw, table.raw, 0)}; }
HWY_INLINE VF fix_up_where(__mmask16 where, VF kept, VF x, VI table) {
    return VF{_mm512_mask_fixupimm_ps(kept.raw, where, x.raw, table.raw, 0)};
}
HWY_INLINE VF multiply_add_toward_zero(VF a, VF b, VF c) {
    return VF{_mm512_fmadd_round_ps(a.raw, b.raw, c.raw, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
}
HWY_INLINE VF multiply_add_up(VF a, VF b, VF c) {
    return VF{_mm512_fmadd_round_ps(a.raw, b.raw, c.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
}
HWY_INLINE __mmask16 not_at_most(VF a, VF b) { return _mm512_cmp_ps_mask(a.raw, b.raw, _CMP_NLE_UQ); }
/// Returns the magnitude of `a` with the sign of `b`.
HWY_INLINE VF with_sign_of(VF a, VF b) {
    return VF{_mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(a.raw), _mm512_castps_si512(b.raw),
                                                            _mm512_set1_epi32(INT32_MIN), 0xd8))};
}
/// Returns the smaller of the two magnitudes, with the sign of `a`.
HWY_INLINE VF min_magnitude(VF a, VF b) { return VF{_mm512_range_ps(a.raw, b.raw, 2)}; }
#endif

/// The fields of a CastPlan as vectors. `mode` is any Round except `down`. Rounding down uses `up` and exchanges the
/// signs.
template <Round mode>
struct VectorRounder {
    VF scale, max, drop_power;
    VI emin_bits, max_bits, clamp_bits, overflow_bits, nan_bits;
    VI drop, first_places, drop_exponent, fraction_exponent, kept_mask, below_half, lsb, inward_flip, random_mask,
        nan_sign;
    int drop_count;
#if HWY_TARGET == HWY_AVX3
    VF half_place, stand_in;
    VI product_table, nan_table, special_table, sign_table;
#endif

    HWY_INLINE explicit VectorRounder(const CastPlan& p) : drop_count(p.drop) {
        const std::int32_t discarded = (std::int32_t{1} << p.drop) - 1, half = (discarded + 1) >> 1;
        scale = hn::Set(df, p.cast.encode_scale);
        emin_bits = all(p.emin_bits);
        max_bits = all(p.max_bits);
        clamp_bits = all(p.clamp_bits);
        overflow_bits = all(p.overflow_bits);
        nan_bits = all(p.nan_bits);
        max = as_float(max_bits);
        drop_power = as_float(all((127 + p.drop) << 23));
        drop = all(p.drop);
        first_places = all(p.drop + (p.emin_bits >> 23));
        drop_exponent = all(p.drop << 23);
        fraction_exponent = all((23 - p.drop) << 23);
        kept_mask = all(~discarded);
        below_half = all(mode == Round::nearest_even   ? (p.drop == 0 ? 0 : half - 1)
                         : mode == Round::nearest_away ? half
                                                       : discarded);
        lsb = all(p.drop == 0 ? 0 : 1);
        nan_sign = all(p.nan_keeps_sign ? INT32_MIN : 0);
        inward_flip = all(p.cast.round == Round::down ? INT32_MIN : 0);
        random_mask =
            all(p.cast.random_bits == 0 ? 0 : static_cast<std::int32_t>(0xffffffffu << (32 - p.cast.random_bits)));
#if HWY_TARGET == HWY_AVX3
        half_place = as_float(all((127 + p.drop - 24) << 23));
        // A NaN that does not keep its sign is first replaced by the canonical NaN or, if the format has no NaN, by an
        // infinity.
        stand_in = as_float(all(p.nan_is_max ? infinity_bits : 0x7fc00000));
        const bool replaced = p.nan_is_max || !p.nan_keeps_sign;
        product_table = all(Classes{.nan = replaced ? response::keep : response::source,
                                    .zero = response::source,
                                    .infinity = response::source,
                                    .negative = response::source,
                                    .positive = response::source}
                                .table());
        nan_table = all(Classes{.nan = response::nan}.table());
        const std::uint32_t overflow = p.infinity_is_max                  ? response::keep
                                       : p.overflow_bits == infinity_bits ? response::positive_infinity
                                                                          : response::nan;
        const auto finite = [&](bool negative) {
            return rounds_inward(p.cast.round, negative) ? response::keep : overflow;
        };
        special_table = all(Classes{.nan = p.nan_is_max ? response::keep : response::nan,
                                    .infinity = overflow,
                                    .negative = finite(true),
                                    .positive = finite(false)}
                                .table());
        sign_table = all(Classes{.nan = p.signless ? response::keep : response::source,
                                 .zero = p.signless ? response::positive_zero : response::source,
                                 .infinity = response::source,
                                 .negative = response::source,
                                 .positive = response::source}
                             .table());
#endif
    }

    // round_wide() and round_narrow() round a magnitude to the grid of the format, without an upper limit of the
    // exponent. `sign` is a number with the sign of the operand.
    // round_wide() discards the low bits of the fraction, for normal and subnormal numbers alike. A carry goes into the
    // exponent. `m` is the magnitude; for nearest_even, it may also be the number with its sign bit.
    HWY_INLINE VI round_wide(VI m, VI sign, VU random) const {
        if constexpr (mode == Round::nearest_even) {
            const VI odd = hn::And(hn::ShiftRightSame(m, drop_count), lsb);
            return hn::And(hn::Add(hn::Add(m, below_half), odd), kept_mask);
        } else if constexpr (mode == Round::nearest_away) {
            return hn::And(hn::Add(m, below_half), kept_mask);
        } else if constexpr (mode == Round::toward_zero) {
            return hn::And(m, kept_mask);
        } else if constexpr (mode == Round::up) {
            const VI inward = hn::BroadcastSignBit(hn::Xor(sign, inward_flip));
            return hn::And(hn::Add(m, hn::AndNot(inward, below_half)), kept_mask);
        } else if constexpr (mode == Round::to_odd) {
            const VI kept = hn::And(m, kept_mask);
            return hn::IfThenElse(hn::Eq(kept, m), kept, hn::Or(kept, hn::Add(below_half, all(1))));
        } else {
            const VI seen = hn::And(as_int(random), random_mask);
            const VI addend = as_int(hn::ShiftRightSame(as_unsigned(seen), 32 - drop_count));
            return hn::And(hn::Add(m, addend), kept_mask);
        }
    }

    /// Returns 2^(exponent of m), but at least 2^emin.
    HWY_INLINE VI binade_of(VI m) const { return hn::Max(hn::And(m, all(exponent_mask)), emin_bits); }

    // Let e be the exponent of m, but at least emin, and c = 2^(e + drop). The last place of c is the quantum q of the
    // format at m. Therefore m + c rounds to nearest even on the grid, and subtracting c again is exact:
    //     c     1.000 0000 0000 0000 0000 0000
    //     m                         1.xxx|xxxx xxxx ...   '|': the last place of c and of the grid
    // For the other rounding modes, either the result is corrected if it is on the wrong side of m, or the addition
    // itself rounds in the required direction. If m is far above the largest finite value, c overflows, and the result
    // is large, infinite or NaN. It is never less than or equal to the largest finite value.
    HWY_INLINE VF round_narrow(VI magnitude, VI sign, VU random) const {
        if constexpr (mode == Round::stochastic) return round_stochastic(hn::Min(magnitude, clamp_bits), random);
#if HWY_TARGET == HWY_AVX3
        if constexpr (mode != Round::nearest_even) return round_narrow_directed(hn::Min(magnitude, clamp_bits), sign);
#endif
        VI binade = hn::And(magnitude, all(exponent_mask));
        if constexpr (mode == Round::to_odd) binade = hn::Min(binade, clamp_bits);  // keeps the sum finite
        binade = hn::Max(binade, emin_bits);
        const VF m = as_float(magnitude), e = as_float(binade);
        const VF sum = hn::MulAdd(e, drop_power, m), nearest = hn::NegMulAdd(e, drop_power, sum);
        if constexpr (mode == Round::nearest_even) return nearest;
        const VF q = as_float(hn::Sub(binade, fraction_exponent));
        if constexpr (mode == Round::nearest_away) {
            const VF half = as_float(hn::Sub(as_int(q), all(1 << 23)));
            return hn::IfThenElse(hn::Eq(hn::Sub(m, nearest), half), hn::Add(nearest, q), nearest);
        }
        if constexpr (mode == Round::toward_zero) {
            return hn::IfThenElse(hn::Gt(nearest, m), hn::Sub(nearest, q), nearest);
        }
        if constexpr (mode == Round::up) {
            // `flip` gives m and its rounded value the sign of the operand (exchanged to round down). The rounded value
            // is wrong if it is then less than m: too small in magnitude when rounding away from zero, or too large
            // when rounding toward zero.
            const VF flip = as_float(hn::And(hn::Xor(sign, inward_flip), all(INT32_MIN)));
            const auto wrong = hn::Lt(hn::Xor(nearest, flip), hn::Xor(m, flip));
            return hn::IfThenElse(wrong, hn::Add(nearest, hn::Xor(q, flip)), nearest);
        }
        const VI below =
            hn::IfThenElse(hn::RebindMask(di, hn::Gt(nearest, m)), hn::Sub(as_int(sum), all(1)), as_int(sum));
        const VI odd = hn::IfThenElse(hn::RebindMask(di, hn::Eq(nearest, m)), below, hn::Or(below, all(1)));
        return hn::NegMulAdd(e, drop_power, as_float(odd));
    }

#if HWY_TARGET == HWY_AVX3
    HWY_INLINE VF round_narrow_directed(VI magnitude, VI sign) const {
        const VF e = as_float(binade_of(magnitude));
        VF m = as_float(magnitude);
        // m plus half a quantum may need a 25th bit, but truncating twice gives the same result as truncating once.
        if constexpr (mode == Round::nearest_away) m = multiply_add_toward_zero(e, half_place, m);
        VF sum = multiply_add_toward_zero(e, drop_power, m);
        if constexpr (mode == Round::up) {
            const __mmask16 inward = _mm512_movepi32_mask(hn::Xor(sign, inward_flip).raw);
            sum = VF{_mm512_mask_blend_ps(inward, multiply_add_up(e, drop_power, m).raw, sum.raw)};
        }
        if constexpr (mode == Round::to_odd) {
            const auto exact = hn::RebindMask(di, hn::Eq(sum, multiply_add_up(e, drop_power, m)));
            sum = as_float(hn::IfThenElse(exact, as_int(sum), hn::Or(as_int(sum), all(1))));
        }
        return hn::NegMulAdd(e, drop_power, sum);
    }
#endif

    // Splits the significand into significand = ulps << places | discarded. The variable `discarded` holds only the
    // first 32 discarded bits, which are compared with the random bits. `first_places` is the value of `places` at
    // 2^-127. If a number is subnormal in fp32, the code gives it a hidden bit, which is wrong but harmless: its whole
    // significand is below those 32 bits. On x86, shifts by 32 or more, and by "negative" counts, give 0.
    HWY_INLINE VF round_stochastic(VI magnitude, VU random) const {
        const VI binade = binade_of(magnitude), c = hn::Add(binade, drop_exponent);
        const VU significand = as_unsigned(hn::OrAnd(all(0x800000), magnitude, all(0x7fffff)));
        const VI field = as_int(hn::ShiftRight<23>(as_unsigned(magnitude)));
        const VI places = hn::Max(hn::Sub(first_places, field), drop);
        const VI left = hn::Sub(all(32), places), right = hn::Sub(places, all(32));
        const VU discarded = hn::Or(significand << as_unsigned(left), significand >> as_unsigned(right));
        const VU kept = significand >> as_unsigned(places), mask = as_unsigned(random_mask);
        const VU seen = hn::And(discarded, mask), drawn = hn::And(random, mask);
        const MI carries = hn::RebindMask(di, hn::Lt(hn::Add(seen, drawn), drawn));
        const VI floor = hn::Add(c, as_int(kept));
        return hn::Sub(as_float(hn::IfThenElse(carries, hn::Add(floor, all(1)), floor)), as_float(c));
    }
};

/// Magnitudes that a tally reads: of the operand x, of the scaled operand z, and of the result q.
struct Seen {
    VI x, z, q;
};

#if HWY_TARGET == HWY_AVX3

/// Returns x * scale, rounded to the grid of the format. `known` fixes some properties of the cast at compile time. The
/// tables of `r` define the others.
template <Round mode, Known known>
HWY_INLINE VF cast_vector(const VectorRounder<mode>& r, VF x, VU random, [[maybe_unused]] Seen& seen) {
    const VI mask = all(magnitude_mask);
    VF u = known.unit_scale ? x : fix_up(r.stand_in, hn::Mul(x, r.scale), r.product_table);
    if constexpr (known.fp16) {
        static_assert(mode == Round::nearest_even);
        const VF q{_mm512_cvtph_ps(_mm512_cvtps_ph(u.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))};
        return with_sign_of(fix_up(q, u, r.nan_table), u);
    }
    if constexpr (known.signless && mode == Round::nearest_even && known.unit_scale && !known.tallied) {
        // This code adds and subtracts a number c that has the sign of u. A zero result is computed as c - c, so it is
        // always +0, as required by a format without -0.
        if constexpr (known.limited) u = min_magnitude(u, r.max);
        const VF e = with_sign_of(as_float(r.binade_of(as_int(u))), u);
        const VF q = hn::NegMulAdd(e, r.drop_power, hn::MulAdd(e, r.drop_power, u));
        const __mmask16 is_nan = known.limited ? not_at_most(x, x) : not_at_most(hn::Abs(q), r.max);
        return VF{_mm512_mask_blend_ps(is_nan, q.raw, (known.no_nan ? r.max : r.stand_in).raw)};
    }
    // On x86, the minimum is the second operand if the first is NaN.
    if constexpr (known.no_nan && known.unit_scale) u = hn::Min(u, r.max);
    const VI z = hn::And(as_int(u), mask);
    VF q;
    if constexpr (known.carries_to_inf) {
        const VI rounded = r.round_wide(mode == Round::nearest_even ? as_int(u) : z, as_int(u), random);
        q = fix_up(as_float(rounded), u, r.nan_table);  // a NaN becomes canonical; its sign is set below
    } else {
        const VF rounded = known.wide ? as_float(r.round_wide(hn::Min(z, all(infinity_bits)), as_int(u), random))
                                      : r.round_narrow(z, as_int(u), random);
        if constexpr (known.beyond) {
            q = fix_up_where(not_at_most(rounded, r.max), rounded, u, r.special_table);
        } else if constexpr (known.limited) {
            q = hn::Min(rounded, r.max);
            if constexpr (!known.no_nan) q = fix_up(q, u, r.nan_table);
        } else {
            q = fix_up_where(not_at_most(rounded, r.max), hn::Min(rounded, r.max), u, r.special_table);
        }
    }
    if constexpr (known.tallied) seen = {hn::And(as_int(x), mask), z, hn::And(as_int(q), mask)};
    q = with_sign_of(q, u);
    return known.signless ? fix_up(r.stand_in, q, r.sign_table) : q;
}

#else

/// Returns x * scale, rounded to the grid of the format.
template <Round mode, Known known>
HWY_INLINE VF cast_vector(const VectorRounder<mode>& r, VF x, VU random, [[maybe_unused]] Seen& seen) {
    const VI u = as_int(known.unit_scale ? x : hn::Mul(x, r.scale)), sign_mask = all(INT32_MIN);
    const VI z = hn::AndNot(sign_mask, u);
    const MI is_nan = hn::RebindMask(di, hn::IsNaN(as_float(u)));
    VI q;
    if constexpr (known.limited) {
        static_assert(!known.wide);
        q = as_int(hn::Min(r.round_narrow(z, u, random), r.max));  // on x86, r.max if the first operand is NaN
    } else if constexpr (known.carries_to_inf) {
        q = r.round_wide(z, u, random);
    } else {
        // A finite value that is rounded toward zero stays finite. An infinity does not become finite.
        VI limit = r.overflow_bits;
        if constexpr (mode == Round::toward_zero || mode == Round::to_odd) {
            limit = hn::IfThenElse(hn::Lt(z, all(infinity_bits)), r.max_bits, limit);
        } else if constexpr (mode == Round::up) {
            const MI inward = hn::Lt(hn::Xor(u, r.inward_flip), hn::Zero(di));
            limit = hn::IfThenElse(hn::And(hn::Lt(z, all(infinity_bits)), inward), r.max_bits, limit);
        }
        if constexpr (known.wide) {
            q = r.round_wide(z, u, random);
            q = hn::IfThenElse(hn::Gt(q, r.max_bits), limit, q);
        } else {
            const VF rounded = r.round_narrow(z, u, random);
            q = as_int(hn::IfThenElse(hn::Le(rounded, r.max), rounded, as_float(limit)));
        }
    }
    if constexpr (!known.overflow_is_nan) q = hn::IfThenElse(is_nan, r.nan_bits, q);
    if constexpr (known.tallied) seen = {hn::AndNot(sign_mask, as_int(x)), z, q};

    VI signs = u;
    if constexpr (known.signless) {
        const MI vanishes = hn::Or(hn::Eq(q, hn::Zero(di)), is_nan);
        signs = hn::IfThenZeroElse(hn::Or(vanishes, hn::Gt(q, all(infinity_bits))), signs);
    } else if constexpr (!known.unit_scale) {
        signs = hn::IfThenElse(is_nan, hn::And(signs, r.nan_sign), signs);
    }
    return as_float(hn::OrAnd(q, signs, sign_mask));
}

#endif

}  // namespace vector_cast
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
