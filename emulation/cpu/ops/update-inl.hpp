// SPDX-License-Identifier: Apache-2.0
// Code that the optimiser kernels share: scratch memory for a chunk, the statistics of a step, and the rounding of the
// stored values. Included once per SIMD target.
#include "emulation/cpu/ops/casts/cast.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

#if defined(MACHEPS_UPDATE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_UPDATE_INL
#undef MACHEPS_UPDATE_INL
#else
#define MACHEPS_UPDATE_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Intermediate values of one chunk, kept between the passes over the chunk.
struct UpdateScratch {
    alignas(64) float before[chunk], wanted[chunk];  ///< p before the step, and the unrounded update of p
    alignas(64) float moment[chunk];                 ///< v before the step
    alignas(64) float a[chunk], b[chunk];
};

inline constexpr std::int64_t f64_step = static_cast<std::int64_t>(f64_lanes);

/// Adds the counts of a chunk to `stats` and returns the sums of the chunk, with the same bits as the scalar
/// definition. The last n mod 32 elements are processed one by one.
inline definition::UpdateSums observe(UpdateStats& stats, const float* before, const float* after, const float* wanted,
                                      std::int64_t n) {
    F64 sums[3][lanes / f64_step];
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        for (std::int64_t l = 0; l < lanes; l += vector_step) {
            const F32 old_p = load(before + i + l), new_p = load(after + i + l), u = load(wanted + i + l);
            const M32 nonzero = u != F32(0.0f);
            stats.nonzero += count(nonzero);
            stats.lost += count(nonzero & (new_p == old_p));
            for (const bool upper : {false, true}) {
                const auto half = [=](F32 x) HWY_ATTR { return upper ? promote_upper(x) : promote_lower(x); };
                const F64 moved = half(new_p) - half(old_p), w = half(u);
                const std::int64_t at = l / f64_step + (upper ? 1 : 0);
                sums[0][at] = sums[0][at] + w * w;
                sums[1][at] = sums[1][at] + moved * moved;
                sums[2][at] = sums[2][at] + moved * w;
            }
        }
    }
    stats.count += static_cast<std::uint64_t>(i);
    double lane[3][lanes];
    for (int s = 0; s < 3; ++s) {
        for (std::int64_t l = 0; l < lanes; l += f64_step) store(sums[s][l / f64_step], &lane[s][l]);
    }
    for (std::int64_t l = 0; i < n; ++i, ++l) {
        const definition::UpdateSums term = definition::observe(stats, before[i], after[i], wanted[i]);
        lane[0][l] += term.wanted2;
        lane[1][l] += term.moved2;
        lane[2][l] += term.moved_wanted;
    }
    return {detail::fold_lanes(lane[0]), detail::fold_lanes(lane[1]), detail::fold_lanes(lane[2])};
}

/// Applies definition::observe_moment() to a chunk: counts the second moments that should have changed but did not.
inline void observe_moments(UpdateStats& stats, const float* g, const float* before, const float* after,
                            std::int64_t n) {
    const F32 zero;
    std::int64_t i = 0;
    for (; i + vector_step <= n; i += vector_step) {
        const F32 old_v = load(before + i);
        stats.frozen += count((load(after + i) == old_v) & ((load(g + i) != zero) | (old_v != zero)));
    }
    for (; i < n; ++i) definition::observe_moment(stats, g[i], before[i], after[i]);
}

/// Casts values that a vector loop has just written, unless `cast` is the identity.
inline void finish(const Cast& cast, const Caster& caster, float* x, std::int64_t first, std::int64_t n) {
    if (!cast.is_identity()) caster(x, x, n, nullptr, static_cast<std::uint64_t>(first));
}

template <class Values>
HWY_INLINE void for_each_index(std::int64_t n, const Values& f) {
    for (std::int64_t i = 0; i < n; i += vector_step) f(i, static_cast<std::size_t>(min_of(vector_step, n - i)));
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
