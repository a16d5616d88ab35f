// SPDX-License-Identifier: Apache-2.0
// The operands of a checked matrix product, decoded.
#pragma once
#include "core/format.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace macheps::check {

/// Operands of the matrix products of a [m,k] and b [k,n], one product for each batch. All batches may share one b. Row
/// numbers of a continue from one batch to the next. Each batch has m rows, unless the batches are groups of different
/// sizes. In that case, `starts` gives their first rows. All values can be represented in fp32.
struct ProductOperands {
    std::int64_t batches = 1, m = 0, n = 0, k = 0;
    bool has_one_b = true;
    std::int64_t parts = 1;  ///< in a sample: number of successive batches that were one batch before; otherwise 1
    Format a_format = fp32, b_format = fp32;
    std::vector<double> a{}, b{};          ///< multiplied by the block factors, if there are any
    std::vector<std::int64_t> starts{};    ///< first row of each group, then the number of rows; empty: m rows each
    std::int64_t k_block = 0;              ///< number of terms that share a factor; 0: no factors
    Format scale_format = fp32;            ///< format of the block factors
    std::vector<double> raw_a{}, raw_b{};  ///< operands before the multiplication; empty if there are no factors
    std::vector<double> a_factors{};       ///< [rows, blocks]
    std::vector<double> b_factors{};       ///< [matrices of b, blocks, n]

    std::int64_t rows() const { return starts.empty() ? batches * m : starts.back(); }
    std::int64_t matrices_of_b() const { return has_one_b ? 1 : batches; }
    std::int64_t blocks() const { return k_block == 0 ? 1 : (k + k_block - 1) / k_block; }
    std::int64_t first_row(std::int64_t batch) const {
        return starts.empty() ? batch * m : starts[static_cast<std::size_t>(batch)];
    }
    std::int64_t batch_of(std::int64_t row) const {
        if (starts.empty()) return row / m;
        return std::upper_bound(starts.begin(), starts.end(), row) - starts.begin() - 1;
    }
    /// Returns the index of the matrix b that belongs to a row.
    std::int64_t batch_of_b(std::int64_t row) const { return has_one_b ? 0 : batch_of(row); }
    double a_at(std::int64_t row, std::int64_t p) const { return a[static_cast<std::size_t>(row * k + p)]; }
    double b_at(std::int64_t row, std::int64_t p, std::int64_t j) const {
        return b[static_cast<std::size_t>((batch_of_b(row) * k + p) * n + j)];
    }
    const std::vector<double>& unscaled_a() const { return raw_a.empty() ? a : raw_a; }
    const std::vector<double>& unscaled_b() const { return raw_b.empty() ? b : raw_b; }
    double a_factor(std::int64_t row, std::int64_t p) const {
        return k_block == 0 ? 1 : a_factors[static_cast<std::size_t>(row * blocks() + p / k_block)];
    }
    double b_factor(std::int64_t matrix, std::int64_t p, std::int64_t j) const {
        return k_block == 0 ? 1 : b_factors[static_cast<std::size_t>((matrix * blocks() + p / k_block) * n + j)];
    }
    /// Sets a and b to raw_a and raw_b times the factors.
    void scale() {
        for (std::size_t i = 0; i < a.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            a[i] = raw_a[i] * a_factor(at / k, at % k);
        }
        for (std::size_t i = 0; i < b.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            b[i] = raw_b[i] * b_factor(at / (k * n), at / n % k, at % n);
        }
    }
};

/// Returns the largest power of two that divides x, which must be an fp32 number or a product of two fp32 numbers.
/// Returns infinity for zeros, infinities and NaN.
inline double unit_of(double x) {
    const auto bits = bit_cast<std::uint64_t>(x);
    const auto field = static_cast<int>(bits >> 52 & 0x7ff);
    if (field == 0 || field == 0x7ff) return std::numeric_limits<double>::infinity();
    const int zeros = std::countr_zero(bits | std::uint64_t{1} << 52);
    return bit_cast<double>(static_cast<std::uint64_t>(field - 52 + zeros) << 52);
}

/// Returns the largest power of two that is at most |x|: 2^floor(log2 |x|). Returns 0 for zeros and subnormal numbers.
inline double power_below(double x) { return bit_cast<double>(bit_cast<std::uint64_t>(x) & 0x7ff0000000000000u); }

}  // namespace macheps::check
