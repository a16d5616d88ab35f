// SPDX-License-Identifier: Apache-2.0
// What a summary and a diagnosis say of a run's sampled sites, without their rows.
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

/// The row that is worst in one way, and by how much.
struct WorstSite {
    std::string site{};
    std::int64_t step = 0;
    double rate = 0;
    std::optional<std::int64_t> first_step{};  ///< of any site's rows, where `rate` was first notable
};

struct SiteFigures {
    std::uint64_t underflow = 0, count = 0;                ///< over all rows
    std::uint64_t gradients_underflow = 0, gradients = 0;  ///< over those of gradients
    std::string first{}, first_why{};                      ///< the first notable site, and "underflow 3.1 % at step 20"
    std::optional<std::int64_t> first_step{};
    WorstSite gradient_underflow{};  ///< of elements that carry a gradient: the share that became zero
    WorstSite wire{};                ///< of what ranks sent in a format narrower than fp32: the share that became zero
    WorstSite activation_reach{};    ///< forward and unscaled: amax over the largest finite number of the format
    std::int64_t sampled_steps = 0;
    std::vector<FormatRange> ranges{};  ///< of forward values, by format
    WorstSite forward_overflow{};       ///< the first one without a scale in a format that is_narrow()
    std::string forward_overflow_format{};
    std::map<std::string, std::string, std::less<>> narrow_sites{};  ///< forward, unscaled: the format of each
};

/// Returns whether the values at a slot are gradients. One operand of each backward matmul is a weight or an activation.
bool is_gradient_slot(std::string_view site_and_slot);

/// The columns of sites.csv that site_figures reads, and those that say whose they are.
inline constexpr std::string_view summary_site_columns[] = {
    "run",           "policy", "seed",      "step",     "site",   "format", "scale_inv_min",
    "scale_inv_max", "count",  "underflow", "overflow", "nan_in", "inf_in", "amax"};

/// Of the rows of one run. First is the earliest by step, then in the order of the rows; what is notable,
/// DivergenceRules says.
SiteFigures site_figures(std::span<const SiteRow> rows);

}  // namespace macheps::reports
