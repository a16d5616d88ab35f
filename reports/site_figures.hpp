// SPDX-License-Identifier: Apache-2.0
// What a summary says of a run's sampled sites, without their rows.
#pragma once
#include "reports/event.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace macheps {

struct SiteFigures {
    std::uint64_t underflow = 0, count = 0;  ///< over all rows
    std::string first{}, first_why{};        ///< the first notable site, and "underflow 3.1 % at step 20"
    std::optional<std::int64_t> first_step{};
};

/// Of the rows of one run. First is the earliest by step, then in the order of the rows; what is notable,
/// DivergenceRules says.
SiteFigures site_figures(std::span<const SiteRow> rows);

}  // namespace macheps
