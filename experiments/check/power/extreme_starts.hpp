// SPDX-License-Identifier: Apache-2.0
// Wrong kernels that begin the maximum or minimum of a row at a fixed number, instead of at an infinity or at the first
// element. The result is correct if the row has an element that is more extreme than the number. In ordinary test data,
// every row has such an element.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <vector>

namespace macheps::check {

/// Returns the wrong kernels of this kind that inputs in the declared format can expose. A check that misses one of
/// them is weak only with `--require all`. make-inputs has inputs that expose each of them.
std::vector<MutantRow> extreme_starts(const Declaration& declaration);
/// Returns true if `start` is more extreme than all elements of some row of x. Otherwise, the results of the wrong
/// kernel are correct.
bool has_row_beyond(const Problem& problem, double start);

}  // namespace macheps::check
