// SPDX-License-Identifier: Apache-2.0
// Control rows for the measurements of emulation/matmul/reveal.hpp. A control row has a unit at some terms and zeros at
// all others, so its sum is the same in any order. If a kernel returns zeros, leaves out a term or reads a term twice,
// the measured pairs alone could suggest a wrong tree. The control rows detect such a kernel. Host only.
#pragma once
#include "emulation/matmul/reveal.hpp"

#include <span>

namespace macheps {

/// Returns the number of control rows: 1 + ceil(log2 terms). The first row has a unit at every term. Each further row
/// belongs to one bit of the term index and has a unit at each term whose index has this bit set. If one term is
/// missing, the rows with wrong counts show which bits of its index are set.
int control_rows(int terms);

/// Fills one row of a and one column of b with the `terms` operands of control row `row`. a is 0 at terms without a
/// unit.
void fill_control(const RevealOperands& operands, int terms, int row, float* a, float* b);

/// Compares a kernel's results for the control rows with the expected counts. Errors: throws Error (check_failed) with
/// a description of the kernel's probable error.
void check_controls(const RevealOperands& operands, int terms, std::span<const double> results);

}  // namespace macheps
