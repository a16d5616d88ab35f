// SPDX-License-Identifier: Apache-2.0
// What the page's charts draw, as compact JSON.
#pragma once
#include "reports/findings/divergence.hpp"

#include <cstddef>
#include <string>

namespace macheps::reports {

/// How much of a log a page keeps, of the runs of the policies in a summary. Curves: at most `points` per run and
/// `all_points` over all of them, each the mean of equally many steps. Heat map: at
/// most `heat_columns` per run, each the joined counts of equally many sampled steps, and at most `heat_cells` in all.
/// Exponents: at most `histogram_steps` sampled steps per run, first and last among them, and at most `histogram_bins`
/// in all. Matrix products: the first `gemm_rows` rows. Where a limit over all runs is exceeded, one seed per policy
/// stays, then fewer columns or steps.
struct PageLimits {
    std::size_t points = 600, all_points = 200000, heat_columns = 60, heat_cells = 60000, histogram_steps = 8,
                histogram_bins = 120000, gemm_rows = 5000;
    bool one_seed = false;  ///< sites and exponents of one seed per policy in any case
};

/// Of a page to send along.
inline constexpr PageLimits small_page{.points = 100,
                                       .all_points = 3000,
                                       .heat_columns = 12,
                                       .heat_cells = 20000,
                                       .histogram_steps = 1,
                                       .histogram_bins = 20000,
                                       .gemm_rows = 1000,
                                       .one_seed = true};

/// JSON that is safe between <script> tags: no '<' stands in it. NaN and infinities are null.
std::string page_data(const Log& log, const Summary& summary, const PageLimits& limits = {});

/// Steps per point of the curves.
std::size_t points_bucket(const Log& log, const Summary& summary, const PageLimits& limits = {});

}  // namespace macheps::reports
