// SPDX-License-Identifier: Apache-2.0
// Exact results of wrong kernels that differ from an operation in their list of nodes or in the inputs that they read.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace macheps::check {

/// A range of outputs, [first, last), in the order of the limits.
struct OutputRange {
    std::int64_t first = 0, last = 0;

    bool is_empty() const { return first >= last; }
    std::size_t size() const { return static_cast<std::size_t>(last - first); }
};

/// Returns the number of outputs that one row of a list gives. Ranges of outputs consist of whole rows.
std::int64_t outputs_of_row(const Problem& problem);

/// Divides all outputs into parts of whole rows, a small one first. Most faults show in the first part. Each part is
/// small enough that its results can be held in addition to all outputs.
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

  private:
    const Problem& problem_;
    Defect defect_;
    std::vector<Input> misread_;  ///< inputs as the kernel reads them; empty if it reads them correctly
    const std::vector<Input>& inputs_;
    std::vector<Node> nodes_;
};

/// Returns the exact results of rows [first, first + count). `sums` computes the product sums of a row.
std::vector<double> with_sums(const Problem& problem, std::int64_t first, std::int64_t count, ThreadPool& pool,
                              const std::function<void(std::int64_t, std::vector<ProductSum>&)>& sums);

}  // namespace macheps::check
