// SPDX-License-Identifier: Apache-2.0
// The data of the page's charts as compact JSON.
#pragma once
#include "reports/findings/divergence.hpp"

#include <cstddef>
#include <string>

namespace macheps::reports {

/// Limits on the data of the displayed policies.
/// - Curves: at most `points` points per run and `all_points` points in total. Each point is the mean or the last value
///   of equally many steps.
/// - Heat map: at most `heat_columns` columns per run and `heat_cells` cells in total. Each column has the summed
///   counts of equally many sampled steps.
/// - Exponents: histograms of at most `histogram_steps` sampled steps per run, spread from the first to the last (a
///   single histogram is from the last step), and at most `histogram_bins` bins in total.
/// - Matrix products: the first `gemm_rows` rows.
/// If the heat maps or the histograms exceed their total, only one seed per policy is kept. If they still exceed the
/// total, they get fewer columns or steps.
struct PageLimits {
    std::size_t points = 600, all_points = 200000, heat_columns = 60, heat_cells = 60000, histogram_steps = 8,
                histogram_bins = 120000, gemm_rows = 5000;
    bool one_seed = false;  ///< always keep sites and exponents of only one seed per policy
};

/// The limits for PageSize::small.
inline constexpr PageLimits small_page{.points = 100,
                                       .all_points = 3000,
                                       .heat_columns = 12,
                                       .heat_cells = 20000,
                                       .histogram_steps = 1,
                                       .histogram_bins = 20000,
                                       .gemm_rows = 1000,
                                       .one_seed = true};

/// Returns the data of the page as JSON. It contains no '<', so that it is safe between <script> tags. NaN and
/// infinities are null.
std::string page_data(const Log& log, const Summary& summary, const PageLimits& limits = {});

/// Returns the number of steps per point of the curves.
std::size_t points_bucket(const Log& log, const Summary& summary, const PageLimits& limits = {});

}  // namespace macheps::reports
