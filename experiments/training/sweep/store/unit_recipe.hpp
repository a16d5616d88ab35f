// SPDX-License-Identifier: Apache-2.0
// The name of a unit: the checksum of its recipe. Two processes that train the same recipe write the same bytes.
#pragma once
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/experiment_runs.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace macheps::training {

/// Returns the checksum of the names and texts of the sources. Names are relative to the folder of the sweep, so the
/// location of the files does not matter.
std::uint64_t checksum_of_sources(std::span<const policy::PolicySource> sources);

/// Returns the policy with its files renamed for the folder of a sweep: a file mine.toml in `folder` becomes
/// `policies/mine.toml`.
policy::Policy as_in_sweep(const policy::Policy& policy, const std::filesystem::path& folder);

/// Returns the file in `folder` that as_in_sweep() renamed to `name`.
std::filesystem::path file_of_source(const std::string& name, const std::filesystem::path& folder);

/// Returns the name of the unit that trains an experiment: the checksum of the recipe in its manifest. Errors: throws
/// Error if the experiment cannot be trained.
std::string unit_id(const Experiment& experiment);

/// Computes unit_id() for experiments that differ only in their seed. The text of the recipe is generated only once.
class UnitIds {
  public:
    /// `resolved` contains the resolved policies of the experiment, and `description` describes its data. Errors: those
    /// of unit_id().
    UnitIds(Experiment experiment, const std::vector<policy::ResolvedPolicy>& resolved, const std::string& description);

    std::string of_seed(std::int64_t seed) const;

  private:
    std::string head_{}, tail_{};  // text of the recipe before and after the seed
};

}  // namespace macheps::training
