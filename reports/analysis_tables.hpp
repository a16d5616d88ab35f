// SPDX-License-Identifier: Apache-2.0
// The rows of `macheps sum`, `solve` and `eval` as people read them.
#pragma once
#include "reports/folded_table.hpp"
#include "reports/formula_row.hpp"
#include "reports/solve_row.hpp"
#include "reports/sum_row.hpp"

#include <span>

namespace macheps {

FoldedTable table_of(std::span<const SumRow> rows);
FoldedTable table_of(std::span<const SolveRow> rows);
/// A line for each refinement: where it began and where it ended.
FoldedTable table_of(std::span<const SolveStepRow> rows);
FoldedTable table_of(std::span<const FormulaRow> rows);
/// A line for each formula and format.
FoldedTable table_of(std::span<const FormulaPointRow> rows);

}  // namespace macheps
