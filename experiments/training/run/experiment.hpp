// SPDX-License-Identifier: Apache-2.0
// Experiment: trains every policy with every seed on one task and writes one run directory. Runs with the same seed
// have the same initial weights and batches and are compared in pairs.
#pragma once
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/run/data/data.hpp"
#include "experiments/training/run/directory/dump_request.hpp"
#include "experiments/training/run/options.hpp"

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::training {

struct Experiment {
    std::vector<policy::Policy> policies;  ///< in report order; each seed still trains fp32 first
    std::vector<std::int64_t> seeds{0};
    ModelConfig model;
    TrainOptions options;
    std::filesystem::path data_file;        ///< empty: the synthetic language
    std::filesystem::path held_out_file{};  ///< empty: the last tenth of data_file
    DataFormat data_format = DataFormat::automatic;
    DumpRequest dump{};                   ///< a step of one run to dump; training sets its `metadata`
    bool hash_sites = false;              ///< write hashes.csv
    std::filesystem::path inputs_file{};  ///< file for the initial weights and all samples; empty: none
    std::filesystem::path directory;
    bool force = false;
    bool resume = false;               ///< continue the run in `directory`
    std::filesystem::path repeats{};   ///< manifest with the required recipe; empty: no requirement
    std::int64_t save_every = 0;       ///< steps between checkpoints; 0: only when stopped
    std::vector<std::string> command;  ///< for the manifest
    /// Memory budget in bytes. If absent, memory_limit() is used. An experiment that needs more is rejected.
    std::optional<std::int64_t> memory{};
};

/// A progress message for users, about run number `index` of `runs`.
struct Progress {
    std::size_t index = 0, runs = 0;
    std::string policy{};
    std::int64_t seed = 0, step = 0, steps = 0;
    double loss = 0;
    bool finished = false;
    std::string status{};  ///< set if `finished`
    std::string note{};    ///< a message on its own, for example about an ignored checkpoint
};

/// Throws Error if a size or an option is invalid.
void validate(const Experiment& experiment);
/// Returns a lower bound of the bytes that training takes in this process: the memory of the model (see
/// model/memory.hpp) and, with several ranks, one gradient for each rank.
double min_memory(const Experiment& experiment);
/// Throws FieldError if `at_a_time` simultaneous runs on engines like `backend` need more memory than
/// Experiment::memory or, if that is absent, memory_limit() allows. GPU memory is not checked: the GPU itself rejects
/// an allocation that does not fit.
void check_memory(const Backend& backend, const Experiment& experiment, int at_a_time = 1);
/// Throws Error if the directory is a file, or if it contains a run and `force` is not set.
void check_directory(const Experiment& experiment);

/// Checks the experiment, creates its directory, writes manifest.json, trains, and writes rows. If the input is bad,
/// throws Error before anything is written.
///
/// Returns false if a flag ended the experiment early. `stop` lets the current run finish its step and save a
/// checkpoint. `stop_now`, which may be null, ends the current run within the step; the checkpoint then has the state
/// before that step.
///
/// With `resume`, continues at the point where the rows and checkpoints of the directory end, no matter how the earlier
/// process ended (it may have been killed). Writes the same bytes as an uninterrupted run, except for the times in
/// runs.csv. `experiment` must be the experiment in the directory's manifest (see read_manifest). Throws Error,
/// Exit::bad_input, if there is nothing to resume.
///
/// The directory is locked during the call. Throws Error, Exit::usage, if another process is using the directory.
bool run_experiment(Backend& backend, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop,
                    const std::atomic<bool>* stop_now = nullptr);
/// Same as the function above, but trains on several engines. Each engine trains one run at a time, side by side with
/// the others. The rows and their order are the same as with one engine. If a run is ahead of an earlier run, its rows
/// are held in memory; they are lost if the experiment is stopped before the earlier run is over. `progress` is called
/// by one thread at a time.
bool run_experiment(std::span<Backend* const> backends, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop,
                    const std::atomic<bool>* stop_now = nullptr);
/// Returns the number of runs to train side by side on `threads` threads. For short runs, this is the number of
/// threads, but at most the number of runs. For long runs, it is one. One run at a time needs less memory. It also
/// never holds rows in memory until an earlier run is over, so no rows are lost if the experiment is stopped.
int runs_side_by_side(const Experiment& experiment, int threads);

/// Returns the name of the engines, such as `cpu.avx512.8` for one engine or `8 x cpu.avx512.1` for several.
std::string engines_name(std::span<Backend* const> backends);

/// Returns the first of runs/001, runs/002, ... that does not exist. Another process may create it at any time.
std::filesystem::path next_run_directory();

/// A new directory runs/001, runs/002, ... that only this process uses. Processes that start at the same time get
/// different directories.
class NumberedDirectory {
  public:
    /// Creates the directory. Throws Error, Exit::cannot_write, if this fails.
    NumberedDirectory();
    /// Removes the directory if it is empty. Also removes `runs` if this object created it and it is empty.
    ~NumberedDirectory();
    NumberedDirectory(const NumberedDirectory&) = delete;
    NumberedDirectory& operator=(const NumberedDirectory&) = delete;

    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_{};
    bool made_runs_ = false;
};

}  // namespace macheps::training
