// SPDX-License-Identifier: Apache-2.0
// One self-contained page for a sweep, or for many run directories: tables, and charts without a script.
#pragma once
#include "reports/findings/sweep_summary.hpp"

#include <string>

namespace macheps::reports {

/// Limits that keep the page below ten megabytes. The table has at most `max_settings` rows (those with the largest
/// gaps), `max_policies` columns and `max_cells` cells. There are at most `max_curves` curves over steps. A chart
/// over an axis has at most `max_lines` policies with `max_points` points each.
struct SweepPageLimits {
    std::size_t max_settings = 2000, max_curves = 20, max_policies = 60, max_cells = 40000, max_lines = 14,
                max_points = 60;
};
std::string sweep_page_html(const SweepSummary& sweep, const SweepPageLimits& limits = {});

}  // namespace macheps::reports
