// SPDX-License-Identifier: Apache-2.0
// Wrong kernels whose extreme begins at a number instead of infinity or the first element of the row. They are right as long as
// some element of each row is beyond that number, and ordinary test data has no other rows.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <vector>

namespace macheps::check {

/// Returns those that inputs in the declared format can show. No check is weak for missing them unless it must catch everything.
/// make-inputs covers them all.
std::vector<MutantRow> extreme_starts(const Declaration& declaration);
/// Returns true if a row of x is wholly beyond the start. Other inputs show nothing of the wrong kernel.
bool has_row_beyond(const Problem& problem, double start);

}  // namespace macheps::check
