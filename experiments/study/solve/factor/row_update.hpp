// SPDX-License-Identifier: Apache-2.0
// The inner loop of the factorisations: subtracts a multiple of a row from another row and rounds the result of every
// operation to a format.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/study/rounder.hpp"

#include <cstdint>

namespace macheps::study {

/// Returns numbers unchanged. Used for fp32 in float and fp64 in double, because the arithmetic of `Real` already
/// rounds to the format.
struct Unrounded {
    template <class Real>
    [[gnu::always_inline]] Real operator()(Real x) const {
        return x;
    }
};

/// Computes a[j] = round(a[j] - round(l u[j])) on vectors of the chosen width. The bits of NaNs depend on the width.
template <class Real, class Round>
void update_row(Simd simd, const Round& round, Real l, const Real* u, Real* a, std::int64_t n);
/// Computes a[j] = round(a[j] / by).
template <class Real, class Round>
void divide_row(Simd simd, const Round& round, Real by, Real* a, std::int64_t n);
/// Returns the index of the largest magnitude of n >= 1 numbers. If several magnitudes are equal, the first one is
/// chosen. A NaN is chosen only if it is the first number.
template <class Real>
std::int64_t largest_magnitude(Simd simd, const Real* a, std::int64_t n);
/// Computes a[j] = round(fma(-l, u[j], a[j])).
template <class Real, class Round>
void update_row_fused(Simd simd, const Round& round, Real l, const Real* u, Real* a, std::int64_t n);

}  // namespace macheps::study
