// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/row_update.hpp"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace macheps::analysis {

namespace {

// One text for every instruction set: the compiler makes vectors of it. A rounding is passed by value, so that its constants
// stay in registers.
template <class Real, class Round>
[[gnu::always_inline]] inline void row_loop(Round round, Real l, const Real* __restrict u, Real* __restrict a,
                                            std::int64_t n) {
    for (std::int64_t j = 0; j < n; ++j) a[j] = round(a[j] - round(l * u[j]));
}

template <class Real, class Round>
[[gnu::always_inline]] inline void fused_row_loop(Round round, Real l, const Real* __restrict u, Real* __restrict a,
                                                  std::int64_t n) {
    for (std::int64_t j = 0; j < n; ++j) a[j] = round(std::fma(-l, u[j], a[j]));
}

#if defined(__x86_64__)
/// The rounding in the form that becomes AVX2 vectors.
template <class Real>
auto by_masks(const Rounder<Real>& round) {
    return [round](Real x) __attribute__((always_inline)) { return round.template rounded<true>(x); };
}
Unrounded by_masks(Unrounded round) { return round; }

/// The row as whole vectors, and what is left of it as one more.
template <int width, class Real, class Round>
[[gnu::always_inline]] inline void row_in_vectors(Round round, Real l, const Real* u, Real* a, std::int64_t n) {
    const std::int64_t rest = n % width, whole = n - rest;
    row_loop(round, l, u, a, whole);
    if (rest == 0) return;
    Real x[width] = {}, y[width] = {};
    std::copy_n(u + whole, rest, x);
    std::copy_n(a + whole, rest, y);
    row_loop(round, l, x, y, width);
    std::copy_n(y, rest, a + whole);
}

template <class Real, class Round>
[[gnu::target("avx2,fma")]] void row_avx2(Round round, Real l, const Real* u, Real* a, std::int64_t n) {
    row_in_vectors<32 / sizeof(Real)>(by_masks(round), l, u, a, n);
}

/// Rows of fp16: the processor's conversions round to nearest even.
[[gnu::target("avx2,f16c")]] void half_row_avx2(float l, const float* u, float* a, std::int64_t n) {
    constexpr std::int64_t width = 8;
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    const __m256 factor = _mm256_set1_ps(l);
    const auto row = [factor](const float* x, float* y) __attribute__((target("avx2,f16c"))) {
        const __m256 p = _mm256_mul_ps(factor, _mm256_loadu_ps(x));
        const __m256 d = _mm256_sub_ps(_mm256_loadu_ps(y), _mm256_cvtph_ps(_mm256_cvtps_ph(p, nearest)));
        _mm256_storeu_ps(y, _mm256_cvtph_ps(_mm256_cvtps_ph(d, nearest)));
    };
    std::int64_t j = 0;
    for (; j + width <= n; j += width) row(u + j, a + j);
    if (j == n) return;
    float x[width] = {}, y[width] = {};
    std::copy_n(u + j, n - j, x);
    std::copy_n(a + j, n - j, y);
    row(x, y);
    std::copy_n(y, n - j, a + j);
}

/// The forms with masks: GCC 12's plain ones read a register that they call undefined.
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw")]] void half_row_avx512(float l, const float* u, float* a, std::int64_t n) {
    constexpr std::int64_t width = 16;
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    const __m512 factor = _mm512_set1_ps(l);
    for (std::int64_t j = 0; j < n; j += width) {
        const auto mask = static_cast<__mmask16>(n - j >= width ? 0xffff : (1 << (n - j)) - 1);
        const __m512 p = _mm512_mul_ps(factor, _mm512_maskz_loadu_ps(mask, u + j));
        const __m512 product = _mm512_maskz_cvtph_ps(mask, _mm512_maskz_cvtps_ph(mask, p, nearest));
        const __m512 d = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, a + j), product);
        _mm512_mask_storeu_ps(a + j, mask, _mm512_maskz_cvtph_ps(mask, _mm512_maskz_cvtps_ph(mask, d, nearest)));
    }
}
template <class Real, class Round>
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,fma")]] void row_avx512(Round round, Real l, const Real* u,
                                                                          Real* a, std::int64_t n) {
    row_in_vectors<64 / sizeof(Real)>(round, l, u, a, n);
}
template <class Real, class Round>
[[gnu::target("avx2,fma")]] void fused_row_avx2(Round round, Real l, const Real* u, Real* a, std::int64_t n) {
    fused_row_loop(by_masks(round), l, u, a, n);
}
template <class Real, class Round>
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,fma")]] void fused_row_avx512(Round round, Real l, const Real* u,
                                                                                Real* a, std::int64_t n) {
    fused_row_loop(round, l, u, a, n);
}
#endif

}  // namespace

template <class Real, class Round>
void update_row(Simd simd, const Round& round, Real l, const Real* u, Real* a, std::int64_t n) {
#if defined(__x86_64__)
    if constexpr (std::is_same_v<Round, Rounder<float>>) {
        if (round.is_half() && simd == Simd::avx512) return half_row_avx512(l, u, a, n);
        if (round.is_half() && simd == Simd::avx2) return half_row_avx2(l, u, a, n);
    }
    if (simd == Simd::avx512) return row_avx512(round, l, u, a, n);
    if (simd == Simd::avx2) return row_avx2(round, l, u, a, n);
#endif
    (void)simd;
    row_loop(round, l, u, a, n);
}

template <class Real, class Round>
void update_row_fused(Simd simd, const Round& round, Real l, const Real* u, Real* a, std::int64_t n) {
#if defined(__x86_64__)
    if (simd == Simd::avx512) return fused_row_avx512(round, l, u, a, n);
    if (simd == Simd::avx2) return fused_row_avx2(round, l, u, a, n);
#endif
    (void)simd;
    fused_row_loop(round, l, u, a, n);
}

template void update_row(Simd, const Rounder<float>&, float, const float*, float*, std::int64_t);
template void update_row(Simd, const Rounder<double>&, double, const double*, double*, std::int64_t);
template void update_row(Simd, const Unrounded&, float, const float*, float*, std::int64_t);
template void update_row(Simd, const Unrounded&, double, const double*, double*, std::int64_t);
template void update_row_fused(Simd, const Rounder<double>&, double, const double*, double*, std::int64_t);
template void update_row_fused(Simd, const Unrounded&, float, const float*, float*, std::int64_t);
template void update_row_fused(Simd, const Unrounded&, double, const double*, double*, std::int64_t);

}  // namespace macheps::analysis
