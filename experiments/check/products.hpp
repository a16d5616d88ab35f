// SPDX-License-Identifier: Apache-2.0
// Exact matrix products for references: fp64 sums of exact products, and the integers of numerics/exact_product.hpp where
// those are in doubt. The bounds that go with them come from the machine's row.
#pragma once
#include "core/thread_pool.hpp"
#include "emulation/matmul/rule.hpp"
#include "experiments/check/nodes.hpp"
#include "experiments/numerics/error_bound.hpp"

#include <optional>
#include <vector>

namespace macheps::check {

/// `batches` products of a [m,k] and b [k,n]; one b may serve all. Values are those of formats up to fp32.
struct ProductOperands {
    std::int64_t batches = 1, m = 0, n = 0, k = 0;
    bool has_one_b = true;
    Format a_format = fp32, b_format = fp32;
    std::vector<double> a{}, b{};

    double a_at(std::int64_t row, std::int64_t p) const { return a[static_cast<std::size_t>(row * k + p)]; }
    /// `row` is one of the outputs', counted through all batches.
    double b_at(std::int64_t row, std::int64_t p, std::int64_t j) const {
        return b[static_cast<std::size_t>(((has_one_b ? 0 : row / m) * k + p) * n + j)];
    }
};

class Products {
  public:
    /// Without a rule: fp32 sums in any order.
    Products(ProductOperands operands, const std::optional<MatmulRule>& rule, ThreadPool& pool);

    /// The sums of one row of outputs, without the last `dropped` terms.
    void row(std::int64_t row, std::int64_t dropped, std::vector<ProductSum>& out) const;
    /// One output, its sum as an exact integer.
    ProductSum exact(std::int64_t row, std::int64_t column, ThreadPool& pool) const;

    const ProductOperands& operands() const { return of_; }
    const ErrorBound& error() const { return bound_; }
    double magnitudes(std::int64_t output) const { return magnitudes_[static_cast<std::size_t>(output)]; }

  private:
    ProductSum at(std::int64_t row, std::int64_t column) const;

    ProductOperands of_;
    ErrorBound bound_;
    int exact_bits_ = 0;  ///< a sum of magnitudes of at most 2^this units has no rounding anywhere; 0: nothing is known
    std::vector<double> sums_, magnitudes_, lifted_, flushed_;
    std::vector<double> a_units_, b_units_;  ///< powers of two that divide a row of a, a column of b
};

}  // namespace macheps::check
