// SPDX-License-Identifier: Apache-2.0
// The rows of `macheps gemm`, `sum`, `solve` and `eval` as tables for people.
#pragma once
#include "reports/pages/folded_table.hpp"
#include "reports/rows/formula_row.hpp"
#include "reports/rows/gemm_row.hpp"
#include "reports/rows/solve_row.hpp"
#include "reports/rows/sum_row.hpp"

#include <span>

namespace macheps::reports {

FoldedTable table_of(std::span<const GemmRow> rows);
FoldedTable table_of(std::span<const SumRow> rows);
FoldedTable table_of(std::span<const SolveRow> rows);
/// Returns a table with a line for each iterative refinement, which shows its first and last errors.
FoldedTable table_of(std::span<const SolveStepRow> rows);
FoldedTable table_of(std::span<const FormulaRow> rows);
/// Returns a table with a line for each formula and format.
FoldedTable table_of(std::span<const FormulaPointRow> rows);

}  // namespace macheps::reports
