// SPDX-License-Identifier: Apache-2.0
// Sections of the page for rows of experiments without a run: sums, linear systems, formulas. They consist of figures
// and tables in plain HTML.
#pragma once
#include "reports/logs/run_log.hpp"

#include <span>
#include <string>

namespace macheps::reports {

/// Plots the error with both bounds: against the number of terms if it varies, or else against the condition number if
/// that varies. If neither varies, compares methods side by side. If the number of terms varies, also plots the sums.
std::string sums_html(std::span<const SumRow> rows);

/// Draws maps of the verdicts, over matrices or condition numbers and methods, and plots the error against the step.
std::string systems_html(std::span<const SolveRow> rows, std::span<const SolveStepRow> steps);

/// Plots the bits of error against x, with the numbers of the format equally spaced.
std::string formulas_html(std::span<const FormulaRow> rows, std::span<const FormulaPointRow> points);

}  // namespace macheps::reports
