// SPDX-License-Identifier: Apache-2.0
// Exact results of wrong kernels that differ from an operation in their list of nodes or in what they read.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace macheps::check {

/// Outputs [first, last), in the order of the limits.
struct OutputRange {
    std::int64_t first = 0, last = 0;

    bool is_empty() const { return first >= last; }
    std::size_t size() const { return static_cast<std::size_t>(last - first); }
};

/// How many outputs a row of a list has: that many belong together.
std::int64_t outputs_of_row(const Problem& problem);

/// All outputs in growing parts of whole rows, each small enough to be held beside them: what shows a fault shows it soon.
std::vector<OutputRange> growing_parts(const Problem& problem);

/// A kernel with a defect.
class Mutated {
  public:
    Mutated(const Problem& problem, const Defect& defect);
    Mutated(const Mutated&) = delete;
    Mutated& operator=(const Mutated&) = delete;

    /// Its exact results, outputs `range` of them; those of whole rows. Precondition: one of growing_parts(), or such rows.
    void results(const OutputRange& range, std::span<double> out, ThreadPool& pool) const;

  private:
    const Problem& problem_;
    Defect defect_;
    std::vector<Input> misread_;  ///< the inputs as it reads them; empty where it reads them as they are
    const std::vector<Input>& inputs_;
    std::vector<Node> nodes_;
};

/// Exact results of rows [first, first + count), with product sums that `sums` gives for each row.
std::vector<double> with_sums(const Problem& problem, std::int64_t first, std::int64_t count, ThreadPool& pool,
                              const std::function<void(std::int64_t, std::vector<ProductSum>&)>& sums);

}  // namespace macheps::check
