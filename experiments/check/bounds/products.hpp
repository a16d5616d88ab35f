// SPDX-License-Identifier: Apache-2.0
// Exact matrix products for references: fp64 sums of exact products. Sums in doubt are recomputed as exact integers
// (study/product/exact_product.hpp). Each sum has two error bounds, which follow from the machine's row in the table of
// machines. The first bound holds for every order of summation. The second bound uses the exact partial sums of the
// output (running.hpp). The smaller bound is used.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/matmul/rule.hpp"
#include "experiments/check/bounds/running.hpp"
#include "experiments/check/truth/nodes.hpp"
#include "experiments/check/truth/operands.hpp"
#include "experiments/study/product/error_bound.hpp"

#include <optional>
#include <vector>

namespace macheps::check {

/// Roundings that a kernel may make in its sums in addition to those of the machine.
struct SumFreedom {
    Format output = fp32;  ///< format to which a rule's slices may be rounded when they are joined
    double slices = 0;     ///< number of slices whose sums are rounded to `partials`
    Format partials = fp32;
    double flushes = 0;        ///< number of subnormal numbers that atomics may flush
    bool is_sliced = false;    ///< without a rule: sums are chains over slices of k (sliced.hpp), not sums in any order
    double joined_slices = 0;  ///< declared number of slices if `is_sliced`; 0: not declared
};

/// Returns the error bound that holds for every order of the rule's sums. It is a function of the output's sums of
/// magnitudes (study::OutputSize).
study::ErrorBound order_free_bound(const ProductOperands& of, const std::optional<MatmulRule>& rule);

/// Returns the magnitudes of an operand's elements as the machine counts them when it compares exponents. A subnormal
/// number counts as the smallest normal number of its format. A subnormal scale that the machine reads counts in the
/// same way.
std::vector<double> lifted_a(const ProductOperands& of, const MatmulRule& rule);
std::vector<double> lifted_b(const ProductOperands& of, const MatmulRule& rule);
bool has_subnormals(const ProductOperands& of);

class Products {
  public:
    /// Without a rule, sums are in fp32, in the orders that `freedom` allows.
    Products(ProductOperands operands, const std::optional<MatmulRule>& rule, ThreadPool& pool,
             const SumFreedom& freedom = {});

    /// Sets `out` to the sums of one row of outputs, without the last `dropped` terms.
    void row(std::int64_t row, std::int64_t dropped, std::vector<ProductSum>& out) const;
    /// Returns the sum of one output, computed as an exact integer.
    ProductSum exact(std::int64_t row, std::int64_t column, ThreadPool& pool) const;

    const ProductOperands& operands() const { return of_; }
    /// Returns the error bound for an addend with which a chain begins, relative to the addend. It holds for every
    /// order of summation.
    SumError addend_error() const;
    double magnitudes(std::int64_t output) const { return magnitudes_[static_cast<std::size_t>(output)]; }

  private:
    void find_subnormals(ThreadPool& pool);
    void find_units();
    void find_overflow();
    bool is_exact(std::int64_t row, std::int64_t column, const study::OutputSize& size) const;
    std::int64_t lone_term(std::int64_t row, std::int64_t column) const;
    /// Sets the error bounds of the sum. Returns an upper bound on the exact magnitude of every partial sum.
    double bound_sum(std::size_t output, const study::OutputSize& size, ProductSum& sum) const;
    void set_overflow(const study::OutputSize& size, double range, ProductSum& sum) const;
    ProductSum at(std::int64_t row, std::int64_t column) const;

    ProductOperands of_;
    study::ErrorBound bound_;
    std::optional<MatmulRule> rule_;
    SumFreedom freedom_{};
    double overflow_ = 0x1p128;      ///< smallest magnitude of a partial sum that overflows
    std::vector<SumError> running_;  ///< the running bound of each output; empty: not computed
    int exact_bits_ = 0;  ///< no addition rounds if the sum of magnitudes is at most 2^exact_bits_ units; 0: unknown
    double largest_factor(std::int64_t row, std::int64_t column) const;
    std::vector<double> sums_, magnitudes_, lifted_, flushed_;
    std::vector<std::uint64_t> a_terms_, b_terms_;  ///< bit mask of nonzero terms, for each row of a and column of b
    std::vector<double> a_largest_, b_largest_;     ///< largest block factor of each row of a and column of b; or empty
    std::vector<double> a_units_, b_units_;         ///< largest power of two that divides each row of a and column of b
};

}  // namespace macheps::check
