// SPDX-License-Identifier: Apache-2.0
// Merges the rows of finished units. Except for units.csv, the bytes of the merged files do not depend on the shards,
// the engine, the attempts or the order in which units were finished.
#pragma once
#include "experiments/training/sweep/results/unit_rows.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// Returns the words that `--rows` accepts: one for each file of rows, and `site-sums`.
std::vector<std::string_view> merge_words();
inline constexpr std::string_view usual_merge_words[] = {"runs", "evals", "steps", "site-sums"};

struct MergeRequest {
    std::filesystem::path out{}, to{};
    std::vector<std::string> rows{};  ///< from merge_words()
    FinishedUnits::Trust trust = FinishedUnits::Trust::is_checked;
};

/// Writes one file for each word in `rows`, and units.csv. Each file is replaced atomically. If a unit is damaged, no
/// file is replaced. Merged rows keep their columns and get `unit` as an additional last column. Returns the paths of
/// the files. Errors: those of FinishedUnits; Exit::usage for an unknown word in `rows`; Exit::cannot_write.
std::vector<std::filesystem::path> merge_units(const Sweep& sweep, const FinishedUnits& units,
                                               const MergeRequest& request);

}  // namespace macheps::training
