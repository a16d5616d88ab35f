// SPDX-License-Identifier: Apache-2.0
// The scripts with which a site's own engine runs the shards of a sweep.
#pragma once
#include "experiments/training/sweep/sweep.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace macheps::training {

struct SubmitRequest {
    std::filesystem::path out{};      ///< absolute
    std::filesystem::path program{};  ///< absolute: what the tasks run
    std::string name{};
    int shards = 1;
    std::int64_t memory_bytes = 0;  ///< of a task
    std::string time{};             ///< `4:00:00`; empty: the site's own limit
    std::string more{};             ///< words for sbatch: `-p cpu -A acct`
    std::string image{};            ///< of containers
};

struct EngineScript {
    std::string file{};  ///< under OUT: `slurm/array.sh`
    std::string text{};
};

/// An array of the shards, and a job that merges when all have ended, however they did.
std::vector<EngineScript> slurm_scripts(const SubmitRequest& request);
/// An indexed job: YAML.
std::vector<EngineScript> kubernetes_scripts(const SubmitRequest& request);

/// As many as there are units at most, 1000, and so few that a shard takes ten minutes.
int usual_shards(const Sweep& sweep);
/// What a task may need: the largest unit's, and 30 % more.
std::int64_t task_memory(const Sweep& sweep);

}  // namespace macheps::training
