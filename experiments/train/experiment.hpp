// SPDX-License-Identifier: Apache-2.0
// Experiment: many policies x seeds on one task, paired, into one run directory.
#pragma once
#include "experiments/model/config.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/train/data.hpp"
#include "experiments/train/dump.hpp"
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
    std::filesystem::path data_file;        ///< empty: the synthetic language
    std::filesystem::path held_out_file{};  ///< empty: the last tenth of data_file
    DataFormat data_format = DataFormat::automatic;
    DumpRequest dump{};  ///< a step of one of the runs to write whole; its metadata is filled in
    bool hash_sites = false;  ///< write hashes.csv
    std::filesystem::path directory;
    bool force = false;
    bool resume = false;               ///< go on with what stands in `directory`
    std::filesystem::path repeats{};   ///< the manifest that this was read from and whose recipe it must have; or empty
    std::int64_t save_every = 0;       ///< steps between checkpoints; 0: only when stopped
    std::vector<std::string> command;  ///< for the manifest
};

/// Told of what happens, for people: run `index` of `runs`.
struct Progress {
    std::size_t index = 0, runs = 0;
    std::string policy{};
    std::int64_t seed = 0, step = 0, steps = 0;
    double loss = 0;
    bool finished = false;
    std::string status{};  ///< when finished
    std::string note{};    ///< something to say, such as a checkpoint that was refused; then nothing else is new
};

/// Throws Error for sizes and options that no training takes.
void check(const Experiment& experiment);
/// Throws Error unless there is a directory here or may be made, without a run unless that is to be replaced.
void check_directory(const Experiment& experiment);

/// Checks everything, makes the directory, writes manifest.json, trains, writes rows. Returns false when `stop` ended
/// it early: the run in hand finished its step and left a checkpoint. Throws Error before anything is written where the
/// input is bad.
///
/// With `resume`, goes on where the directory's rows and checkpoints end, however it was ended (a kill included), and
/// writes the bytes that would have been written without the end; only the times in runs.csv differ. The experiment
/// must be the one of the manifest that stands there (read_manifest). Throws Error, Exit::bad_input, where there is
/// nothing to go on with.
///
/// The directory is locked meanwhile: Error, Exit::usage, where another process works in it.
bool run_experiment(Backend& backend, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop);

/// The first of runs/001, runs/002, ... that does not exist.
std::filesystem::path next_run_directory();

}  // namespace macheps
