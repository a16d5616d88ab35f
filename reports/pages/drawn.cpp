// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/drawn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::reports {

namespace {

/// Returns how much a policy differs from fp32. Returns infinity for the baseline, so that it is always drawn.
double difference_of(const PolicySummary& policy) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (policy.row.policy == baseline_policy || policy.row.verdict == verdicts::diverged) return infinity;
    if (!policy.relative_gap) return -1;
    return std::isnan(*policy.relative_gap) ? infinity : std::abs(*policy.relative_gap);
}

}  // namespace

Summary drawn_of(const Summary& summary, std::size_t most) {
    const auto is_baseline = [](const PolicySummary& policy) { return policy.row.policy == baseline_policy; };
    const bool has_baseline = std::any_of(summary.policies.begin(), summary.policies.end(), is_baseline);
    const std::size_t room = most + (has_baseline ? 1 : 0);
    if (summary.policies.size() <= room) return summary;
    std::vector<std::size_t> order(summary.policies.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    // The baseline is first in a summary, and a stable sort keeps it there.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return difference_of(summary.policies[a]) > difference_of(summary.policies[b]);
    });
    order.resize(room);
    std::sort(order.begin(), order.end());
    Summary drawn{.policies = {}, .notes = {}, .margin = summary.margin, .setup = summary.setup};
    for (const std::size_t i : order) drawn.policies.push_back(summary.policies[i]);
    drawn.notes.push_back(
        fmt::format("{} policies were compared; this page shows the {} whose loss differs most from that of fp32, and "
                    "{} contains all of them",
                    summary.policies.size() - (has_baseline ? 1 : 0), most, SummaryRow::file));
    drawn.notes.insert(drawn.notes.end(), summary.notes.begin(), summary.notes.end());
    return drawn;
}

}  // namespace macheps::reports
