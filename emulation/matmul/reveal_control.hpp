// SPDX-License-Identifier: Apache-2.0
// Control rows consist of units only, so their sums are known for any order. A kernel that returns zeros, leaves out a
// term or reads one twice gives results that look like those of some tree, or of none. The control rows show such an
// error. Host only.
#pragma once
#include "emulation/matmul/reveal.hpp"

#include <span>

namespace macheps {

/// Returns the number of control rows: 1 + ceil(log2 terms). The first row has a unit at every term. Each further row
/// belongs to a binary digit and has a unit at each term whose index has this digit. If one term is missing, the rows
/// with wrong counts are the binary digits of its index.
int control_rows(int terms);

/// Fills one row of a and one column of b with `terms` numbers each. a is 0 at terms without a unit.
void fill_control(const RevealOperands& operands, int terms, int row, float* a, float* b);

/// Compares a kernel's results with the expected counts. Errors: throws Error (check_failed) that describes what the
/// kernel did.
void check_controls(const RevealOperands& operands, int terms, std::span<const double> results);

}  // namespace macheps
