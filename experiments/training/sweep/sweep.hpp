// SPDX-License-Identifier: Apache-2.0
// A sweep: the contents of sweep.json, which every shard, `merge` and `report` read. A sweep only grows: additions to
// its plan become new units, and finished units stay.
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

/// A function that returns the experiment that `macheps train OPTIONS` would run, without policies, seeds and
/// directory. The caller provides it, because this code does not know the options. Errors: throws Error that names the
/// options.
using TaskOf = std::function<Experiment(const std::vector<std::string>& options)>;

struct SweepPolicy {
    std::string name{};
    std::vector<policy::PolicySource> sources{};  ///< with the file names in the folder `policies`
    std::uint64_t checksum = 0;                   ///< of the sources, so an edited policy file is a different policy
};

/// A value for each axis except policy and seed.
struct SweepSetting {
    std::vector<std::pair<std::string, std::string>> axes{};  ///< name and value
    std::vector<std::string> options{};                       ///< of `macheps train`
    std::string data{};  ///< checksums of the contents of data files; empty if there are none

    bool operator==(const SweepSetting&) const = default;
};

/// The policies that the plan asks for in one setting with one seed.
struct SweepCell {
    std::size_t setting = 0;
    std::int64_t seed = 0;
    std::vector<std::size_t> policies{};  ///< indices into Sweep::policies, fp32 first

    bool operator==(const SweepCell&) const = default;
};

/// The work of one process in one setting with one seed: it trains fp32 and policies that are compared with fp32.
struct SweepUnit {
    std::string id{};  ///< the checksum of its recipe: 16 hexadecimal digits
    std::size_t setting = 0;
    std::int64_t seed = 0;
    std::vector<std::size_t> policies{};
    double seconds = 0;             ///< processor time, as measured when the unit was planned
    std::int64_t bytes = 0;         ///< size of its rows
    std::int64_t memory_bytes = 0;  ///< memory that its training takes
};

struct Sweep {
    std::string name{}, created_by{}, git{};  ///< created_by and git: the program that made the sweep
    std::string plan_checksum{};              ///< plan_checksum() of the current plan
    std::string plan_text{};
    std::vector<std::string> axes{};      ///< of the current plan, without policy and seeds
    std::vector<SweepPolicy> policies{};  ///< like settings and units, also of earlier plans
    std::vector<SweepSetting> settings{};
    std::vector<SweepCell> cells{};  ///< of the current plan, in its order
    std::vector<SweepUnit> units{};

    /// Returns the unit with this name, or nullptr.
    const SweepUnit* find_unit(const std::string& id) const;
};

/// A run of a cell, and the unit that trains it, as indices into the lists of Sweep.
struct SweepRun {
    std::size_t cell = 0, policy = 0, unit = 0;
};
/// Returns every run of the current plan, cell by cell, in the order of the policies of each cell. The unit of a run is
/// the first unit that trains its policy. fp32 is an exception, because every unit trains it: its unit is the first
/// unit that another policy of the cell needs.
std::vector<SweepRun> runs_of(const Sweep& sweep);

/// Returns the experiment of a unit, without a directory. Errors: those of TaskOf; Exit::bad_input if the recipe of the
/// unit is not the planned recipe, because another version of the program planned it or because its data has changed.
Experiment unit_experiment(const Sweep& sweep, const SweepUnit& unit, const TaskOf& task_of);

/// Returns the values of the axes as text, such as `size=tiny lr=0.001`. The text is empty if the sweep has only
/// policies and seeds.
std::string setting_words(const SweepSetting& setting);

/// Reads OUT/sweep.json. Errors: throws Error, Exit::bad_input, if the file is missing or damaged, or was written by a
/// newer version.
Sweep read_sweep(const std::filesystem::path& out);
/// Writes OUT/sweep.json, plan.toml and policies/*.toml.
void write_sweep(const Sweep& sweep, const std::filesystem::path& out);
/// Writes the same files as write_sweep(), unless sweep.json exists already. If another process wrote sweep.json first,
/// returns false and changes nothing.
bool create_sweep(const Sweep& sweep, const std::filesystem::path& out);

}  // namespace macheps::training
