// SPDX-License-Identifier: Apache-2.0
// Functions that write parts of the page's JSON data. Each is defined in its own source file.
#pragma once
#include "reports/logs/run_log.hpp"
#include "reports/rows/gemm_row.hpp"
#include "reports/rows/json_text.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

/// The names in the JSON data. Each name is written once, in a list. Other data refer to it by its index.
class Names {
  public:
    std::uint64_t index_of(std::string_view name) {
        const auto found = index_.find(name);
        if (found != index_.end()) return found->second;
        list_.emplace_back(name);
        return index_.emplace(list_.back(), list_.size() - 1).first->second;
    }
    const std::vector<std::string>& list() const { return list_; }

  private:
    std::vector<std::string> list_;
    std::map<std::string, std::uint64_t, std::less<>> index_;
};

/// The names of a run's sampled sites, in the order of their first rows, and the sampled steps, in ascending order.
struct SampleAxes {
    std::vector<std::string> sites;
    std::map<std::string, std::size_t, std::less<>> site_index;
    std::vector<std::int64_t> steps;
};

template <class Row>
SampleAxes axes_of(const std::vector<Row>& rows) {
    SampleAxes axes;
    std::set<std::int64_t> steps;
    for (const Row& row : rows) {
        if (axes.site_index.emplace(row.site, axes.sites.size()).second) axes.sites.push_back(row.site);
        steps.insert(row.step);
    }
    axes.steps.assign(steps.begin(), steps.end());
    return axes;
}

/// Writes the key `heat`: the counts at the sites of a run, such as underflows, in parts per million of the values at
/// the site. Each kind of count has a list of rows: [index into `site`, one cell for each column]. Sites whose cells
/// are all zero have no row. A cell is null if the site was not sampled there.
void put_heat(JsonText& out, const RunLog& run, Names& names, std::size_t max_columns);

/// Writes the key `exps`: the exponent histograms of a run. A histogram is a list of values, whose meanings
/// `exponent_fields` names in the same order.
void put_exponents(JsonText& out, const RunLog& run, Names& names, std::size_t max_steps);
inline constexpr std::string_view exponent_fields[] = {"site",  "step", "format", "scale_min", "scale_max",
                                                       "first", "zero", "inf",    "nan",       "counts"};

/// Writes the key `gemm`: the first `most` rows of `macheps gemm`.
void put_gemm(JsonText& out, const std::vector<GemmRow>& rows, std::size_t most);

}  // namespace macheps::reports
