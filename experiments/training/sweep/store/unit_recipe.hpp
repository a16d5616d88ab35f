// SPDX-License-Identifier: Apache-2.0
// The name of a unit: the checksum of what it trains. Two processes that train one recipe write the same bytes.
#pragma once
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/experiment_runs.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace macheps::training {

/// Of the texts; where the files lie is not what they are.
std::uint64_t checksum_of_sources(std::span<const policy::PolicySource> sources);

/// The policy with its files named as they are in the folder of a sweep: `policies/mine.toml` for what lies in `folder`.
policy::Policy as_in_sweep(const policy::Policy& policy, const std::filesystem::path& folder);

/// The recipe of the manifest that the experiment would have. Errors: throws Error for what cannot be trained.
std::string unit_id(const Experiment& experiment);

/// Computes unit_id for experiments that differ only in their seed. The rest of the recipe is written once.
class UnitIds {
  public:
    /// The policies have been resolved. Errors: as unit_id.
    UnitIds(Experiment experiment, const std::vector<policy::ResolvedPolicy>& resolved, const std::string& description);

    std::string of_seed(std::int64_t seed) const;

  private:
    std::string head_{}, tail_{};  // of the recipe, before and after the seed
};

}  // namespace macheps::training
