// SPDX-License-Identifier: Apache-2.0
// Sections of the page for rows of experiments without a run: sums, linear systems, formulas. Figures and tables in plain HTML.
#pragma once
#include "reports/logs/run_log.hpp"

#include <span>
#include <string>

namespace macheps::reports {

/// Error against the number of terms, or against the condition of what cancels, with both bounds; methods side by side where
/// nothing moves; the sum itself where it grows.
std::string sums_html(std::span<const SumRow> rows);

/// The map of verdicts over condition and format; the error against the step.
std::string systems_html(std::span<const SolveRow> rows, std::span<const SolveStepRow> steps);

/// Bits of error against x, over every number of a format.
std::string formulas_html(std::span<const FormulaRow> rows, std::span<const FormulaPointRow> points);

}  // namespace macheps::reports
