// SPDX-License-Identifier: Apache-2.0
// State of a sweep: which of its units are done, begun, failed or missing. The state is never derived from clocks.
#pragma once
#include "experiments/training/sweep/run.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// State of a unit. A unit is `begun` if it has an attempt under `work`. The process of the attempt may still be
/// running or may have ended.
enum class UnitState { done, begun, failed, missing };
std::string_view to_string(UnitState state);

struct UnitStatus {
    std::size_t unit = 0;  ///< index into Sweep::units
    UnitState state = UnitState::missing;
    int attempts = 0;
    std::string host{};               ///< host of the newest attempt or of the failed attempt
    std::int64_t runs = 0, step = 0;  ///< progress of the newest attempt
    std::string what{};               ///< reason of a failure
};

/// Returns the status of every unit that the current plan needs, in the order of sweep.json.
std::vector<UnitStatus> status_of(const Sweep& sweep, const std::filesystem::path& out);

/// Returns the number of shards into which the sweep was last divided, or 1 if no number was recorded.
int shard_count(const std::filesystem::path& out);
/// Records the number of shards for shard_count().
void remember_shard_count(const std::filesystem::path& out, int count);

}  // namespace macheps::training
