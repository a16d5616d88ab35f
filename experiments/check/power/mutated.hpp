// SPDX-License-Identifier: Apache-2.0
// Computes the exact results of wrong kernels. Such a kernel evaluates a list of nodes that has a defect, or reads
// wrong inputs.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace macheps::check {

/// A range of outputs, [first, last), in row-major order.
struct OutputRange {
    std::int64_t first = 0, last = 0;

    bool is_empty() const { return first >= last; }
    std::size_t size() const { return static_cast<std::size_t>(last - first); }
};

/// Returns the number of outputs in one row. Ranges of outputs consist of whole rows.
std::int64_t outputs_of_row(const Problem& problem);

/// Divides all outputs into parts that consist of whole rows. The first part is small, because most faults already show
/// in it. Every part is so small that its results fit in memory in addition to all outputs.
std::vector<OutputRange> growing_parts(const Problem& problem);

/// A wrong kernel: an operation with a defect.
class Mutated {
  public:
    Mutated(const Problem& problem, const Defect& defect);
    Mutated(const Mutated&) = delete;
    Mutated& operator=(const Mutated&) = delete;

    /// Computes the exact results of the outputs in `range`. Precondition: `range` is one of growing_parts(), or
    /// consists of whole rows.
    void results(const OutputRange& range, std::span<double> out, ThreadPool& pool) const;
    /// Returns the inputs as the kernel reads them.
    const std::vector<Input>& inputs() const { return inputs_; }

  private:
    const Problem& problem_;
    Defect defect_;
    std::vector<Input> misread_;  ///< inputs as the kernel reads them; empty if the kernel reads them correctly
    const std::vector<Input>& inputs_;
    std::vector<Node> nodes_;
};

/// Returns the exact results of rows [first, first + count) of a matrix product whose sums are replaced. sums(row, out)
/// sets `out` to the sums of a row.
std::vector<double> with_sums(const Problem& problem, std::int64_t first, std::int64_t count, ThreadPool& pool,
                              const std::function<void(std::int64_t, std::vector<ProductSum>&)>& sums);

}  // namespace macheps::check
