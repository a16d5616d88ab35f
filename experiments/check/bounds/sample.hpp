// SPDX-License-Identifier: Apache-2.0
// A sample of a product's outputs, for products that are too large to judge every output. It contains one of `every`
// outputs: each square of `every` rows and columns has `every` of them, no two in the same row or column. The first and
// the last output of every row and column are added. The sample is itself a product, in parts that have their own
// columns, so that references, bounds, tests and wrong kernels need not know about it. Unused rows of groups are left
// out in the same way.
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

inline constexpr std::int64_t max_every = 1024;

class Sample {
  public:
    /// Takes one of `every` outputs of `whole`.
    Sample(const ProductOperands& whole, std::int64_t every);

    /// Returns the sample of all outputs in the first sizes[g] rows of each batch g, whose other rows are unused.
    static Sample of_groups(const ProductOperands& whole, std::span<const std::int64_t> sizes);

    std::int64_t every() const { return every_; }
    /// The shape of all outputs.
    std::int64_t whole_rows() const { return whole_rows_; }
    std::int64_t whole_columns() const { return whole_columns_; }
    std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
    std::int64_t columns() const { return static_cast<std::int64_t>(columns_.front().size()); }

    /// Returns true if a row of all outputs is in the sample. Precondition: of_groups() made the sample.
    bool has_row(std::int64_t whole_row) const;
    /// Returns the row-major index among all outputs of an output of the sample.
    std::int64_t place(std::int64_t index) const;

    /// Returns the product whose outputs are those of the sample.
    ProductOperands operands(const ProductOperands& whole) const;
    /// Return the sampled outputs, and the elements of an input that belong to them.
    std::vector<double> outputs(NumberView whole) const;
    Input input(const Input& whole) const;

  private:
    Sample(const ProductOperands& whole, std::vector<std::int64_t> rows, std::vector<std::int64_t> starts);
    const std::vector<std::int64_t>& columns_of(std::int64_t row) const;

    std::int64_t every_, whole_rows_, whole_columns_;
    std::vector<std::int64_t> rows_;                  ///< for each row of the sample: its row among all outputs
    std::vector<std::int64_t> starts_;                ///< first row of each part in the sample, and their end
    std::vector<std::vector<std::int64_t>> columns_;  ///< for each part: its columns, in every batch or group
    std::vector<std::int64_t> part_of_;               ///< for each row of the sample: its part, an index into columns_
};

}  // namespace macheps::check
