// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/casts/cast.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "core/error.hpp"
#include "emulation/cpu/ops/casts/cast-inl.hpp"
#include "emulation/cpu/ops/casts/cast.hpp"
#include "emulation/cpu/simd/philox-inl.hpp"
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

using namespace vector_cast;

/// Counts for a Tally, per lane. For speed, some counts include elements that the Tally excludes. The number of these
/// elements follows from the other counts, and into() subtracts it.
struct Counts {
    std::int64_t known_finite = 0;
    VI finite, nan, zero;  // counts of operands x; those in known_finite are not counted in `finite`
    VI code_zero, below_normal, at_max, beyond;
    VI largest;
    VU least;  // minimum of (bits of |x|) - 1; for a zero, this wraps to the largest number

    HWY_INLINE Counts() {
        finite = nan = zero = code_zero = below_normal = at_max = beyond = largest = hn::Zero(di);
        least = hn::Set(du, 0xffffffffu);
    }

    static HWY_INLINE void add(VI& count, MI where) { count = hn::IfThenElse(where, hn::Add(count, all(1)), count); }

    template <bool all_finite, class R>
    HWY_INLINE void look(const R& r, const Seen& s) {
        if constexpr (all_finite) {
            known_finite += static_cast<std::int64_t>(f32_lanes);
            largest = hn::Max(largest, s.x);
        } else {
            const MI is_finite = hn::Lt(s.x, all(infinity_bits));
            add(finite, is_finite);
            add(nan, hn::Gt(s.x, all(infinity_bits)));
            largest = hn::IfThenElse(is_finite, hn::Max(largest, s.x), largest);
        }
        add(zero, hn::Eq(s.x, hn::Zero(di)));
        add(code_zero, hn::Eq(s.q, hn::Zero(di)));
        add(below_normal, hn::Lt(s.q, r.emin_bits));
        add(at_max, hn::Eq(s.q, r.max_bits));
        add(beyond, hn::Gt(s.z, r.max_bits));
        least = hn::Min(least, as_unsigned(hn::Sub(s.x, all(1))));
    }

    static HWY_INLINE std::uint64_t total(VI count) {
        HWY_ALIGN std::int32_t lane[f32_lanes];
        hn::Store(count, di, lane);
        std::uint64_t sum = 0;
        for (const std::int32_t x : lane) sum += static_cast<std::uint64_t>(x);
        return sum;
    }

    /// Adds the counts of `count` elements to `tally`. Subtracts the `padding` zeros that filled the last vector and
    /// were counted as well.
    HWY_INLINE void into(const CastPlan& plan, std::uint64_t count, std::uint64_t padding, Tally& tally) const {
        Tally t;
        t.count = count;
        t.nan_in = total(nan);
        t.inf_in = count + padding - static_cast<std::uint64_t>(known_finite) - total(finite) - t.nan_in;
        const std::uint64_t zeros = total(zero), code_zeros = total(code_zero);
        t.zero_in = zeros - padding;
        t.underflow = code_zeros - zeros;
        t.to_subnormal = plan.cast.format.encoding == Encoding::binary ? total(below_normal) - code_zeros : 0;
        t.overflow = total(beyond) - t.inf_in - t.nan_in;
        t.saturated = total(at_max) - (plan.infinity_is_max ? t.inf_in : 0) - (plan.nan_is_max ? t.nan_in : 0);
        t.amax = bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, largest)));
        const std::uint32_t smallest = hn::GetLane(hn::MinOfLanes(du, least)) + 1;
        t.amin_nz = smallest != 0 && smallest < 0x7f800000u ? bit_cast<float>(smallest) : 0.0f;
        tally += t;
    }
};

/// Prefetches data that will be read soon. Prefetching past the end of an array is harmless.
template <class T>
HWY_INLINE void prefetch(const T* p, Traffic traffic) {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    if (traffic == Traffic::streamed) _mm_prefetch(reinterpret_cast<const char*>(address + 8192), _MM_HINT_NTA);
    if (traffic == Traffic::prefetched) _mm_prefetch(reinterpret_cast<const char*>(address + 4096), _MM_HINT_T0);
}

/// Casts n elements. With stochastic rounding, first_element must be a multiple of 4.
template <Round mode, Known known>
void cast_kernel(const CastPlan& plan, const float* in, float* out, std::int64_t n, Tally* tally,
                 std::uint64_t first_element, Traffic traffic) {
    constexpr bool draws = mode == Round::stochastic;
    constexpr auto step = static_cast<std::int64_t>(f32_lanes);
    constexpr std::int64_t batch = draws ? Philox::chains * Philox::draw : 2 * step;
    constexpr std::int64_t line = 16;
    const VectorRounder<mode> r(plan);
    [[maybe_unused]] Philox philox(plan.cast.key, first_element / 4);
    HWY_ALIGN std::uint32_t drawn[draws ? batch : 1];
    const auto random = [&](std::int64_t i) HWY_ATTR { return draws ? hn::Load(du, drawn + i) : hn::Zero(du); };
    [[maybe_unused]] Counts counts;
    Seen seen[2];
    std::int64_t i = 0;
    for (; i + batch <= n; i += batch) {
        if constexpr (draws) philox.next<Philox::chains>(drawn);
        for (std::int64_t j = 0; j < batch; j += 2 * step) {
            const std::int64_t k = i + j;
            prefetch(in + k, traffic);
            if (step == line) prefetch(in + k + step, traffic);
            const VF y0 = cast_vector<mode, known>(r, hn::LoadU(df, in + k), random(j), seen[0]);
            const VF y1 = cast_vector<mode, known>(r, hn::LoadU(df, in + k + step), random(j + step), seen[1]);
            traffic == Traffic::streamed ? hn::Stream(y0, df, out + k) : hn::StoreU(y0, df, out + k);
            traffic == Traffic::streamed ? hn::Stream(y1, df, out + k + step) : hn::StoreU(y1, df, out + k + step);
            if constexpr (known.tallied) {
                if (HWY_LIKELY(hn::AllTrue(di, hn::Lt(hn::Max(seen[0].x, seen[1].x), all(infinity_bits))))) {
                    for (const Seen& s : seen) counts.template look<true>(r, s);
                } else {
                    for (const Seen& s : seen) counts.template look<false>(r, s);
                }
            }
        }
    }
    std::uint64_t padding = 0;
    for (std::int64_t j = 0; i < n; i += step, j ^= step) {
        if constexpr (draws) {
            if (j == 0) philox.next<1>(drawn);
        }
        const auto left = static_cast<std::size_t>(std::min(n - i, step));
        const F32 x = load_n(in + i, left);
        store_n(F32(cast_vector<mode, known>(r, x.v, random(j), seen[0])), out + i, left);
        if constexpr (known.tallied) counts.template look<false>(r, seen[0]);
        padding += f32_lanes - left;
    }
    if (traffic == Traffic::streamed) hwy::FlushStream();
    if constexpr (known.tallied) counts.into(plan, static_cast<std::uint64_t>(n), padding, *tally);
}

/// Rounds to e8m0fnu, whose numbers are powers of two. The kernel adds an amount that depends on the rounding mode and
/// carries into the exponent if the result is rounded up. Then it drops the fraction. The smallest power, 2^-127, is
/// subnormal in fp32. It is the result for all magnitudes up to `lowest`, which is 2^-127 or, when rounding to nearest,
/// just below the tie at 1.5 * 2^-127 (0x600000).
template <bool unit_scale, bool limited>
void power_kernel(const CastPlan& plan, const float* in, float* out, std::int64_t n, Tally*, std::uint64_t,
                  Traffic traffic) {
    constexpr auto step = static_cast<std::int64_t>(f32_lanes);
    const Round round = plan.cast.round;
    const bool nearest = round == Round::nearest_even || round == Round::nearest_away;
    const VI least = all(0x400000), lowest = all(nearest ? 0x5fffff : 0x400000);
    const VI addend = all(nearest ? 0x400000 : round == Round::up ? 0x7fffff : 0);
    const VI limit = all(plan.overflow_bits), infinity = all(infinity_bits), nan = all(plan.nan_bits);
    const VF scale = hn::Set(df, plan.cast.encode_scale);
    const auto rounded = [&](VF x) HWY_ATTR {
        const VI u = hn::And(as_int(unit_scale ? x : hn::Mul(x, scale)), all(magnitude_mask));
        const VI z = hn::Min(u, infinity), sum = hn::Add(z, addend);
        VI q = hn::Max(hn::And(sum, all(exponent_mask)), least);
        q = hn::IfThenElse(hn::Gt(z, lowest), q, least);
        q = hn::IfThenElse(hn::Lt(sum, infinity), q, limit);
        // Unless `limited`, `limit` is NaN, so q is already NaN if u is.
        return as_float(limited ? hn::IfThenElse(hn::Gt(u, infinity), nan, q) : q);
    };
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        prefetch(in + i, traffic);
        const VF y = rounded(hn::LoadU(df, in + i));
        traffic == Traffic::streamed ? hn::Stream(y, df, out + i) : hn::StoreU(y, df, out + i);
    }
    const auto left = static_cast<std::size_t>(n - i);
    if (left != 0) store_n(F32(rounded(load_n(in + i, left).v)), out + i, left);
    if (traffic == Traffic::streamed) hwy::FlushStream();
}

Caster::Kernel power_kernel_for(const CastPlan& plan) {
    const bool unit = plan.cast.encode_scale == 1;
    if (plan.infinity_is_max) return unit ? power_kernel<true, true> : power_kernel<false, true>;
    return unit ? power_kernel<true, false> : power_kernel<false, false>;
}

/// Returns the general kernel for the plan's path. The rounding direction is a template argument, while the kernel
/// reads most other properties from the plan.
template <Round mode, bool tallied>
Caster::Kernel kernel_of(const CastPlan& plan) {
    if (plan.path == CastPlan::Path::wide) return cast_kernel<mode, Known{.wide = true, .tallied = tallied}>;
    return plan.signless ? cast_kernel<mode, Known{.signless = true, .tallied = tallied}>
                         : cast_kernel<mode, Known{.tallied = tallied}>;
}

// Nearly every cast rounds to nearest even, so this rounding mode has kernels that fix more properties of the cast at
// compile time.
#if HWY_TARGET == HWY_AVX3

/// Returns the kernel for `known`, with unit_scale set if the plan's scale is 1.
template <Known known>
Caster::Kernel scaled_or_not(const CastPlan& plan) {
    constexpr auto unit = [](Known k) { return k.unit_scale = true, k; };
    return plan.cast.encode_scale == 1 ? cast_kernel<Round::nearest_even, unit(known)>
                                       : cast_kernel<Round::nearest_even, known>;
}

template <bool tallied>
Caster::Kernel nearest_even_kernel(const CastPlan& plan) {
    if constexpr (tallied) {
        if (plan.carries_to_inf) {
            return cast_kernel<Round::nearest_even, Known{.wide = true, .carries_to_inf = true, .tallied = true}>;
        }
        if (plan.path == CastPlan::Path::narrow && !plan.signless && !plan.nan_is_max) {
            return plan.infinity_is_max ? cast_kernel<Round::nearest_even, Known{.limited = true, .tallied = true}>
                                        : cast_kernel<Round::nearest_even, Known{.beyond = true, .tallied = true}>;
        }
        return kernel_of<Round::nearest_even, true>(plan);
    } else {
        if (plan.carries_to_inf) return scaled_or_not<Known{.wide = true, .carries_to_inf = true}>(plan);
        if (plan.path == CastPlan::Path::wide) {
            return plan.infinity_is_max && !plan.nan_is_max ? scaled_or_not<Known{.wide = true, .limited = true}>(plan)
                                                            : kernel_of<Round::nearest_even, false>(plan);
        }
        if (plan.signless && plan.nan_is_max) {
            return scaled_or_not<Known{.signless = true, .limited = true, .no_nan = true}>(plan);
        }
        if (plan.signless) {
            return plan.infinity_is_max ? scaled_or_not<Known{.signless = true, .limited = true}>(plan)
                                        : scaled_or_not<Known{.signless = true, .beyond = true}>(plan);
        }
        if (plan.nan_is_max) return scaled_or_not<Known{.limited = true, .no_nan = true}>(plan);
        if (plan.infinity_is_max) return scaled_or_not<Known{.limited = true}>(plan);
        if (plan.cast.format == fp16) return scaled_or_not<Known{.fp16 = true}>(plan);
        return scaled_or_not<Known{.beyond = true}>(plan);
    }
}

#else

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

#endif

template <bool tallied>
Caster::Kernel kernel_for(const CastPlan& plan) {
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

CastKernels cast_kernels(const CastPlan& plan) {
    if (plan.path == CastPlan::Path::power_of_two) return {power_kernel_for(plan), nullptr};
    return {kernel_for<false>(plan), kernel_for<true>(plan)};
}

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
                   std::uint64_t first_element, Traffic) {
    for (std::int64_t i = 0; i < n; ++i) {
        const float q = definition::cast_element(plan.cast, in[i], first_element + static_cast<std::uint64_t>(i));
        if (tally != nullptr) tally->add(plan.cast.format, in[i], in[i] * plan.cast.encode_scale, q);
        out[i] = q;
    }
}

/// Number of elements in a block. It is small enough that the 32-bit counts of a lane cannot overflow, and that the
/// operands and results of a block fit in the L2 cache.
constexpr std::int64_t block = 1 << 16;

/// Returns the array size above which casts assume that arrays do not stay in the caches: the size of the L3 cache, but
/// at most 32 MiB. The limit is needed because the system may report the sum of a socket's caches, and one core can use
/// only a part of them.
std::int64_t third_level_cache_bytes() {
    constexpr long limit = 32 << 20;
#if defined(_SC_LEVEL3_CACHE_SIZE)
    static const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? std::min(bytes, limit) : limit;
#else
    return limit;
#endif
}

}  // namespace

Caster::Caster(Simd simd, const Cast& cast) : plan_(cast), plain_(scalar_kernel), tallied_(scalar_kernel) {
    if (cast.random_bits < 0 || cast.random_bits > 32) {
        throw Error({.what = "a cast cannot use " + std::to_string(cast.random_bits) + " random bits",
                     .where = "Cast::random_bits",
                     .fix = "use 0 to 32"});
    }
    if (cast.round == Round::stochastic && !cast.can_draw()) detail::refuse_to_truncate();
    if (plan_.path == CastPlan::Path::scalar || simd == Simd::scalar) return;
    const auto never_called = [](const CastPlan&) -> CastKernels { return {}; };
    const CastKernels kernels = MACHEPS_CHOOSE_TARGET(simd, never_called, cast_kernels)(plan_);
    plain_ = kernels.plain;
    if (kernels.tallied != nullptr) tallied_ = kernels.tallied;
}

void Caster::run(const float* in, float* out, std::int64_t n, Tally* tally, std::uint64_t first_element,
                 Traffic traffic) const {
    const Kernel kernel = tally != nullptr ? tallied_ : plain_;
    // The vector kernels draw random bits in blocks of four, so the scalar kernel casts the elements before the first
    // block.
    if (plan_.cast.round == Round::stochastic && kernel != scalar_kernel && first_element % 4 != 0) {
        const std::int64_t head = std::min<std::int64_t>(n, static_cast<std::int64_t>(4 - first_element % 4));
        scalar_kernel(plan_, in, out, head, tally, first_element, Traffic::cached);
        in += head, out += head, n -= head, first_element += static_cast<std::uint64_t>(head);
        traffic = Traffic::cached;
    }
    for (std::int64_t i = 0; i < n; i += block) {
        kernel(plan_, in + i, out + i, std::min(block, n - i), tally, first_element + static_cast<std::uint64_t>(i),
               traffic);
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
    Traffic traffic = Traffic::cached;
    if (bytes > third_level_cache_bytes()) {
        const bool streams = in != out && reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
        traffic = streams ? Traffic::streamed : Traffic::prefetched;
    }
    std::mutex adding;
    pool.run((n + block - 1) / block, [&](std::int64_t b) {
        Tally part;
        caster.run(in + b * block, out + b * block, std::min(block, n - b * block), tally != nullptr ? &part : nullptr,
                   static_cast<std::uint64_t>(first_element + b * block), traffic);
        if (tally != nullptr) {
            const std::lock_guard lock(adding);
            *tally += part;  // counts, max and min: the order does not matter
        }
    });
}

}  // namespace macheps
#endif
