// SPDX-License-Identifier: Apache-2.0
// Experiment: trains every policy with every seed on one task and writes one run directory. Runs of the same seed are
// paired.
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
    std::vector<policy::Policy> policies;  ///< in the order of the report; fp32 runs first wherever it is in this list
    std::vector<std::int64_t> seeds{0};
    ModelConfig model;
    TrainOptions options;
    std::filesystem::path data_file;        ///< empty: the synthetic language
    std::filesystem::path held_out_file{};  ///< empty: the last tenth of data_file
    DataFormat data_format = DataFormat::automatic;
    DumpRequest dump{};                   ///< one step of one of the runs to dump; its metadata is filled in
    bool hash_sites = false;              ///< write hashes.csv
    std::filesystem::path inputs_file{};  ///< file for the first weights and all samples; empty: none
    std::filesystem::path directory;
    bool force = false;
    bool resume = false;               ///< continue the run in `directory`
    std::filesystem::path repeats{};   ///< manifest that this was read from; the recipe must be the same; may be empty
    std::int64_t save_every = 0;       ///< steps between checkpoints; 0: only when stopped
    std::vector<std::string> command;  ///< for the manifest
    /// Memory budget in bytes; absent: that of memory_limit(). An experiment that needs more is refused.
    std::optional<std::int64_t> memory{};
};

/// A message for people about run `index` of `runs`.
struct Progress {
    std::size_t index = 0, runs = 0;
    std::string policy{};
    std::int64_t seed = 0, step = 0, steps = 0;
    double loss = 0;
    bool finished = false;
    std::string status{};  ///< set when finished
    std::string note{};    ///< a message, such as a refused checkpoint; then no other member is set
};

/// Throws Error for sizes and options that no training accepts.
void validate(const Experiment& experiment);
/// Returns a lower bound of the bytes that training takes in this process: those of the model (model/memory.hpp), and a
/// gradient for each rank if there are several.
double min_memory(const Experiment& experiment);
/// Throws FieldError if training `at_a_time` runs at once on engines such as `backend` takes more memory than the
/// experiment grants or, if it grants no amount, than there is. Does not check the memory of a GPU, which itself
/// refuses what does not fit.
void check_memory(const Backend& backend, const Experiment& experiment, int at_a_time = 1);
/// Throws Error if the directory is a file, or if it holds a run that is not to be replaced.
void check_directory(const Experiment& experiment);

/// Checks everything, makes the directory, writes manifest.json, trains and writes rows. Returns false if `stop` ended
/// it early: the current run has then finished its step and left a checkpoint. `stop_now`, which may be null, does not
/// wait for the end of the step: the checkpoint is the one before that step. If the input is bad, throws Error before
/// anything is written.
///
/// With `resume`, continues where the directory's rows and checkpoints end, however the earlier process ended (even by
/// a kill). Writes the same bytes as an uninterrupted run; only the times in runs.csv differ. The experiment must be
/// the one of the manifest in the directory (read_manifest). Throws Error, Exit::bad_input, if there is nothing to
/// resume.
///
/// The directory is locked during the call. Throws Error, Exit::usage, if another process works in it.
bool run_experiment(Backend& backend, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop,
                    const std::atomic<bool>* stop_now = nullptr);
/// Does the same with several engines: as many runs train side by side, each on one of them. The rows are the same as
/// with one engine, in the same order. Rows of a run that is ahead of its turn are held in memory, and are lost if the
/// experiment is stopped before its turn. `progress` is called by one thread at a time.
bool run_experiment(std::span<Backend* const> backends, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop,
                    const std::atomic<bool>* stop_now = nullptr);
/// Returns how many runs to train side by side with that many threads. If a run is short, this is the number of
/// threads, but at most the number of runs. Otherwise it is one, to save memory and because a run that is ahead of its
/// turn is lost when the experiment is stopped.
int runs_side_by_side(const Experiment& experiment, int threads);

/// Returns "cpu.avx512.8", or "8 x cpu.avx512.1" for several engines.
std::string engines_name(std::span<Backend* const> backends);

/// Returns the first of runs/001, runs/002, ... that does not exist. Another process may take it at any time.
std::filesystem::path next_run_directory();

/// A directory runs/001, runs/002, ... made for this process alone. Processes that start at the same time get different
/// ones.
class NumberedDirectory {
  public:
    /// Errors: Exit::cannot_write.
    NumberedDirectory();
    /// Removes the directory if nothing was written in it, and `runs` too if this object made it and it is empty.
    ~NumberedDirectory();
    NumberedDirectory(const NumberedDirectory&) = delete;
    NumberedDirectory& operator=(const NumberedDirectory&) = delete;

    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_{};
    bool made_runs_ = false;
};

}  // namespace macheps::training
