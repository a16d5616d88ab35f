// SPDX-License-Identifier: Apache-2.0
// Wrong kernels whose maximum or minimum of a row starts from a fixed number. A correct kernel starts from an infinity
// or from the first element. The result of a wrong kernel is still correct if an element of the row is more extreme
// than the number. In ordinary test data, every row has such an element.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <vector>

namespace macheps::check {

/// Returns those wrong kernels of this kind that inputs in the declared format of x can expose. A check that misses one
/// of them is weak only with `--require all`. make-inputs has inputs that expose each of them.
std::vector<MutantRow> extreme_starts(const Declaration& declaration);
/// Returns true if x has a row whose elements are all less extreme than `start`. If it has none, the results of the
/// wrong kernel are correct.
bool has_row_beyond(const Problem& problem, double start);

}  // namespace macheps::check
