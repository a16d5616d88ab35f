// SPDX-License-Identifier: Apache-2.0
// Wrong kernels whose extreme begins at a number instead of infinity or the first element of the row. They are right as
// long as each row has an element that is more extreme than that number, and in ordinary test data all rows have one.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <vector>

namespace macheps::check {

/// Returns the wrong kernels that inputs in the declared format can show. A check that misses them is weak only if it
/// must catch everything. make-inputs covers them all.
std::vector<MutantRow> extreme_starts(const Declaration& declaration);
/// Returns true if the start is more extreme than all elements of some row of x. Other inputs do not show the wrong
/// kernel.
bool has_row_beyond(const Problem& problem, double start);

}  // namespace macheps::check
