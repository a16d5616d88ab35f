// SPDX-License-Identifier: Apache-2.0
// Figures of a run's sampled sites, for summaries and diagnoses. They replace the rows.
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

/// The row with the highest rate of some kind.
struct WorstSite {
    std::string site{};
    std::int64_t step = 0;
    double rate = 0;
    std::optional<std::int64_t> first_step{};  ///< first step at which the rate of any site was notable
};

struct SiteFigures {
    std::uint64_t underflow = 0, count = 0;                ///< over all rows
    std::uint64_t gradients_underflow = 0, gradients = 0;  ///< over the rows of gradients
    std::string first{}, first_why{};                      ///< the first notable site, and "underflow 3.1 % at step 20"
    std::optional<std::int64_t> first_step{};
    WorstSite gradient_underflow{};  ///< share of a gradient's elements that became zero
    WorstSite wire{};                ///< share that became zero of what ranks sent in a format narrower than fp32
    WorstSite activation_reach{};    ///< amax over the largest finite number, at unscaled forward sites
    std::int64_t sampled_steps = 0;
    std::vector<FormatRange> ranges{};  ///< of forward values, one for each format
    WorstSite forward_overflow{};       ///< the first forward overflow without a scale in a narrow format
    std::string forward_overflow_format{};
    std::map<std::string, std::string, std::less<>> narrow_sites{};  ///< unscaled forward sites, and their formats
};

/// Returns whether the values at a slot are gradients. One operand of each backward matmul is a weight or activation.
bool is_gradient_slot(std::string_view site_and_slot);

/// The columns of sites.csv that site_figures() reads, and those that identify the run.
inline constexpr std::string_view summary_site_columns[] = {
    "run",           "policy", "seed",      "step",     "site",   "format", "scale_inv_min",
    "scale_inv_max", "count",  "underflow", "overflow", "nan_in", "inf_in", "amax"};

/// Computes the figures from the rows of one run. The first site is the one with the earliest step, then in the order
/// of the rows. DivergenceRules defines which rows are notable.
SiteFigures site_figures(std::span<const SiteRow> rows);

}  // namespace macheps::reports
