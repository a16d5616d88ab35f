// SPDX-License-Identifier: Apache-2.0
// Joins finished units. The bytes do not depend on the shards, the engine, the attempts or the order in which units
// ended.
#pragma once
#include "experiments/training/sweep/results/unit_rows.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// Returns the words for everything that can be merged: files of rows, and sums of sites.
std::vector<std::string_view> merge_words();
inline constexpr std::string_view usual_merge_words[] = {"runs", "evals", "steps", "site-sums"};

struct MergeRequest {
    std::filesystem::path out{}, to{};
    std::vector<std::string> rows{};  ///< of merge_words()
    FinishedUnits::Trust trust = FinishedUnits::Trust::is_checked;
};

/// Writes one file for each of `rows`, and units.csv. Each file is replaced in one step, and none is replaced if a unit
/// is bad. Rows keep their columns, followed by `unit`. Returns the paths of the files. Errors: as FinishedUnits;
/// Exit::usage for a word that names no rows; Exit::cannot_write.
std::vector<std::filesystem::path> merge_units(const Sweep& sweep, const FinishedUnits& units,
                                               const MergeRequest& request);

}  // namespace macheps::training
