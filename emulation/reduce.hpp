// SPDX-License-Identifier: Apache-2.0
// The lane rule: the order of every row reduction. The lanes are one warp on a GPU, and two AVX-512 or four AVX2
// registers on a CPU.
#pragma once
#include "core/hd.hpp"

namespace macheps {

inline constexpr std::int64_t lanes = 32, chunk = 1024;

namespace detail {

/// Folds 32 lanes by halves: 16, 8, 4, 2, 1.
template <class T>
MACHEPS_HD T fold_lanes(T (&lane)[lanes]) {
    for (int half = lanes / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
    }
    return lane[0];
}

template <class T, class Term>
MACHEPS_HD T lane_sum_range(std::int64_t first, std::int64_t n, const Term& term) {
    T lane[lanes] = {};
    if (n <= chunk) {
        for (std::int64_t i = 0; i < n; ++i) lane[i % lanes] += term(first + i);
        return fold_lanes(lane);
    }
    // Elements per summand: the smallest power of 1024 that gives at most 1024 summands.
    std::int64_t width = chunk;
    while ((n + width - 1) / width > chunk) width *= chunk;
    for (std::int64_t i = 0; i * width < n; ++i) {
        lane[i % lanes] += lane_sum_range<T>(first + i * width, min_of(width, n - i * width), term);
    }
    return fold_lanes(lane);
}

}  // namespace detail

/// Returns the sum of term(0) .. term(n - 1). Up to 1024 terms, lane l of 32 starts at +0 and adds terms l, l + 32, ...
/// in order, and then the lanes are folded. More terms are summed by this rule in chunks of 1024; then the results of
/// the chunks are summed in the same way, recursively.
template <class T, class Term>
MACHEPS_HD T lane_sum(std::int64_t n, const Term& term) {
    return detail::lane_sum_range<T>(0, n, term);
}

}  // namespace macheps
