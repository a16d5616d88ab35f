// SPDX-License-Identifier: Apache-2.0
// The factorisations as plain loops over any scalar with + - * / and sqrt: Float<F>, double, 113 digits. They say what the
// kernels of this folder compute, which return the same bits; `a` is a row-major array of n * n numbers, in place.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

namespace macheps::analysis::definition {

/// Gaussian elimination by rows: pivot = the first of the largest magnitudes at or below the diagonal; l = a_ik / a_kk;
/// a_ij = a_ij - l a_kj, product and difference rounded apart, or in one with `fused`. L (its unit diagonal left out) and U
/// take the place of a; rows[i] is the row of a that row i came from. False, and no more than begun, where a pivot is zero
/// or no finite number.
template <class Number>
bool lu(std::int64_t n, Number* a, std::vector<std::int64_t>& rows, bool pivoted = true, bool fused = false) {
    using std::abs;
    using std::fma;
    using std::isfinite;
    rows.resize(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) rows[static_cast<std::size_t>(i)] = i;
    for (std::int64_t k = 0; k < n; ++k) {
        std::int64_t pivot = k;
        for (std::int64_t i = k + 1; pivoted && i < n; ++i) {
            if (abs(a[i * n + k]) > abs(a[pivot * n + k])) pivot = i;
        }
        const Number divisor = a[pivot * n + k];
        if (divisor == 0 || !isfinite(divisor)) return false;
        if (pivot != k) {
            for (std::int64_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[pivot * n + j]);
            std::swap(rows[static_cast<std::size_t>(k)], rows[static_cast<std::size_t>(pivot)]);
        }
        for (std::int64_t i = k + 1; i < n; ++i) {
            const Number l = a[i * n + k] / divisor;
            a[i * n + k] = l;
            for (std::int64_t j = k + 1; j < n; ++j) {
                Number& place = a[i * n + j];
                place = fused ? fma(-l, a[k * n + j], place) : place - l * a[k * n + j];
            }
        }
    }
    return true;
}

}  // namespace macheps::analysis::definition
