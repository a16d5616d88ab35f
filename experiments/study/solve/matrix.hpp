// SPDX-License-Identifier: Apache-2.0
// A square matrix of fp64 numbers, row-major, and its norms.
#pragma once
#include "core/hd.hpp"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace macheps::study {

struct Matrix {
    std::int64_t n = 0;
    std::vector<double> values{};  ///< n * n

    explicit Matrix(std::int64_t size = 0) : n(size), values(static_cast<std::size_t>(size * size)) {}
    double& operator()(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * n + j)]; }
    double operator()(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * n + j)]; }
    double* row(std::int64_t i) { return values.data() + i * n; }
    const double* row(std::int64_t i) const { return values.data() + i * n; }
    bool operator==(const Matrix&) const = default;
};

/// Returns max |x_i|, or NaN if an element is NaN.
inline double max_norm(std::span<const double> x) {
    double most = 0;
    for (const double each : x) {
        if (!(std::fabs(each) <= most)) most = std::fabs(each);
        if (each != each) return each;
    }
    return most;
}

/// Returns the largest row sum of magnitudes.
inline double row_sum_norm(const Matrix& a) {
    double most = 0;
    for (std::int64_t i = 0; i < a.n; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < a.n; ++j) sum += std::fabs(a(i, j));
        most = std::max(most, sum);
    }
    return most;
}

inline bool all_finite(std::span<const double> x) {
    // The exponent bits of Inf and NaN are all ones, so adding one to the exponent carries into the sign bit. For
    // finite numbers, it does not.
    constexpr std::uint64_t exponent = 0x7ff0000000000000, one = 0x0010000000000000;
    std::uint64_t carried = 0;
    for (const double each : x) carried |= (bit_cast<std::uint64_t>(each) & exponent) + one;
    return carried >> 63 == 0;
}

}  // namespace macheps::study
