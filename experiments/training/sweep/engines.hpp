// SPDX-License-Identifier: Apache-2.0
// The scripts with which a scheduler (Slurm or Kubernetes) runs the shards of a sweep.
#pragma once
#include "experiments/training/sweep/sweep.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace macheps::training {

struct SubmitRequest {
    std::filesystem::path out{};      ///< absolute
    std::filesystem::path program{};  ///< absolute path of the program that the tasks run
    std::string name{};
    int shards = 1;
    std::int64_t memory_bytes = 0;  ///< of a task
    std::string time{};             ///< `4:00:00`; empty: the site's own limit
    std::string more{};             ///< options for sbatch: `-p cpu -A acct`
    std::string image{};            ///< of containers
};

struct EngineScript {
    std::string file{};  ///< path under OUT: `slurm/array.sh`
    std::string text{};
};

/// Returns the scripts of an array of the shards, and of a job that merges after all of them have ended, whether they
/// failed or not.
std::vector<EngineScript> slurm_scripts(const SubmitRequest& request);
/// Returns an indexed job as YAML.
std::vector<EngineScript> kubernetes_scripts(const SubmitRequest& request);

/// Returns the usual number of shards: as many as possible if each is to take ten minutes, but at most 1000 and at most
/// one for each unit.
int usual_shards(const Sweep& sweep);
/// Returns the memory that a task may need: that of the largest unit, and 30 % more.
std::int64_t task_memory(const Sweep& sweep);

}  // namespace macheps::training
