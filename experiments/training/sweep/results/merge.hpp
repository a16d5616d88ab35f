// SPDX-License-Identifier: Apache-2.0
// Finished units joined: the same bytes whatever the shards, the engine, the attempts and the order of their ends were.
#pragma once
#include "experiments/training/sweep/results/unit_rows.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// What may be merged, by its word: a file of rows, or sums of sites.
std::vector<std::string_view> merge_words();
inline constexpr std::string_view usual_merge_words[] = {"runs", "evals", "steps", "site-sums"};

struct MergeRequest {
    std::filesystem::path out{}, to{};
    std::vector<std::string> rows{};  ///< of merge_words()
    FinishedUnits::Trust trust = FinishedUnits::Trust::is_checked;
};

/// Writes one file for each of `rows`, and units.csv; each is replaced in one step, and none where anything is wrong. Rows
/// keep their columns; `unit` stands behind them. Returns the files. Errors: as FinishedUnits; Exit::usage for a word that
/// names no rows; Exit::cannot_write.
std::vector<std::filesystem::path> merge_units(const Sweep& sweep, const FinishedUnits& units,
                                               const MergeRequest& request);

}  // namespace macheps::training
