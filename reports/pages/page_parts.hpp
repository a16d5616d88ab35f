// SPDX-License-Identifier: Apache-2.0
// The parts of the page's data that have a file of their own.
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

/// Names that the data spells once; elsewhere a number stands for each.
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

/// The names and steps of a run's sampled sites, each in the order of its first row.
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

/// `heat`: what happened at the sites of a run, in parts per million of the elements there. Of each count the rows that
/// are not all zero, [place in `site`, a cell for each column]; null: not sampled.
void put_heat(JsonText& out, const RunLog& run, Names& names, std::size_t most_columns);

/// `exps`: the histograms of a run, a list each: see `exponent_fields`.
void put_exponents(JsonText& out, const RunLog& run, Names& names, std::size_t most_steps);
inline constexpr std::string_view exponent_fields[] = {"site",  "step", "format", "scale_min", "scale_max",
                                                       "first", "zero", "inf",    "nan",       "counts"};

/// `gemm`: the rows of `macheps gemm`, the first `most` of them.
void put_gemm(JsonText& out, const std::vector<GemmRow>& rows, std::size_t most);

}  // namespace macheps::reports
