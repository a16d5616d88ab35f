// SPDX-License-Identifier: Apache-2.0
// The finished units of a sweep summed up for a report, cell by cell: what stays in memory is a summary and a curve for
// each setting and policy, however many the runs.
#pragma once
#include "experiments/training/sweep/results/unit_rows.hpp"
#include "reports/findings/sweep_summary.hpp"

#include <filesystem>

namespace macheps::training {

/// Errors: as FinishedUnits; Exit::bad_input for rows that cannot be read, and where no unit is finished.
reports::SweepSummary gather_sweep(const Sweep& sweep, const FinishedUnits& units, const std::filesystem::path& out,
                                   const reports::SummaryOptions& options);

}  // namespace macheps::training
