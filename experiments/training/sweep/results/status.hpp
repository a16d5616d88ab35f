// SPDX-License-Identifier: Apache-2.0
// Where a sweep stands: what of it is done, in hand, failed or missing. Nothing is concluded from clocks.
#pragma once
#include "experiments/training/sweep/run.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// An attempt stands under `work` where a unit is `begun`: by a process that is at work, or by one that was ended.
enum class UnitState { done, begun, failed, missing };
std::string_view to_string(UnitState state);

struct UnitStatus {
    std::size_t unit = 0;  ///< index into Sweep::units
    UnitState state = UnitState::missing;
    int attempts = 0;
    std::string host{};               ///< of the newest attempt, or of who failed
    std::int64_t runs = 0, step = 0;  ///< how far the newest attempt has come
    std::string what{};               ///< of a failure
};

/// Of every unit that the plan as it is now needs, in the order of sweep.json.
std::vector<UnitStatus> status_of(const Sweep& sweep, const std::filesystem::path& out);

/// Into how many shards the sweep was cut last; 1 where nobody has said.
int shard_count(const std::filesystem::path& out);
/// Remembers it.
void remember_shard_count(const std::filesystem::path& out, int count);

}  // namespace macheps::training
