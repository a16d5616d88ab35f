// SPDX-License-Identifier: Apache-2.0
// The inner loop of the factorisations: a row minus a multiple of another one, every operation rounded to a format.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/analysis/rounder.hpp"

#include <cstdint>

namespace macheps::analysis {

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
/// Below the row `a` of `width` numbers, whose first one divides: of each of the next `count` rows, `ld` numbers apart, the first
/// number becomes its quotient by that, and the others lose as many times a's.
template <class Real, class Round>
void eliminate_column(Simd simd, const Round& round, Real* a, std::int64_t ld, std::int64_t count, std::int64_t width);
/// a[j] = round(fma(-l, u[j], a[j])).
template <class Real, class Round>
void update_row_fused(Simd simd, const Round& round, Real l, const Real* u, Real* a, std::int64_t n);

}  // namespace macheps::analysis
