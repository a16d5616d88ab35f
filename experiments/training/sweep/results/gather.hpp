// SPDX-License-Identifier: Apache-2.0
// Summarises the finished units of a sweep for a report, cell by cell. Only a summary and a curve for each setting and
// policy stay in memory, however many runs there are.
#pragma once
#include "experiments/training/sweep/results/unit_rows.hpp"
#include "reports/findings/sweep_summary.hpp"

#include <filesystem>

namespace macheps::training {

/// Returns the summary of a sweep. Errors: those of FinishedUnits; Exit::bad_input if rows cannot be read or no unit is
/// finished.
reports::SweepSummary gather_sweep(const Sweep& sweep, const FinishedUnits& units, const std::filesystem::path& out,
                                   const reports::SummaryOptions& options);

}  // namespace macheps::training
