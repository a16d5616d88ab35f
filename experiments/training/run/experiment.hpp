// SPDX-License-Identifier: Apache-2.0
// Experiment: many policies x seeds on one task, paired, into one run directory.
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
    std::vector<policy::Policy> policies;  ///< in the order of the report; fp32 runs first whatever its place
    std::vector<std::int64_t> seeds{0};
    ModelConfig model;
    TrainOptions options;
    std::filesystem::path data_file;        ///< empty: the synthetic language
    std::filesystem::path held_out_file{};  ///< empty: the last tenth of data_file
    DataFormat data_format = DataFormat::automatic;
    DumpRequest dump{};                   ///< a step of one of the runs to write whole; its metadata is filled in
    bool hash_sites = false;              ///< write hashes.csv
    std::filesystem::path inputs_file{};  ///< where the first weights and all samples are written; empty: nowhere
    std::filesystem::path directory;
    bool force = false;
    bool resume = false;               ///< go on with what stands in `directory`
    std::filesystem::path repeats{};   ///< the manifest that this was read from and whose recipe it must have; or empty
    std::int64_t save_every = 0;       ///< steps between checkpoints; 0: only when stopped
    std::vector<std::string> command;  ///< for the manifest
    /// Bytes that may be planned for; absent: as many as memory_limit() says. What would take more is refused.
    std::optional<std::int64_t> memory{};
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
void validate(const Experiment& experiment);
/// Bytes that training takes of this process at the least: of the model (model/memory.hpp), and a gradient for each rank where there are
/// several.
double least_memory(const Experiment& experiment);
/// Throws FieldError where training that many runs at a time on engines such as `backend` would take more memory than the experiment grants, or than there is. A
/// GPU's memory is its own: it refuses what does not fit.
void check_memory(const Backend& backend, const Experiment& experiment, int at_a_time = 1);
/// Throws Error unless there is a directory here or may be made, without a run unless that is to be replaced.
void check_directory(const Experiment& experiment);

/// Checks everything, makes the directory, writes manifest.json, trains, writes rows. Returns false when `stop` ended
/// it early: the run in hand finished its step and left a checkpoint. `stop_now`, which may be null, does not wait for the
/// end of the step: the checkpoint is of the steps before. Throws Error before anything is written where the input is bad.
///
/// With `resume`, goes on where the directory's rows and checkpoints end, however it was ended (a kill included), and
/// writes the bytes that would have been written without the end; only the times in runs.csv differ. The experiment
/// must be the one of the manifest that stands there (read_manifest). Throws Error, Exit::bad_input, where there is
/// nothing to go on with.
///
/// The directory is locked meanwhile: Error, Exit::usage, where another process works in it.
bool run_experiment(Backend& backend, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop,
                    const std::atomic<bool>* stop_now = nullptr);
/// The same with several engines: as many runs train side by side, each on one of them. The rows are those of one engine, in
/// the same order; those of a run that is ahead are held in memory, and lost when the experiment is stopped before its turn.
/// `progress` is called by one thread at a time.
bool run_experiment(std::span<Backend* const> backends, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop,
                    const std::atomic<bool>* stop_now = nullptr);
/// How many runs are best trained side by side with that many threads: as many as there are threads where a run is short,
/// one where it is not, for memory's sake and because a run that is ahead is lost when the experiment is stopped.
int runs_side_by_side(const Experiment& experiment, int threads);

/// "cpu.avx512.8", or "8 x cpu.avx512.1" of several engines.
std::string engines_name(std::span<Backend* const> backends);

/// The first of runs/001, runs/002, ... that does not exist. Another process may take it at any time.
std::filesystem::path next_run_directory();

/// The same, made for this process alone: of several that begin at the same time each gets its own.
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
