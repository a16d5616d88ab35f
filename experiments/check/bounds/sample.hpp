// SPDX-License-Identifier: Apache-2.0
// A sample of a product's outputs, for products that are too large to judge every output. The sample contains one in
// `every` outputs. From each square of `every` rows and `every` columns, it takes `every` outputs, and no two of these
// outputs are in the same row or column. The sample also contains the first and the last output of every row and
// column. The sample is itself a matrix product, whose batches have different columns. References, bounds, tests and
// wrong kernels therefore treat it like any other product. A sample is also used to leave out the unused rows of
// groups.
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
    /// Samples one in `every` outputs of `whole`.
    Sample(const ProductOperands& whole, std::int64_t every);

    /// Returns the sample that has all outputs of the used rows: the first sizes[g] rows of each batch g.
    static Sample of_groups(const ProductOperands& whole, std::span<const std::int64_t> sizes);

    std::int64_t every() const { return every_; }
    /// Return the shape of the complete output.
    std::int64_t whole_rows() const { return whole_rows_; }
    std::int64_t whole_columns() const { return whole_columns_; }
    std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
    std::int64_t columns() const { return static_cast<std::int64_t>(columns_.front().size()); }

    /// Returns true if this row of the complete output is in the sample. Precondition: of_groups() made the sample.
    bool has_row(std::int64_t whole_row) const;
    /// Returns the row-major index, in the complete output, of output `index` of the sample.
    std::int64_t place(std::int64_t index) const;

    /// Returns the operands of the product whose outputs are the sample.
    ProductOperands operands(const ProductOperands& whole) const;
    /// Return the sampled outputs, and the elements of an input that belong to these outputs.
    std::vector<double> outputs(NumberView whole) const;
    Input input(const Input& whole) const;

  private:
    Sample(const ProductOperands& whole, std::vector<std::int64_t> rows, std::vector<std::int64_t> starts);
    const std::vector<std::int64_t>& columns_of(std::int64_t row) const;

    std::int64_t every_, whole_rows_, whole_columns_;
    std::vector<std::int64_t> rows_;                  ///< for each row of the sample: its row in the complete output
    std::vector<std::int64_t> starts_;                ///< first row of each part in the sample, and the number of rows
    std::vector<std::vector<std::int64_t>> columns_;  ///< for each part: its columns, the same in every batch
    std::vector<std::int64_t> part_of_;               ///< for each row of the sample: its part, an index into columns_
};

}  // namespace macheps::check
