// SPDX-License-Identifier: Apache-2.0
// The lane rule of emulation/reduce.hpp on the vectors of emulation/cpu/simd/vec-inl.hpp. Included once per SIMD
// target.
#include "emulation/cpu/simd/vec-inl.hpp"
#include "emulation/reduce.hpp"

#if defined(MACHEPS_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_LANES_INL
#undef MACHEPS_LANES_INL
#else
#define MACHEPS_LANES_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

inline constexpr std::int64_t vector_step = static_cast<std::int64_t>(f32_lanes);
inline constexpr std::int64_t lane_registers = lanes / vector_step;  ///< 2 on AVX-512, 4 on AVX2

/// Replaces every NaN by the canonical quiet NaN (emulation/definitions.hpp).
HWY_INLINE F32 canonical(F32 x) { return select(x == x, x, math::canonical_nan()); }

/// Adds the 32 lanes in a tree: each step adds the second half of the lanes to the first half. The first steps add
/// registers; the others are within one register.
HWY_INLINE float fold_lanes(F32 (&lane)[lane_registers]) {
    const hn::Half<DF32> half;
#if HWY_TARGET == HWY_AVX3
    const auto all = lane[0] + lane[1];
    const auto eight = hn::Add(hn::LowerHalf(half, all.v), hn::UpperHalf(half, all.v));
    const hn::Half<decltype(half)> quarter;
    const auto four = hn::Add(hn::LowerHalf(quarter, eight), hn::UpperHalf(quarter, eight));
#else
    const auto eight = (lane[0] + lane[2]) + (lane[1] + lane[3]);
    const auto four = hn::Add(hn::LowerHalf(half, eight.v), hn::UpperHalf(half, eight.v));
#endif
    const auto two = hn::Add(four, hn::Shuffle1032(four));
    return hn::GetLane(hn::Add(two, hn::Shuffle2301(two)));
}

/// Sums at most 1024 terms by the lane rule. `term(i, count)` returns elements i .. i + count - 1 in the first lanes.
/// The other lanes of its result are left out of the sum, because adding +0 for them would turn a sum of -0 into +0.
template <class Term>
HWY_INLINE float chunk_sum(std::int64_t first, std::int64_t n, const Term& term) {
    F32 lane[lane_registers];
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        for (std::int64_t r = 0; r < lane_registers; ++r) {
            lane[r] = lane[r] + term(first + i + r * vector_step, f32_lanes);
        }
    }
    for (std::int64_t r = 0; i < n; ++r, i += vector_step) {
        const auto count = static_cast<std::size_t>(min_of(vector_step, n - i));
        lane[r] = select(first_n(count), lane[r] + term(first + i, count), lane[r]);
    }
    return fold_lanes(lane);
}

/// Sums any number of terms by the lane rule: the sums of the chunks are summed by the same rule.
template <class Term>
HWY_INLINE float vector_sum(std::int64_t n, const Term& term) {
    if (n <= chunk) return chunk_sum(0, n, term);
    return lane_sum<float>((n + chunk - 1) / chunk, [&](std::int64_t c) HWY_ATTR {
        return chunk_sum(c * chunk, min_of(chunk, n - c * chunk), term);
    });
}

/// Computes out[i] = canonical(f(i)), a vector at a time. `f(i, count)` returns elements i .. i + count - 1 in the
/// first lanes.
template <class Function>
HWY_INLINE void for_each_vector(std::int64_t n, float* out, const Function& f) {
    std::int64_t i = 0;
    for (; i + vector_step <= n; i += vector_step) store(canonical(f(i, f32_lanes)), out + i);
    if (i < n) {
        const auto count = static_cast<std::size_t>(n - i);
        store_n(canonical(f(i, count)), out + i, count);
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
