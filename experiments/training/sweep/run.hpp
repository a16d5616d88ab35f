// SPDX-License-Identifier: Apache-2.0
// A shard: its units one after the other, in this process.
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
    std::string shard{};               ///< for the record: `3/64`
    std::vector<std::size_t> units{};  ///< indices into Sweep::units, in the order in which they are trained
    bool retry_failed = false;
    std::filesystem::path
        scratch{};         ///< where training writes, on a disk of this machine; empty: in the sweep's folder
    double patience = 60;  ///< seconds in which a stale handle or an input/output error is tried again three times
    std::optional<std::int64_t> memory{};
    std::optional<std::chrono::steady_clock::time_point> deadline{};  ///< then the shard stops, resumable
};

enum class UnitEnd { trained, was_done, failed, had_failed, stopped };

struct UnitReport {
    std::string id{};
    UnitEnd end = UnitEnd::trained;
    double seconds = 0;  ///< that it took here
    std::string what{};  ///< of a failure
};

/// Whom a shard tells; each may be empty.
struct ShardWatcher {
    std::function<void(const UnitReport&)> unit{};
    std::function<void(const std::string&)> note{};
    std::function<void(const Progress&)> progress{};
};

/// Trains the units that are not finished. A unit that fails is recorded under `failed`, and the shard goes on. Returns ok,
/// check_failed where units failed now or before and the rest is done, or stopped.
/// Errors: throws Error, Exit::cannot_write, where the disk is full or cannot be written: what is finished stays whole.
Exit run_shard(Backend& backend, const Sweep& sweep, const ShardRequest& request, const TaskOf& task_of,
               const ShardWatcher& watcher, std::atomic<bool>& stop, const std::atomic<bool>& stop_now);

/// What stopped a unit for good.
struct Failure {
    std::string id{}, what{}, host{}, shard{};
    std::int64_t attempt = 0, exit = 0;
};
/// Nothing where the unit has none, or a record that cannot be read.
std::optional<Failure> read_failure(const std::filesystem::path& out, const std::string& id);

}  // namespace macheps::training
