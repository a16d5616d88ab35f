// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/cast.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "core/error.hpp"
#include "emulation/cpu/cast.hpp"
#include "emulation/cpu/philox-inl.hpp"
#include "emulation/cpu/vec-inl.hpp"
#include "emulation/definitions.hpp"

#ifndef MACHEPS_CAST_KERNELS
#define MACHEPS_CAST_KERNELS
namespace macheps {
struct CastKernels {
    Caster::Kernel plain, tallied;
};
}  // namespace macheps
#endif

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

using VF = hn::Vec<DF32>;
using VI = hn::Vec<DI32>;
using VU = hn::Vec<DU32>;
using MI = hn::Mask<DI32>;

constexpr DF32 df;
constexpr DI32 di;
constexpr DU32 du;
constexpr std::int32_t infinity_bits = 0x7f800000, exponent_mask = 0x7f800000, magnitude_mask = 0x7fffffff;

HWY_INLINE VI as_int(VF x) { return hn::BitCast(di, x); }
HWY_INLINE VI as_int(VU x) { return hn::BitCast(di, x); }
HWY_INLINE VU as_unsigned(VI x) { return hn::BitCast(du, x); }
HWY_INLINE VF as_float(VI x) { return hn::BitCast(df, x); }
HWY_INLINE VI all(std::int32_t x) { return hn::Set(di, x); }

/// The plan, one vector per word. `mode` is one of Round but never `down`: that is `up` with the signs exchanged.
template <Round mode>
struct Rounder {
    VF scale, max, drop_power;
    VI emin_bits, max_bits, clamp_bits, overflow_bits, nan_bits;
    VI drop, first_places, drop_exponent, fraction_exponent, kept_mask, below_half, lsb, inward_flip, random_mask,
        nan_sign;
    int drop_count;

    HWY_INLINE explicit Rounder(const CastPlan& p) : drop_count(p.drop) {
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
    }

    // Both give a magnitude on the grid, its exponent unbounded above; `sign` is the sign bit of z, alone.
    // The fraction's low bits are the discarded ones, for normal and subnormal numbers alike; a carry ripples into the
    // exponent.
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

    // With c = 2^(e + drop), where e is the exponent of m but at least emin, the last place of c is the quantum q of
    // the format at m, so that m + c rounds to nearest even on the grid and the rest is exact:
    //     c     1.000 0000 0000 0000 0000 0000
    //     m                         1.xxx|xxxx xxxx ...   '|': the last place of c and of the grid
    // The other directions look at which side of m that landed. Far above the largest finite value c overflows, and
    // what comes out is large, infinite or NaN: never less than or equal to it.
    HWY_INLINE VF round_narrow(VI magnitude, VI sign, VU random) const {
        if constexpr (mode == Round::stochastic) return round_stochastic(hn::Min(magnitude, clamp_bits), random);
        VI binade = hn::And(magnitude, all(exponent_mask));
        if constexpr (mode == Round::to_odd) binade = hn::Min(binade, clamp_bits);  // it steps back from an infinity
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
            // Signed, so that one comparison serves both directions: too small where it goes away from zero, too large
            // where not.
            const VF flip = as_float(hn::And(hn::Xor(sign, inward_flip), all(INT32_MIN)));
            const auto wrong = hn::Lt(hn::Xor(nearest, flip), hn::Xor(m, flip));
            return hn::IfThenElse(wrong, hn::Add(nearest, hn::Xor(q, flip)), nearest);
        }
        const VI below =
            hn::IfThenElse(hn::RebindMask(di, hn::Gt(nearest, m)), hn::Sub(as_int(sum), all(1)), as_int(sum));
        const VI odd = hn::IfThenElse(hn::RebindMask(di, hn::Eq(nearest, m)), below, hn::Or(below, all(1)));
        return hn::NegMulAdd(e, drop_power, as_float(odd));
    }

    // significand = ulps << places | discarded, in integers; `first_places` is what places would be at 2^-127. That
    // fp32's own subnormals get a hidden bit too is of no account: all of it lies beyond the 32 bits that are seen. x86
    // shifts by 32 or more, and by "negative" counts, give 0.
    HWY_INLINE VF round_stochastic(VI magnitude, VU random) const {
        const VI binade = hn::Max(hn::And(magnitude, all(exponent_mask)), emin_bits),
                 c = hn::Add(binade, drop_exponent);
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

/// Counts per lane. What some elements add wrongly to a count is known from another count, and taken out at the end.
struct Counts {
    VI finite, nan, zero;  // of x
    VI code_zero, below_normal, at_max, beyond;
    VI largest;
    VU least;  // of the pattern minus 1, where zero is the largest number

    HWY_INLINE Counts() {
        finite = nan = zero = code_zero = below_normal = at_max = beyond = largest = hn::Zero(di);
        least = hn::Set(du, 0xffffffffu);
    }

    static HWY_INLINE void add(VI& count, MI where) { count = hn::IfThenElse(where, hn::Add(count, all(1)), count); }

    template <class R>
    HWY_INLINE void look(const R& r, VI x, VI z, VI q) {
        const MI is_finite = hn::Lt(x, all(infinity_bits));
        add(finite, is_finite);
        add(nan, hn::Gt(x, all(infinity_bits)));
        add(zero, hn::Eq(x, hn::Zero(di)));
        add(code_zero, hn::Eq(q, hn::Zero(di)));
        add(below_normal, hn::Lt(q, r.emin_bits));
        add(at_max, hn::Eq(q, r.max_bits));
        add(beyond, hn::Gt(z, r.max_bits));
        largest = hn::IfThenElse(is_finite, hn::Max(largest, x), largest);
        least = hn::Min(least, as_unsigned(hn::Sub(x, all(1))));
    }

    static HWY_INLINE std::uint64_t total(VI count) {
        HWY_ALIGN std::int32_t lane[f32_lanes];
        hn::Store(count, di, lane);
        std::uint64_t sum = 0;
        for (const std::int32_t x : lane) sum += static_cast<std::uint64_t>(x);
        return sum;
    }

    /// `count` elements were looked at, then `padding` zeros.
    HWY_INLINE void into(const CastPlan& plan, std::uint64_t count, std::uint64_t padding, Tally& tally) const {
        Tally t;
        t.count = count;
        t.nan_in = total(nan);
        t.inf_in = count + padding - total(finite) - t.nan_in;
        const std::uint64_t zeros = total(zero), code_zeros = total(code_zero);
        t.zero_in = zeros - padding;
        t.underflow = code_zeros - zeros;
        t.to_subnormal = total(below_normal) - code_zeros;
        t.overflow = total(beyond) - t.inf_in - t.nan_in;
        t.saturated = total(at_max) - (plan.infinity_is_max ? t.inf_in : 0) - (plan.nan_is_max ? t.nan_in : 0);
        t.amax = bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, largest)));
        const std::uint32_t smallest = hn::GetLane(hn::MinOfLanes(du, least)) + 1;
        t.amin_nz = smallest != 0 && smallest < 0x7f800000u ? bit_cast<float>(smallest) : 0.0f;
        tally += t;
    }
};

/// What a kernel may take for granted, to save work.
struct Known {
    bool wide = false;  ///< CastPlan::Path::wide, else narrow
    bool signless = false;
    bool limited = false;          ///< every overflow, of an infinity too, becomes the largest finite value
    bool carries_to_inf = false;   ///< wide, and an overflow is the infinity that the carry makes
    bool overflow_is_nan = false;  ///< narrow, and an overflow becomes what a NaN becomes
    bool unit_scale = false;       ///< and NaN keeps its sign
    bool tallied = false;
};

/// z = x * scale on the format's grid: everything but memory.
template <Round mode, Known known>
HWY_INLINE VF cast_vector(const Rounder<mode>& r, VF x, VU random, Counts& counts) {
    const VI u = as_int(known.unit_scale ? x : hn::Mul(x, r.scale)), sign_mask = all(INT32_MIN);
    const VI z = hn::AndNot(sign_mask, u);
    const MI is_nan = hn::RebindMask(di, hn::IsNaN(as_float(u)));
    VI q;
    if constexpr (known.limited) {
        static_assert(!known.wide);
        q = as_int(hn::Min(r.round_narrow(z, u, random), r.max));  // x86: a NaN gives the second operand
    } else if constexpr (known.carries_to_inf) {
        q = r.round_wide(z, u, random);
    } else {
        // A finite value rounded inward stays finite; an infinity does not.
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
    if constexpr (known.tallied) counts.look(r, hn::AndNot(sign_mask, as_int(x)), z, q);

    VI signs = u;
    if constexpr (known.signless) {
        const MI vanishes = hn::Or(hn::Eq(q, hn::Zero(di)), hn::Gt(q, all(infinity_bits)));
        signs = hn::IfThenZeroElse(vanishes, signs);
    } else if constexpr (!known.unit_scale) {
        signs = hn::IfThenElse(is_nan, hn::And(signs, r.nan_sign), signs);
    }
    return as_float(hn::OrAnd(q, signs, sign_mask));
}

/// Stochastic: first_element is a multiple of 4.
template <Round mode, Known known>
void cast_kernel(const CastPlan& plan, const float* in, float* out, std::int64_t n, Tally* tally,
                 std::uint64_t first_element, bool stream) {
    constexpr bool draws = mode == Round::stochastic;
    constexpr auto step = static_cast<std::int64_t>(f32_lanes);
    constexpr std::int64_t batch = draws ? Philox::chains * Philox::draw : 2 * step;
    const Rounder<mode> r(plan);
    [[maybe_unused]] Philox philox(plan.cast.key, first_element / 4);
    HWY_ALIGN std::uint32_t drawn[draws ? batch : 1];
    const auto random = [&](std::int64_t i) HWY_ATTR { return draws ? hn::Load(du, drawn + i) : hn::Zero(du); };
    Counts counts;
    std::int64_t i = 0;
    for (; i + batch <= n; i += batch) {
        if constexpr (draws) philox.next<Philox::chains>(drawn);
        for (std::int64_t j = 0; j < batch; j += step) {
            const VF y = cast_vector<mode, known>(r, hn::LoadU(df, in + i + j), random(j), counts);
            stream ? hn::Stream(y, df, out + i + j) : hn::StoreU(y, df, out + i + j);
        }
    }
    std::uint64_t padding = 0;
    for (std::int64_t j = 0; i < n; i += step, j ^= step) {
        if constexpr (draws) {
            if (j == 0) philox.next<1>(drawn);
        }
        const auto left = static_cast<std::size_t>(std::min(n - i, step));
        const F32 x = load_n(in + i, left);
        store_n(F32(cast_vector<mode, known>(r, x.v, random(j), counts)), out + i, left);
        padding += f32_lanes - left;
    }
    if (stream) hwy::FlushStream();
    if constexpr (known.tallied) counts.into(plan, static_cast<std::uint64_t>(n), padding, *tally);
}

/// Nearest even, the direction of nearly every cast, has kernels that take more for granted.
template <bool tallied>
Caster::Kernel nearest_even_kernel(const CastPlan& plan) {
    constexpr Round mode = Round::nearest_even;
    const bool unit = plan.nan_keeps_sign;
    if (plan.signless) return cast_kernel<mode, Known{.signless = true, .tallied = tallied}>;
    if (plan.path == CastPlan::Path::narrow && plan.infinity_is_max) {
        return unit ? cast_kernel<mode, Known{.limited = true, .unit_scale = true, .tallied = tallied}>
                    : cast_kernel<mode, Known{.limited = true, .tallied = tallied}>;
    }
    if (plan.path == CastPlan::Path::narrow && plan.overflow_bits == plan.nan_bits) {
        return unit ? cast_kernel<mode, Known{.overflow_is_nan = true, .unit_scale = true, .tallied = tallied}>
                    : cast_kernel<mode, Known{.overflow_is_nan = true, .tallied = tallied}>;
    }
    if (plan.path == CastPlan::Path::narrow) {
        return unit ? cast_kernel<mode, Known{.unit_scale = true, .tallied = tallied}>
                    : cast_kernel<mode, Known{.tallied = tallied}>;
    }
    if (plan.carries_to_inf) {
        return unit ? cast_kernel<mode,
                                  Known{.wide = true, .carries_to_inf = true, .unit_scale = true, .tallied = tallied}>
                    : cast_kernel<mode, Known{.wide = true, .carries_to_inf = true, .tallied = tallied}>;
    }
    return cast_kernel<mode, Known{.wide = true, .tallied = tallied}>;
}

template <Round mode, bool tallied>
Caster::Kernel kernel_of(const CastPlan& plan) {
    if (plan.path == CastPlan::Path::wide) return cast_kernel<mode, Known{.wide = true, .tallied = tallied}>;
    return plan.signless ? cast_kernel<mode, Known{.signless = true, .tallied = tallied}>
                         : cast_kernel<mode, Known{.tallied = tallied}>;
}

template <bool tallied>
Caster::Kernel kernel_of(const CastPlan& plan) {
    switch (plan.cast.round) {
        case Round::nearest_even:
            return nearest_even_kernel<tallied>(plan);
        case Round::nearest_away:
            return kernel_of<Round::nearest_away, tallied>(plan);
        case Round::toward_zero:
            return kernel_of<Round::toward_zero, tallied>(plan);
        case Round::stochastic:
            return kernel_of<Round::stochastic, tallied>(plan);
        case Round::to_odd:
            return kernel_of<Round::to_odd, tallied>(plan);
        default:
            return kernel_of<Round::up, tallied>(plan);  // down is up with the signs exchanged
    }
}

}  // namespace

CastKernels cast_kernels(const CastPlan& plan) { return {kernel_of<false>(plan), kernel_of<true>(plan)}; }

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace N_AVX2 {
CastKernels cast_kernels(const CastPlan& plan);
}
namespace N_AVX3 {
CastKernels cast_kernels(const CastPlan& plan);
}

namespace {

void scalar_kernel(const CastPlan& plan, const float* in, float* out, std::int64_t n, Tally* tally,
                   std::uint64_t first_element, bool) {
    for (std::int64_t i = 0; i < n; ++i) {
        const float q = definition::cast_element(plan.cast, in[i], first_element + static_cast<std::uint64_t>(i));
        if (tally != nullptr) tally->add(plan.cast.format, in[i], in[i] * plan.cast.encode_scale, q);
        out[i] = q;
    }
}

/// Lane counts have 32 bits, and a block's operands and results fit the second-level cache.
constexpr std::int64_t block = 1 << 16;

std::int64_t third_level_cache_bytes() {
    static const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? bytes : 32 << 20;
}

std::int32_t magnitude_bits(Format f, std::uint64_t code) {
    return bit_cast<std::int32_t>(decode(f, code << f.padding));
}

}  // namespace

CastPlan::CastPlan(const Cast& c) : cast(c) {
    const Format& f = c.format;
    const float scale = c.encode_scale;
    const bool scales =
        scale != 0 && scale - scale == 0;  // zero, Inf and NaN make numbers that the counts do not foresee
    if (f.encoding != Encoding::binary || f.precision < 2 || f.precision > 24 || f.emin() < -126 || !scales) return;
    if (decode64(f, f.max_finite_code() << f.padding) > 0x1.fffffep127) return;

    const bool limited = c.overflow == Overflow::saturate || !f.can_overflow();
    drop = 24 - f.precision;
    emin_bits = (f.emin() + 127) << 23;
    max_bits = magnitude_bits(f, f.max_finite_code());
    overflow_bits = limited ? max_bits : f.has_inf() ? 0x7f800000 : 0x7fc00000;
    nan_bits = f.has_nan() ? 0x7fc00000 : max_bits;
    signless = !f.has_negative_zero();
    nan_keeps_sign = scale == 1 && f.has_nan();  // a product that is NaN is the canonical one
    infinity_is_max = limited;
    carries_to_inf = !limited && f.has_inf() && f.exponent_bits() == 8;
    nan_is_max = !f.has_nan();

    const int emax = (max_bits >> 23) - 127;
    clamp_bits = (emax + 128) << 23;
    if (f.emin() == -126 && !signless) {
        path = Path::wide;
    } else if (drop >= 1 && emax + 1 + drop <= 127 && f.emin() >= -64) {
        path = Path::narrow;
    }
}

Caster::Caster(Simd simd, const Cast& cast) : plan_(cast), plain_(scalar_kernel), tallied_(scalar_kernel) {
    if (cast.random_bits < 0 || cast.random_bits > 32) {
        throw Error({.what = "a cast with " + std::to_string(cast.random_bits) + " random bits",
                     .where = "Cast::random_bits",
                     .fix = "0 to 32"});
    }
    if (plan_.path == CastPlan::Path::scalar || simd == Simd::scalar) return;
    const CastKernels kernels = simd == Simd::avx512 ? N_AVX3::cast_kernels(plan_) : N_AVX2::cast_kernels(plan_);
    plain_ = kernels.plain;
    tallied_ = kernels.tallied;
}

void Caster::run(const float* in, float* out, std::int64_t n, Tally* tally, std::uint64_t first_element,
                 bool stream) const {
    const Kernel kernel = tally != nullptr ? tallied_ : plain_;
    // The kernels draw random bits in blocks of four.
    if (plan_.cast.round == Round::stochastic && kernel != scalar_kernel && first_element % 4 != 0) {
        const std::int64_t head = std::min<std::int64_t>(n, static_cast<std::int64_t>(4 - first_element % 4));
        scalar_kernel(plan_, in, out, head, tally, first_element, false);
        in += head, out += head, n -= head, first_element += static_cast<std::uint64_t>(head), stream = false;
    }
    for (std::int64_t i = 0; i < n; i += block) {
        kernel(plan_, in + i, out + i, std::min(block, n - i), tally, first_element + static_cast<std::uint64_t>(i),
               stream);
    }
}

void cast_range(Simd simd, const float* in, float* out, std::int64_t n, const Cast& cast, Tally* tally,
                std::uint64_t first_element) {
    Caster(simd, cast)(in, out, n, tally, first_element);
}

void cast_array(Simd simd, ThreadPool& pool, const float* in, float* out, std::int64_t n, const Cast& cast,
                Tally* tally, std::int64_t first_element) {
    const Caster caster(simd, cast);
    const std::int64_t bytes = n * static_cast<std::int64_t>(sizeof(float));
    const bool stream =
        in != out && bytes > third_level_cache_bytes() && reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
    std::mutex adding;
    pool.run((n + block - 1) / block, [&](std::int64_t b) {
        Tally part;
        caster.run(in + b * block, out + b * block, std::min(block, n - b * block), tally != nullptr ? &part : nullptr,
                   static_cast<std::uint64_t>(first_element + b * block), stream);
        if (tally != nullptr) {
            const std::lock_guard lock(adding);
            *tally += part;  // counts, max and min: the order does not matter
        }
    });
}

}  // namespace macheps
#endif
