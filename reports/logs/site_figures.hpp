// SPDX-License-Identifier: Apache-2.0
// Figures about the sampled sites of a run, for summaries and diagnoses. With these figures, the rows of sites.csv need
// not be kept in memory.
#pragma once
#include "reports/logs/format_range.hpp"
#include "reports/rows/event.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

/// The row of sites.csv with the highest value of some rate, such as the share of underflows.
struct WorstSite {
    std::string site{};
    std::int64_t step = 0;
    double rate = 0;
    std::optional<std::int64_t> first_step{};  ///< first step at which the rate of any site was notable
};

struct SiteFigures {
    std::uint64_t underflow = 0, count = 0;                ///< elements that became zero and all elements, in all rows
    std::uint64_t gradients_underflow = 0, gradients = 0;  ///< as `underflow` and `count`, but only of gradients
    std::string first{}, first_why{};                      ///< first notable site; reason: "underflow 3.1 % at step 20"
    std::optional<std::int64_t> first_step{};
    WorstSite gradient_underflow{};  ///< share of a gradient's elements that became zero
    WorstSite wire{};                ///< share that became zero when ranks sent gradients in a narrow format
    WorstSite activation_reach{};    ///< amax over the largest finite number, at unscaled forward sites
    std::int64_t sampled_steps = 0;
    std::vector<FormatRange> ranges{};  ///< ranges of forward values, one for each format
    WorstSite forward_overflow{};       ///< first overflow of a forward value cast without a scale to a narrow format
    std::string forward_overflow_format{};
    std::map<std::string, std::string, std::less<>> narrow_sites{};  ///< unscaled forward sites, and their formats
};

/// Returns whether the values at a slot are gradients. One operand of each backward matmul is a gradient, and
/// the other is a weight or an activation.
bool is_gradient_slot(std::string_view site_and_slot);

/// The columns of sites.csv that site_figures() reads, and the columns that identify the run.
inline constexpr std::string_view summary_site_columns[] = {
    "run",           "policy", "seed",      "step",     "site",   "format", "scale_inv_min",
    "scale_inv_max", "count",  "underflow", "overflow", "nan_in", "inf_in", "amax"};

/// Computes the figures from the rows of one run. SiteFigures::first is the site of the first notable row, by step and
/// then in the order of the rows. DivergenceRules defines which rows are notable.
SiteFigures site_figures(std::span<const SiteRow> rows);

}  // namespace macheps::reports
