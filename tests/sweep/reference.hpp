// SPDX-License-Identifier: Apache-2.0
// What a disturbed sweep is compared with: the same plan, trained by one shard to which nothing happened.
#pragma once
#include "tests/sweep/folder.hpp"

#include <map>
#include <string>

namespace macheps::test {

using MergedFiles = std::map<std::string, std::string>;

/// What is merged: everything that a unit has, so that no byte of it is left out.
inline constexpr const char* all_rows = " --rows runs,evals,steps,sites,site-sums";

inline MergedFiles merged_again(const SweepScratch& folder, const std::string& name) {
    const int code = folder.run("merge " + name + all_rows);
    CAPTURE(folder.err());
    REQUIRE(code == 0);
    return folder.merged(name + "/merged");
}

/// The sweep `name` trained by one shard, and merged.
inline MergedFiles trained_at_once(const SweepScratch& folder, const std::string& name) {
    const int code = folder.run("sweep run " + name + " -q");
    CAPTURE(folder.err());
    REQUIRE(code == 0);
    CHECK(fs::is_empty(folder / (name + "/work")));
    return merged_again(folder, name);
}

/// Copies the sweep as it was planned, without what was trained of it.
inline void copy_plan(const SweepScratch& folder, const std::string& from, const std::string& to) {
    fs::remove_all(folder / to);
    fs::create_directories(folder / to);
    fs::copy(folder / (from + "/sweep.json"), folder / (to + "/sweep.json"));
}

}  // namespace macheps::test
