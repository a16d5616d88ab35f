// SPDX-License-Identifier: Apache-2.0
// Runs a shard: trains its units one after the other, in this process.
#pragma once
#include "emulation/backend.hpp"
#include "experiments/training/sweep/shard.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace macheps::training {

struct ShardRequest {
    std::filesystem::path out{};
    std::string shard{};               ///< name of the shard in records, such as `3/64`
    std::vector<std::size_t> units{};  ///< indices into Sweep::units, in the order in which they are trained
    bool retry_failed = false;
    std::filesystem::path scratch{};  ///< folder on a local disk in which to train; empty: the sweep's folder
    double patience = 60;  ///< seconds over which a transient error, such as a stale handle, is retried 3 times
    std::optional<std::int64_t> memory{};
    std::optional<std::chrono::steady_clock::time_point> deadline{};  ///< time at which the shard saves and stops
};

enum class UnitEnd { trained, was_done, failed, had_failed, stopped };

struct UnitReport {
    std::string id{};
    UnitEnd end = UnitEnd::trained;
    double seconds = 0;  ///< time that this process spent on the unit
    std::string what{};  ///< reason of a failure
};

/// Callbacks of a shard; each may be empty.
struct ShardWatcher {
    std::function<void(const UnitReport&)> unit{};
    std::function<void(const std::string&)> note{};
    std::function<void(const Progress&)> progress{};
};

/// Trains the units of a shard that are not finished. If a unit fails, its error is recorded under `failed`, and the
/// shard continues. Returns ok if all units are done, check_failed if some units failed (now or earlier) and all others
/// are done, or stopped. Errors: throws Error, Exit::cannot_write, if the disk is full or cannot be written. Finished
/// units stay intact.
Exit run_shard(Backend& backend, const Sweep& sweep, const ShardRequest& request, const TaskOf& task_of,
               const ShardWatcher& watcher, std::atomic<bool>& stop, const std::atomic<bool>& stop_now);

/// Record of an error that stopped a unit. Shards skip the unit unless `retry_failed` is set.
struct Failure {
    std::string id{}, what{}, host{}, shard{};
    std::int64_t attempt = 0, exit = 0;
};
/// Returns nothing if the unit has no record. If the record cannot be read, `what` says so.
std::optional<Failure> read_failure(const std::filesystem::path& out, const std::string& id);

}  // namespace macheps::training
