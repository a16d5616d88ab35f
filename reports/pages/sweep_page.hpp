// SPDX-License-Identifier: Apache-2.0
// One self-contained page of a sweep, or of many run directories: tables, and charts without a script.
#pragma once
#include "reports/findings/sweep_summary.hpp"

#include <string>

namespace macheps::reports {

/// At most `most_settings` rows of the table, those with the largest gaps, `most_policies` columns, and `most_cells` in all;
/// at most `most_curves` curves; against an axis at most `most_lines` policies, each with `most_points`. So the page stays below
/// ten megabytes.
struct SweepPageLimits {
    std::size_t most_settings = 2000, most_curves = 20, most_policies = 60, most_cells = 40000, most_lines = 14,
                most_points = 60;
};
std::string sweep_page_html(const SweepSummary& sweep, const SweepPageLimits& limits = {});

}  // namespace macheps::reports
