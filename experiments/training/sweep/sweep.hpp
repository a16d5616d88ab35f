// SPDX-License-Identifier: Apache-2.0
// A sweep: what sweep.json holds, and so what every shard, `merge` and `report` know. It only grows: what is added to a
// plan later is new units, and what was finished stays.
#pragma once
#include "experiments/policy/policy.hpp"
#include "experiments/training/run/experiment.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace macheps::training {

/// What `macheps train OPTIONS` would train, but for policies, seeds and directory. Given by whoever knows the options.
/// Errors: throws Error in the words of the options.
using TaskOf = std::function<Experiment(const std::vector<std::string>& options)>;

struct SweepPolicy {
    std::string name{};
    std::vector<policy::PolicySource> sources{};  ///< files by their names in the folder `policies`
    std::uint64_t checksum = 0;  ///< of the sources' texts: a policy file that was edited is another policy
};

/// A value of each axis but policy and seed.
struct SweepSetting {
    std::vector<std::pair<std::string, std::string>> axes{};  ///< name and value
    std::vector<std::string> options{};                       ///< of `macheps train`
    std::string data{};  ///< the checksums of data files, which count by their content; empty without

    bool operator==(const SweepSetting&) const = default;
};

/// What the plan asks for of a setting under a seed.
struct SweepCell {
    std::size_t setting = 0;
    std::int64_t seed = 0;
    std::vector<std::size_t> policies{};  ///< indices into Sweep::policies, fp32 first

    bool operator==(const SweepCell&) const = default;
};

/// What one process trains: fp32, and policies that are compared with it.
struct SweepUnit {
    std::string id{};  ///< the checksum of its recipe: 16 hexadecimal digits
    std::size_t setting = 0;
    std::int64_t seed = 0;
    std::vector<std::size_t> policies{};
    double seconds = 0;             ///< of one processor, as they were measured when the unit was planned
    std::int64_t bytes = 0;         ///< of its rows
    std::int64_t memory_bytes = 0;  ///< that training it takes
};

struct Sweep {
    std::string name{}, created_by{}, git{};  ///< by whom it was planned first
    std::string plan_checksum{};              ///< of the plan's text and its policies: what it was grown for last
    std::string plan_text{};
    std::vector<std::string> axes{};      ///< of the plan as it is now, without policy and seeds
    std::vector<SweepPolicy> policies{};  ///< and every other list: of the plan, and of what it once was
    std::vector<SweepSetting> settings{};
    std::vector<SweepCell> cells{};  ///< of the plan as it is now, in its order
    std::vector<SweepUnit> units{};

    /// nullptr where there is none.
    const SweepUnit* find_unit(const std::string& id) const;
};

/// Where a run of a cell is trained.
struct SweepRun {
    std::size_t cell = 0, policy = 0, unit = 0;
};
/// Every run of the plan as it is now: cell by cell, the policies in their order, each in the first unit that has it; fp32 in
/// the first of those.
std::vector<SweepRun> runs_of(const Sweep& sweep);

/// What the unit trains, without a directory. Errors: as TaskOf; Exit::bad_input where this program makes another recipe
/// of it than the one that planned it, or its data is no longer what it was.
Experiment unit_experiment(const Sweep& sweep, const SweepUnit& unit, const TaskOf& task_of);

/// `size=tiny lr=0.001`; empty where there are no axes.
std::string setting_words(const SweepSetting& setting);

/// Reads OUT/sweep.json. Errors: throws Error, Exit::bad_input, where it is missing, damaged or of a newer version.
Sweep read_sweep(const std::filesystem::path& out);
/// Writes OUT/sweep.json, plan.toml and policies/*.toml.
void write_sweep(const Sweep& sweep, const std::filesystem::path& out);
/// The same where there is no sweep.json yet; false, and nothing of it changed, where another process was first.
bool create_sweep(const Sweep& sweep, const std::filesystem::path& out);

}  // namespace macheps::training
