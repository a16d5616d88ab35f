// SPDX-License-Identifier: Apache-2.0
// The inner loop of the factorisations: a row minus a multiple of another one, every operation rounded to a format.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/study/rounder.hpp"

#include <cstdint>

namespace macheps::study {

/// The roundings of `Real` itself: fp32 in float, fp64 in double.
struct Unrounded {
    template <class Real>
    [[gnu::always_inline]] Real operator()(Real x) const {
        return x;
    }
};

/// a[j] = round(a[j] - round(l u[j])), on vectors of the chosen width. Which NaN a NaN is depends on the width.
template <class Real, class Round>
void update_row(Simd simd, const Round& round, Real l, const Real* u, Real* a, std::int64_t n);
/// a[j] = round(a[j] / by).
template <class Real, class Round>
void divide_row(Simd simd, const Round& round, Real by, Real* a, std::int64_t n);
/// The index of the first of the largest magnitudes of n numbers, n at least 1. No NaN is one, unless it is the first number.
template <class Real>
std::int64_t largest_magnitude(Simd simd, const Real* a, std::int64_t n);
/// a[j] = round(fma(-l, u[j], a[j])).
template <class Real, class Round>
void update_row_fused(Simd simd, const Round& round, Real l, const Real* u, Real* a, std::int64_t n);

}  // namespace macheps::study
