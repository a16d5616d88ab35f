// SPDX-License-Identifier: Apache-2.0
// One self-contained page of a sweep: tables, and charts without a script.
#pragma once
#include "reports/sweep_summary.hpp"

#include <string>

namespace macheps {

/// At most `most_settings` rows of the table, those with the largest gaps; at most `most_curves` curves.
struct SweepPageLimits {
    std::size_t most_settings = 2000, most_curves = 20, most_policies = 60;
};
std::string sweep_page_html(const SweepSummary& sweep, const SweepPageLimits& limits = {});

}  // namespace macheps
