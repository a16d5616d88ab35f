// SPDX-License-Identifier: Apache-2.0
// The lane rule: the order in which every reduction of a row adds its terms, in 32 lanes. The lanes are one warp on a
// GPU, and two AVX-512 or four AVX2 registers on a CPU.
#pragma once
#include "core/hd.hpp"

namespace macheps {

inline constexpr std::int64_t lanes = 32, chunk = 1024;

namespace detail {

/// Adds the upper half of the 32 lanes to the lower half, and repeats this with 16, 8, 4 and 2 lanes.
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
    // Number of terms per chunk: the smallest power of 1024 that gives at most 1024 chunks.
    std::int64_t width = chunk;
    while ((n + width - 1) / width > chunk) width *= chunk;
    for (std::int64_t i = 0; i * width < n; ++i) {
        lane[i % lanes] += lane_sum_range<T>(first + i * width, min_of(width, n - i * width), term);
    }
    return fold_lanes(lane);
}

}  // namespace detail

/// Returns the sum of term(0) .. term(n - 1). If n is at most 1024, lane l of 32 starts at +0 and adds terms l, l + 32,
/// ... in order, and then fold_lanes() adds the lanes. More terms are summed by this rule in chunks of 1024, and the
/// sums of the chunks are summed in the same way, recursively.
template <class T, class Term>
MACHEPS_HD T lane_sum(std::int64_t n, const Term& term) {
    return detail::lane_sum_range<T>(0, n, term);
}

}  // namespace macheps
