// SPDX-License-Identifier: Apache-2.0
// Counts of the casts at each site of a sweep. For each setting, policy and site, the counts are summed over seeds and
// sampled steps.
#pragma once
#include "reports/rows/event.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace macheps::training {

/// Sums for one site under one policy in one setting. Counts are summed. `amax` is the maximum, and `amin_nz` is the
/// minimum.
struct SiteSumRow {
    std::string policy{}, site{}, format{};
    std::int64_t samples = 0;  ///< number of rows of sites.csv
    std::uint64_t count = 0, zero_in = 0, underflow = 0, to_subnormal = 0, overflow = 0, saturated = 0, nan_in = 0,
                  inf_in = 0;
    float amax = 0, amin_nz = 0;

    static constexpr std::string_view file = "site-sums.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(reports::column("policy", &SiteSumRow::policy), reports::column("site", &SiteSumRow::site),
                   reports::column("format", &SiteSumRow::format), reports::column("samples", &SiteSumRow::samples),
                   reports::column("count", &SiteSumRow::count), reports::column("zero_in", &SiteSumRow::zero_in),
                   reports::column("underflow", &SiteSumRow::underflow),
                   reports::column("to_subnormal", &SiteSumRow::to_subnormal),
                   reports::column("overflow", &SiteSumRow::overflow),
                   reports::column("saturated", &SiteSumRow::saturated), reports::column("nan_in", &SiteSumRow::nan_in),
                   reports::column("inf_in", &SiteSumRow::inf_in), reports::column("amax", &SiteSumRow::amax),
                   reports::column("amin_nz", &SiteSumRow::amin_nz));
    }
};

/// Computes the sums of one setting. Rows are in the order in which policies and sites first occurred.
class SiteSums {
  public:
    void add(const reports::SiteRow& site);
    /// Returns the sums and resets them.
    std::vector<SiteSumRow> take();

  private:
    std::vector<SiteSumRow> rows_{};
    std::size_t next_ = 0;  ///< expected index of the next site; sites usually recur in the same order
};

}  // namespace macheps::training
