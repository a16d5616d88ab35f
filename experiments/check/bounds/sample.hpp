// SPDX-License-Identifier: Apache-2.0
// A sample of a product's outputs, for products that are too large to be judged one output after the other: one output of
// `every`, so that each square of so many rows and columns has `every` of them, no two in one row or column, and beside
// them the first and the last of every row and column. The sample is itself a product, in parts with columns of their own:
// references, bounds, tests and wrong kernels know nothing of it. Rows that belong to no group are left out in the same way.
#pragma once
#include "experiments/check/truth/numbers.hpp"
#include "experiments/check/truth/operands.hpp"
#include "experiments/check/verdict.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace macheps::check {

struct Input;

inline constexpr std::int64_t most_every = 1024;

class Sample {
  public:
    /// Of the outputs of `whole`.
    Sample(const ProductOperands& whole, std::int64_t every);

    /// All outputs of the first sizes[g] rows of each batch g, which has room for more.
    static Sample of_groups(const ProductOperands& whole, std::span<const std::int64_t> sizes);

    std::int64_t every() const { return every_; }
    /// Of all outputs.
    std::int64_t whole_rows() const { return whole_rows_; }
    std::int64_t whole_columns() const { return whole_columns_; }
    std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
    std::int64_t columns() const { return static_cast<std::int64_t>(columns_.front().size()); }

    /// Precondition: it is of groups.
    bool has_row(std::int64_t whole_row) const;
    /// Where an output of the sample lies among all outputs, which are counted in rows.
    std::int64_t place(std::int64_t index) const;

    /// The product that the sample is.
    ProductOperands operands(const ProductOperands& whole) const;
    /// What belongs to the sampled outputs.
    std::vector<double> outputs(NumberView whole) const;
    Input input(const Input& whole) const;

  private:
    Sample(const ProductOperands& whole, std::vector<std::int64_t> rows, std::vector<std::int64_t> starts);
    const std::vector<std::int64_t>& columns_of(std::int64_t row) const;

    std::int64_t every_, whole_rows_, whole_columns_;
    std::vector<std::int64_t> rows_;                  ///< of all outputs, which row each row of the sample is
    std::vector<std::int64_t> starts_;                ///< of the parts, in rows of the sample
    std::vector<std::vector<std::int64_t>> columns_;  ///< of the parts of any batch or group
    std::vector<std::int64_t> part_of_;               ///< of each row, an index of columns_
};

}  // namespace macheps::check
