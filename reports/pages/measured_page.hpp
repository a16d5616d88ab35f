// SPDX-License-Identifier: Apache-2.0
// Sections of the page for experiments other than training: sums, linear systems and formulas. The sections consist of
// figures and tables in plain HTML.
#pragma once
#include "reports/logs/run_log.hpp"
#include "reports/pages/plot.hpp"

#include <span>
#include <string>

namespace macheps::reports {

/// The plots of the sections below.
Plots sum_plots(std::span<const SumRow> rows);
Plots step_plots(std::span<const SolveStepRow> steps);
Plots formula_plots(std::span<const FormulaPointRow> points);
/// Plots the largest errors of matrix products with their bounds, over the size that varies. Each plot has the products
/// with the same kind of operands and the same other sizes.
Plots gemm_plots(std::span<const GemmRow> rows);

/// Plots the errors of sums with the certain bound and the probable bound. The x axis is the number of terms if that
/// varies, or else the condition number. If neither varies, compares the methods side by side. If the number of terms
/// varies, also plots the values of the sums.
std::string sums_html(std::span<const SumRow> rows);

/// Draws maps of the verdicts, with a column for each matrix or condition number and a line for each method. Also plots
/// the error against the refinement step.
std::string systems_html(std::span<const SolveRow> rows, std::span<const SolveStepRow> steps);

/// Plots the bits of error against the input x. All neighbouring numbers of the format are equally far apart on the x
/// axis.
std::string formulas_html(std::span<const FormulaRow> rows, std::span<const FormulaPointRow> points);

}  // namespace macheps::reports
