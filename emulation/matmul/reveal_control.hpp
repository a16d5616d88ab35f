// SPDX-License-Identifier: Apache-2.0
// Control rows: units alone, whose sums are known whatever the order. A kernel that returns zeros, leaves out a term or
// reads one twice gives results that look like those of some tree, or of none; by its control rows it is told so. Host
// only.
#pragma once
#include "emulation/matmul/reveal.hpp"

#include <span>

namespace macheps {

/// 1 + ceil(log2 terms): a unit at every term; then, for each binary digit of the terms' numbers, one at those terms
/// that have it. The digits in which the counts are wrong are the number of a term that is missing.
int control_rows(int terms);

/// One row of a and one column of b, `terms` each; where there is no unit a is 0.
void fill_control(const RevealOperands& operands, int terms, int row, float* a, float* b);

/// Compares a kernel's results with the counts. Errors: throws Error (check_failed) that says what the kernel did.
void check_controls(const RevealOperands& operands, int terms, std::span<const double> results);

}  // namespace macheps
