// SPDX-License-Identifier: Apache-2.0
#include "reports/logs/site_figures.hpp"

#include "reports/logs/divergence_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace macheps::reports {

namespace {

using Rules = DivergenceRules;

/// Returns the reason why a site's row is notable, or an empty string if it is not.
std::string remarkable(const SiteRow& site) {
    const auto percent = [&](std::uint64_t n) {
        return 100 * double(n) / double(std::max<std::uint64_t>(site.count, 1));
    };
    if (site.nan_in) return fmt::format("{} NaN inputs at step {}", site.nan_in, site.step);
    if (site.inf_in) return fmt::format("{} infinite inputs at step {}", site.inf_in, site.step);
    const bool scaled = site.scale_inv_min != 1 || site.scale_inv_max != 1;
    if (scaled ? site.overflow > 1 && percent(site.overflow) > 100 * Rules::notable_overflow : site.overflow > 0) {
        return fmt::format("overflow {:.2g} % at step {}", percent(site.overflow), site.step);
    }
    if (percent(site.underflow) > 100 * Rules::notable_underflow) {
        return fmt::format("underflow {:.2g} % at step {}", percent(site.underflow), site.step);
    }
    return {};
}

/// Returns whether a scale moved the values into the format's range.
bool is_scaled(const SiteRow& site) { return site.scale_inv_min != 1 || site.scale_inv_max != 1; }

void keep_worst(WorstSite& worst, const SiteRow& site, double rate, double notable) {
    if (rate > notable && (!worst.first_step || site.step < *worst.first_step)) worst.first_step = site.step;
    if (rate > worst.rate) worst.site = site.site, worst.step = site.step, worst.rate = rate;
}

/// Returns the largest value at a site divided by the largest number of its format. The result is at least 1 after an
/// overflow. Returns 0 for scaled values, because a scale moves them close to the largest number on purpose.
double reach_of(const SiteRow& site) {
    const std::optional<double> largest = largest_of(site.format);
    if (!largest || is_scaled(site)) return 0;
    return site.overflow > 0 ? std::max(1.0, double(site.amax) / *largest) : double(site.amax) / *largest;
}

/// Records the range of the values at a forward site, and the first overflow.
void add_forward(SiteFigures& figures, const SiteRow& site) {
    const std::optional<double> largest = largest_of(site.format);
    if (!largest || site.format == "fp32") return;
    const FormatRange range{.format = site.format,
                            .amax = is_scaled(site) || !std::isfinite(site.amax) ? 0 : double(site.amax),
                            .largest = *largest,
                            .is_scaled = is_scaled(site)};
    add_range(figures.ranges, range);
    if (range.is_scaled || !range.is_narrow()) return;
    figures.narrow_sites.try_emplace(site.site, site.format);
    WorstSite& first = figures.forward_overflow;
    if (site.overflow == 0 || (first.first_step && site.step >= *first.first_step)) return;
    first.site = site.site, first.step = site.step, first.first_step = site.step;
    figures.forward_overflow_format = site.format;
}

}  // namespace

bool is_gradient_slot(std::string_view name) {
    const std::size_t colon = name.find(':');
    if (colon == std::string_view::npos) return false;
    // These operands of backward matmuls are weights or activations, not gradients: W and X of linears, K and Q of the
    // attention scores, and V and P of the product of probabilities and values.
    constexpr std::string_view others[] = {":input_grad.b", ":weight_grad.b", ":grad_a.b", ".scores:grad_b.b",
                                           ".mix:grad_b.a"};
    if (std::any_of(std::begin(others), std::end(others), [&](std::string_view end) { return name.ends_with(end); }))
        return false;
    const std::string_view slot = name.substr(colon + 1);
    return slot.substr(0, slot.find('.')).find("grad") != std::string_view::npos;
}

SiteFigures site_figures(std::span<const SiteRow> rows) {
    SiteFigures figures;
    std::optional<std::int64_t> step;
    for (const SiteRow& site : rows) {
        if (step != site.step) step = site.step, ++figures.sampled_steps;
        if (site.site.find(":forward") != std::string::npos) add_forward(figures, site);
        figures.underflow += site.underflow;
        figures.count += site.count;
        if (site.site == "all_reduce:grad.wire") {
            if (!figures.wire.first_step) figures.wire.site = site.site, figures.wire.step = site.step;
            keep_worst(figures.wire, site, double(site.underflow) / double(std::max<std::uint64_t>(site.count, 1)), -1);
        }
        if (is_gradient_slot(site.site)) {
            figures.gradients_underflow += site.underflow;
            figures.gradients += site.count;
            const double rate = double(site.underflow) / double(std::max<std::uint64_t>(site.count, 1));
            keep_worst(figures.gradient_underflow, site, rate, Rules::notable_underflow);
        } else if (site.site.find(":forward.") != std::string::npos) {
            keep_worst(figures.activation_reach, site, reach_of(site), Rules::notable_reach);
        }
        if (figures.first_step && site.step >= *figures.first_step) continue;
        if (std::string why = remarkable(site); !why.empty()) {
            figures.first = site.site;
            figures.first_why = std::move(why);
            figures.first_step = site.step;
        }
    }
    return figures;
}

}  // namespace macheps::reports
