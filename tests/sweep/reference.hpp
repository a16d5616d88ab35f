// SPDX-License-Identifier: Apache-2.0
// The reference results for tests that disturb a sweep. They come from the same plan, trained by one undisturbed shard.
#pragma once
#include "tests/sweep/folder.hpp"

#include <map>
#include <string>

namespace macheps::test {

using MergedFiles = std::map<std::string, std::string>;

/// The option with which `macheps merge` merges every kind of row, so that tests compare every byte.
inline constexpr const char* all_rows = " --rows runs,evals,steps,sites,site-sums";

inline MergedFiles merged_again(const SweepScratch& folder, const std::string& name) {
    const int code = folder.run("merge " + name + all_rows);
    CAPTURE(folder.err());
    REQUIRE(code == 0);
    return folder.merged(name + "/merged");
}

/// Trains the sweep `name` in one shard and merges it.
inline MergedFiles trained_at_once(const SweepScratch& folder, const std::string& name) {
    const int code = folder.run("sweep run " + name + " -q");
    CAPTURE(folder.err());
    REQUIRE(code == 0);
    CHECK(fs::is_empty(folder / (name + "/work")));
    return merged_again(folder, name);
}

/// Copies the plan of a sweep, without its trained units.
inline void copy_plan(const SweepScratch& folder, const std::string& from, const std::string& to) {
    fs::remove_all(folder / to);
    fs::create_directories(folder / to);
    fs::copy(folder / (from + "/sweep.json"), folder / (to + "/sweep.json"));
}

}  // namespace macheps::test
