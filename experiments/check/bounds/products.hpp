// SPDX-License-Identifier: Apache-2.0
// Exact matrix products for references: fp64 sums of exact products, and the integers of study/product/exact_product.hpp where
// those are in doubt. The bounds that go with them come from the machine's row: of all orders, and of each output's own
// partial sums; the smaller one counts.
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

/// What else a kernel may do with its sums.
struct SumFreedom {
    Format output = fp32;  ///< what the joins of a rule's slices may round to
    double slices = 0;     ///< whose partial sums are rounded to `partials`
    Format partials = fp32;
    double flushes = 0;        ///< partial sums that atomics may flush
    bool is_sliced = false;    ///< without a rule: sums are chains over slices of k (sliced.hpp), not sums in any order
    double joined_slices = 0;  ///< declared slices of such sums; 0: not declared
};

/// Returns the error bound that holds for every order of the rule's sums, as a function of the size of an output.
study::ErrorBound order_free_bound(const ProductOperands& of, const std::optional<MatmulRule>& rule);

/// The magnitudes of an operand's elements as the exponents of steps see them: a subnormal number, and a subnormal scale
/// that the machine takes in, counts as the least normal one of its format.
std::vector<double> lifted_a(const ProductOperands& of, const MatmulRule& rule);
std::vector<double> lifted_b(const ProductOperands& of, const MatmulRule& rule);
bool has_subnormals(const ProductOperands& of);

class Products {
  public:
    /// Without a rule: fp32 sums in any order.
    Products(ProductOperands operands, const std::optional<MatmulRule>& rule, ThreadPool& pool,
             const SumFreedom& freedom = {});

    /// The sums of one row of outputs, without the last `dropped` terms.
    void row(std::int64_t row, std::int64_t dropped, std::vector<ProductSum>& out) const;
    /// One output, its sum as an exact integer.
    ProductSum exact(std::int64_t row, std::int64_t column, ThreadPool& pool) const;

    const ProductOperands& operands() const { return of_; }
    /// What any order may lose, relative to what its chains begin with.
    SumError addend_error() const;
    double magnitudes(std::int64_t output) const { return magnitudes_[static_cast<std::size_t>(output)]; }

  private:
    void find_subnormals(ThreadPool& pool);
    void find_units();
    void find_overflow();
    bool is_exact(std::int64_t row, std::int64_t column, const study::OutputSize& size) const;
    std::int64_t lone_term(std::int64_t row, std::int64_t column) const;
    /// Bounds the error of the sum. Returns a bound of the exact value of every partial sum.
    double bound_sum(std::size_t output, const study::OutputSize& size, ProductSum& sum) const;
    void set_overflow(const study::OutputSize& size, double range, ProductSum& sum) const;
    ProductSum at(std::int64_t row, std::int64_t column) const;

    ProductOperands of_;
    study::ErrorBound bound_;
    std::optional<MatmulRule> rule_;
    SumFreedom freedom_{};
    double overflow_ = 0x1p128;      ///< partial sums of this size and above overflow
    std::vector<SumError> running_;  ///< empty: there is none
    int exact_bits_ = 0;  ///< a sum of magnitudes of at most 2^this units has no rounding anywhere; 0: nothing is known
    double largest_factor(std::int64_t row, std::int64_t column) const;
    std::vector<double> sums_, magnitudes_, lifted_, flushed_;
    std::vector<std::uint64_t> a_terms_, b_terms_;  ///< which terms of a row of a, a column of b are not zero: bits
    std::vector<double> a_largest_, b_largest_;     ///< block factors of a row of a, a column of b; empty without
    std::vector<double> a_units_, b_units_;         ///< powers of two that divide a row of a, a column of b
};

}  // namespace macheps::check
