// SPDX-License-Identifier: Apache-2.0
// The operands of a checked matrix product, decoded.
#pragma once
#include "core/format.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace macheps::check {

/// `batches` products of a [m,k] and b [k,n]; one b may serve all. Values are those of formats up to fp32.
struct ProductOperands {
    std::int64_t batches = 1, m = 0, n = 0, k = 0;
    bool has_one_b = true;
    Format a_format = fp32, b_format = fp32;
    std::vector<double> a{}, b{};

    std::int64_t rows() const { return batches * m; }
    /// Which b belongs to a row of the outputs, counted through all batches.
    std::int64_t batch_of_b(std::int64_t row) const { return has_one_b ? 0 : row / m; }
    double a_at(std::int64_t row, std::int64_t p) const { return a[static_cast<std::size_t>(row * k + p)]; }
    double b_at(std::int64_t row, std::int64_t p, std::int64_t j) const {
        return b[static_cast<std::size_t>((batch_of_b(row) * k + p) * n + j)];
    }
};

/// The largest power of two that divides x, a number that fp32 or a product of two such numbers may be; infinite for zeros
/// and what is not finite.
inline double unit_of(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const auto field = static_cast<int>(bits >> 52 & 0x7ff);
    if (field == 0 || field == 0x7ff) return std::numeric_limits<double>::infinity();
    const int zeros = std::countr_zero(bits | std::uint64_t{1} << 52);
    return std::bit_cast<double>(static_cast<std::uint64_t>(field - 52 + zeros) << 52);
}

/// The greatest power of two that is at most |x|: 2^floor(log2 |x|). 0 for zeros and subnormal numbers.
inline double power_below(double x) {
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7ff0000000000000u);
}

}  // namespace macheps::check
