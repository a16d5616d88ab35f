// SPDX-License-Identifier: Apache-2.0
// Experiment: many policies x seeds on one task, paired, into one run directory.
#pragma once
#include "experiments/model/config.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/train/data.hpp"
#include "experiments/train/options.hpp"

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace macheps {

struct Experiment {
    std::vector<Policy> policies;  ///< in the order of the report; fp32 runs first whatever its place
    std::vector<std::int64_t> seeds{0};
    ModelConfig model;
    TrainOptions options;
    std::filesystem::path data_file;  ///< empty: the synthetic language
    std::filesystem::path directory;
    bool force = false;
    std::vector<std::string> command;  ///< for the manifest
};

/// Told of what happens, for people: run `index` of `runs`.
struct Progress {
    std::size_t index = 0, runs = 0;
    std::string policy{};
    std::int64_t seed = 0, step = 0, steps = 0;
    float loss = 0;
    bool finished = false;
    std::string status{};  ///< when finished
};

/// Checks everything, makes the directory, writes manifest.json, trains, writes rows. Returns false when `stop` ended
/// it early; what was written is whole. Throws Error before anything is written where the input is bad.
bool run_experiment(Backend& backend, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop);

/// The first of runs/001, runs/002, ... that does not exist.
std::filesystem::path next_run_directory();

}  // namespace macheps
