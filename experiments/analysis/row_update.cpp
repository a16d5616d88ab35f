// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/row_update.hpp"

#include <cmath>

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

template <class Real, class Round>
[[gnu::target("avx2,fma")]] void row_avx2(Round round, Real l, const Real* u, Real* a, std::int64_t n) {
    row_loop(by_masks(round), l, u, a, n);
}
template <class Real, class Round>
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,fma")]] void row_avx512(Round round, Real l, const Real* u,
                                                                          Real* a, std::int64_t n) {
    row_loop(round, l, u, a, n);
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
