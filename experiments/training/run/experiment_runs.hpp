// SPDX-License-Identifier: Apache-2.0
// The parts of run_experiment(), for callers that train only some of the runs: the inputs that all runs share, the list
// of runs, the output directory, and a single run.
//
// Example: n computers share an experiment. Each trains every n-th run of the plan and writes its own directory:
//     const SharedInputs inputs(experiment);
//     std::vector<PlannedRun> mine;  // some of plan_runs(experiment)
//     RunDirectory directory(experiment, inputs, mine, backend.name());
//     const RunContext work{backend, experiment, inputs, directory, {}, stop};
//     for (std::size_t i = directory.completed(); i < mine.size(); ++i) run_one(work, mine, i, nullptr);
// If the baseline of a run is trained on another computer, the column `gap` of its rows is empty.
#pragma once
#include "experiments/training/run/directory/run_directory.hpp"
#include "experiments/training/run/directory/run_files.hpp"
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/trainer.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::training {

/// The inputs that every run of an experiment reads.
struct SharedInputs {
    /// Resolves the policies and opens the data. Throws Error if the experiment cannot be run.
    explicit SharedInputs(const Experiment& experiment);

    policy::SiteList sites;
    std::vector<policy::ResolvedPolicy> policies;         ///< in the order of the experiment
    policy::ResolvedPolicy fp32;                          ///< for evaluations; need not be among `policies`
    std::vector<policy::ResolvedPolicy> stressed_fp32{};  ///< one fp32 policy for each distinct stress in `policies`
    /// Returns the reference for the values of `policy`, which must be one of `policies`: fp32 with the same stress.
    const policy::ResolvedPolicy& fp32_of(const policy::ResolvedPolicy& policy) const;
    std::unique_ptr<Data> data;
};

/// A run to train: a policy with a seed.
struct PlannedRun {
    std::string name;        ///< `amp-fp16/0`
    std::size_t policy = 0;  ///< index into Experiment::policies
    std::int64_t seed = 0;
    bool is_baseline = false;
};

/// Returns all runs, grouped by seed. The baseline is the first run of each group.
std::vector<PlannedRun> plan_runs(const Experiment& experiment);

struct RunContext;

/// The directory of a new or resumed experiment. It is locked as long as this object exists.
class RunDirectory {
  public:
    using Note = std::function<void(const std::string&)>;

    /// Creates the directory and writes manifest.json. With Experiment::resume, does not create anything, but finds the
    /// point at which `plan` continues. `device` is Backend::name(). `note`, which may be empty, is called for each
    /// checkpoint that is ignored. Throws Error if this fails; if the input is bad, nothing has been written.
    RunDirectory(const Experiment& experiment, const SharedInputs& inputs, std::span<const PlannedRun> plan,
                 const std::string& device, const Note& note = {});

    /// Returns the number of finished runs of the plan, which is the index of the next run.
    std::size_t completed() const { return point_.completed; }
    /// Returns the text of manifest.json.
    const std::string& manifest() const { return manifest_; }
    /// Returns the losses of a finished run, one for each step.
    std::vector<double> losses(const std::string& run) const;

  private:
    friend class RunJob;

    std::string manifest_;
    std::uint64_t recipe_;  // checksum of the manifest's recipe
    DirectoryLock lock_;
    CheckpointFolder checkpoints_;
    ResumePoint point_;
    RunFiles files_;
    std::optional<reports::CsvWriter<reports::HashRow>> hashes_;
};

/// Inputs of run_one(), its progress callback and its stop flags.
struct RunContext {
    Backend& backend;
    const Experiment& experiment;
    const SharedInputs& inputs;
    RunDirectory& directory;
    std::function<void(const Progress&)> progress;  ///< may be empty
    const std::atomic<bool>& stop;                  ///< ends a run after its step
    const std::atomic<bool>* stop_now = nullptr;    ///< ends a run at its next operation; may be null
};

/// A run of the plan while it is trained. The thread that owns the directory creates the jobs of all runs, and finishes
/// them in the order of the plan. Any thread may call train().
class RunJob {
  public:
    /// All arguments must outlive this object.
    RunJob(const RunContext& work, std::span<const PlannedRun> plan, std::size_t index,
           const std::vector<double>* baseline);
    RunJob(const RunJob&) = delete;
    RunJob& operator=(const RunJob&) = delete;

    /// Makes the job write its rows to the directory and report progress. All earlier runs must be over.
    void open();
    /// Trains the run. Call it once. Checkpoints are saved only after open().
    RunResult train(Backend& backend);
    /// Reports the end of the run. Unless it was stopped, removes its checkpoints. Call it after train() and open().
    void finish(const RunResult& result);
    /// Makes train() return soon. Rows that are held in memory are lost.
    void abandon() { rows_.abandon(); }

  private:
    void report(const Progress& progress) const;

    const RunContext& work_;
    const PlannedRun& run_;
    std::size_t index_;
    Progress now_;
    TrainOptions options_;  ///< options_under() for the policy of this run
    std::optional<RunRequest> request_;
    std::optional<Checkpoint> start_;
    DumpRequest dump_;
    RunRows rows_;
};

/// Trains run `index` of the plan with which the directory was opened. All earlier runs must be over. `baseline` holds
/// the losses of each step of the baseline with the same seed; it may be null. If `stop` ends the run, its last
/// checkpoint is kept. Otherwise, its checkpoints are removed.
RunResult run_one(const RunContext& work, std::span<const PlannedRun> plan, std::size_t index,
                  const std::vector<double>* baseline);

}  // namespace macheps::training
