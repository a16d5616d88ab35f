// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/results/site_sums.hpp"

#include <algorithm>
#include <utility>

namespace macheps::training {

void SiteSums::add(const reports::SiteRow& site) {
    const auto is_same = [&](const SiteSumRow& row) {
        return row.site == site.site && row.policy == site.policy && row.format == site.format;
    };
    if (next_ >= rows_.size() || !is_same(rows_[next_])) {
        const auto found = std::find_if(rows_.begin(), rows_.end(), is_same);
        next_ = static_cast<std::size_t>(found - rows_.begin());
        if (found == rows_.end()) rows_.push_back({.policy = site.policy, .site = site.site, .format = site.format});
    }
    SiteSumRow& row = rows_[next_++];
    ++row.samples;
    row.count += site.count, row.zero_in += site.zero_in, row.underflow += site.underflow;
    row.to_subnormal += site.to_subnormal, row.overflow += site.overflow, row.saturated += site.saturated;
    row.nan_in += site.nan_in, row.inf_in += site.inf_in;
    row.amax = std::max(row.amax, site.amax);
    if (site.amin_nz > 0) row.amin_nz = row.amin_nz > 0 ? std::min(row.amin_nz, site.amin_nz) : site.amin_nz;
}

std::vector<SiteSumRow> SiteSums::take() {
    next_ = 0;
    return std::exchange(rows_, {});
}

}  // namespace macheps::training
