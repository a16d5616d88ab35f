// SPDX-License-Identifier: Apache-2.0
// Intervals of doubles that hold the exact value of a formula: where both ends round alike, so does the value, and no further
// digits are needed. The C library's functions are trusted to a few hundred units in the last place, far more than they err.
#pragma once
#include "experiments/analysis/eval_tree.hpp"

#include <vector>

namespace macheps::analysis {

struct Span {
    double lo = 0, hi = 0;
    bool is_point() const { return lo == hi; }
};

/// Gives up rather than guess: `has_failed` then says that the value is not known.
class IntervalSystem {
  public:
    using Number = Span;
    Span literal(const Node& node);
    Span apply(Op op, const std::vector<Span>& x);
    bool compare(Op op, const Span& a, const Span& b);
    bool test(Op op, const Span& x);
    bool has_failed() const { return failed_; }

  private:
    Span fail() {
        failed_ = true;
        return {};
    }
    Span elementary(Op op, const std::vector<Span>& x);
    bool failed_ = false;
};

}  // namespace macheps::analysis
