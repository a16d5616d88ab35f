// SPDX-License-Identifier: Apache-2.0
#include "reports/site_figures.hpp"

#include "reports/divergence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace macheps {

namespace {

using Rules = DivergenceRules;

/// Why a site's row is worth naming; empty when it is not.
std::string remarkable(const SiteRow& site) {
    const auto percent = [&](std::uint64_t n) {
        return 100 * double(n) / double(std::max<std::uint64_t>(site.count, 1));
    };
    if (site.nan_in) return fmt::format("{} NaN in at step {}", site.nan_in, site.step);
    if (site.inf_in) return fmt::format("{} infinities in at step {}", site.inf_in, site.step);
    const bool scaled = site.scale_inv_min != 1 || site.scale_inv_max != 1;
    if (scaled ? site.overflow > 1 && percent(site.overflow) > 100 * Rules::notable_overflow : site.overflow > 0) {
        return fmt::format("overflow {:.2g} % at step {}", percent(site.overflow), site.step);
    }
    if (percent(site.underflow) > 100 * Rules::notable_underflow) {
        return fmt::format("underflow {:.2g} % at step {}", percent(site.underflow), site.step);
    }
    return {};
}

}  // namespace

SiteFigures site_figures(std::span<const SiteRow> rows) {
    SiteFigures figures;
    for (const SiteRow& site : rows) {
        figures.underflow += site.underflow;
        figures.count += site.count;
        if (figures.first_step && site.step >= *figures.first_step) continue;
        if (std::string why = remarkable(site); !why.empty()) {
            figures.first = site.site;
            figures.first_why = std::move(why);
            figures.first_step = site.step;
        }
    }
    return figures;
}

}  // namespace macheps
