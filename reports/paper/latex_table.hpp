// SPDX-License-Identifier: Apache-2.0
// Writes the tables of a report as LaTeX, for the packages booktabs and siunitx.
#pragma once
#include "reports/findings/divergence.hpp"
#include "reports/findings/sweep_summary.hpp"

#include <string>

namespace macheps::reports {

/// Returns a `table` with the cells of summary_table() and the texts below it as notes. The cells have the digits of
/// summary_table(). Names may contain any characters.
std::string latex_table(const Summary& summary);

/// Returns the tables of sweep_summary_text(): settings and policies, and the best values if there are any. The warnings
/// are notes of the first table. A table that has more rows than a page is left out.
/// Errors: throws a usage error if both tables have too many rows.
std::string latex_tables(const SweepSummary& sweep);

}  // namespace macheps::reports
