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
    std::int64_t memory_bytes = 0;  ///< memory for one task
    std::string time{};             ///< `4:00:00`; empty: the cluster's default limit
    std::string more{};             ///< options for sbatch: `-p cpu -A acct`
    std::string image{};            ///< container image
};

struct EngineScript {
    std::string file{};  ///< path in the sweep's folder, such as `slurm/array.sh`
    std::string text{};
};

/// Returns two Slurm scripts: a job array with one task for each shard, and a job that merges the results. The merge
/// job runs after all tasks have ended, whether they failed or not.
std::vector<EngineScript> slurm_scripts(const SubmitRequest& request);
/// Returns an indexed Kubernetes job as YAML.
std::vector<EngineScript> kubernetes_scripts(const SubmitRequest& request);

/// Returns the default number of shards: the number of units, but at most 64.
int usual_shards(const Sweep& sweep);
/// Returns the policy files of a sweep, for a plan in the folder `plan_folder`.
std::vector<std::filesystem::path> policy_files(const Sweep& sweep, const std::filesystem::path& plan_folder);
/// Returns the data files of a sweep, as absolute paths.
std::vector<std::filesystem::path> data_files(const Sweep& sweep);
/// Returns the memory to request for a task: 130 % of the memory that the largest unit needs.
std::int64_t task_memory(const Sweep& sweep);

}  // namespace macheps::training
