// SPDX-License-Identifier: Apache-2.0
// Writes the table of a report as LaTeX, for the packages booktabs and siunitx.
#pragma once
#include "reports/findings/divergence.hpp"

#include <string>

namespace macheps::reports {

/// Returns a `table` with the cells of summary_table() and the texts below it as notes. The cells have the digits of
/// summary_table(). Names may contain any characters.
std::string latex_table(const Summary& summary);

}  // namespace macheps::reports
