// SPDX-License-Identifier: Apache-2.0
// One self-contained page for a sweep, or for many run directories: tables, and charts without a script.
#pragma once
#include "reports/findings/sweep_summary.hpp"

#include <string>

namespace macheps::reports {

/// Limits that keep the page below ten megabytes. The table has at most `most_settings` rows (those with the largest
/// gaps), `most_policies` columns and `most_cells` cells. There are at most `most_curves` curves over steps. A chart
/// over an axis has at most `most_lines` policies with `most_points` points each.
struct SweepPageLimits {
    std::size_t most_settings = 2000, most_curves = 20, most_policies = 60, most_cells = 40000, most_lines = 14,
                most_points = 60;
};
std::string sweep_page_html(const SweepSummary& sweep, const SweepPageLimits& limits = {});

}  // namespace macheps::reports
