// SPDX-License-Identifier: Apache-2.0
// The parts of run_experiment(), for whoever wants some of its runs only: what all runs share, the list of them, the
// directory that they are written to, and one of them.
//
// A machine of many that share the work takes every n-th run of the plan, into a directory of its own:
//     const SharedInputs inputs(experiment);
//     std::vector<PlannedRun> mine;  // some of plan_runs(experiment)
//     RunDirectory directory(experiment, inputs, mine, backend.name());
//     const RunContext work{backend, experiment, inputs, directory, {}, stop};
//     for (std::size_t i = directory.completed(); i < mine.size(); ++i) run_one(work, mine, i, nullptr);
// Rows of a run whose baseline ran elsewhere have no gap.
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

/// What every run of an experiment reads.
struct SharedInputs {
    /// Resolves the policies and opens the data. Throws Error where the experiment is not one that can be run.
    explicit SharedInputs(const Experiment& experiment);

    policy::SiteList sites;
    std::vector<policy::ResolvedPolicy> policies;  ///< in the order of the experiment
    policy::ResolvedPolicy fp32;                   ///< for evaluating in fp32, whether it is among `policies` or not
    std::vector<policy::ResolvedPolicy> stressed_fp32{};  ///< the same with the stress of a policy, each stress once
    /// Returns fp32 with the stress of this policy (one of `policies`), the reference for its values.
    const policy::ResolvedPolicy& fp32_of(const policy::ResolvedPolicy& policy) const;
    std::unique_ptr<Data> data;
};

/// A policy under a seed.
struct PlannedRun {
    std::string name;        ///< `amp-fp16/0`
    std::size_t policy = 0;  ///< index into Experiment::policies
    std::int64_t seed = 0;
    bool is_baseline = false;
};

/// Every run: seed by seed, the baseline first.
std::vector<PlannedRun> plan_runs(const Experiment& experiment);

struct RunContext;

/// The directory of an experiment, made or gone on with, and locked while this object is there.
class RunDirectory {
  public:
    using Note = std::function<void(const std::string&)>;

    /// Makes the directory and writes manifest.json; or, with Experiment::resume, finds where `plan` is to go on.
    /// `device` is Backend::name(); `note`, which may be empty, is told of checkpoints that were refused.
    /// Errors: throws Error, before anything is written where the input is bad.
    RunDirectory(const Experiment& experiment, const SharedInputs& inputs, std::span<const PlannedRun> plan,
                 const std::string& device, const Note& note = {});

    /// Runs of the plan that are over: the next one's index.
    std::size_t completed() const { return point_.completed; }
    /// The text of manifest.json.
    const std::string& manifest() const { return manifest_; }
    /// Of a run that is over.
    std::vector<double> losses(const std::string& run) const;

  private:
    friend class RunJob;

    std::string manifest_;
    std::uint64_t recipe_;  // of the manifest
    DirectoryLock lock_;
    CheckpointFolder checkpoints_;
    ResumePoint point_;
    RunFiles files_;
    std::optional<reports::CsvWriter<reports::HashRow>> hashes_;
};

/// What run_one() works with, and whom it tells.
struct RunContext {
    Backend& backend;
    const Experiment& experiment;
    const SharedInputs& inputs;
    RunDirectory& directory;
    std::function<void(const Progress&)> progress;  ///< may be empty
    const std::atomic<bool>& stop;                  ///< ends a run after its step
    const std::atomic<bool>* stop_now = nullptr;    ///< ends it at its next operation; null: nothing does
};

/// One run of a plan on its way: made and finished by the thread that has the directory, in the order of the plan; trained by any.
class RunJob {
  public:
    /// What it is given outlives it.
    RunJob(const RunContext& work, std::span<const PlannedRun> plan, std::size_t index,
           const std::vector<double>* baseline);
    RunJob(const RunJob&) = delete;
    RunJob& operator=(const RunJob&) = delete;

    /// All runs before it are over: its rows go to the directory from here on, and its progress is told.
    void open();
    /// Called once. Checkpoints are made only while the rows are open.
    RunResult train(Backend& backend);
    /// After train() and open(): its end is told, and its checkpoints are cleared unless it was stopped.
    void finish(const RunResult& result);
    /// Makes train() return soon, where rows that nobody opened are lost.
    void abandon() { rows_.abandon(); }

  private:
    void tell(const Progress& progress) const;

    const RunContext& work_;
    const PlannedRun& run_;
    std::size_t index_;
    Progress now_;
    TrainOptions options_;  ///< under the policy
    std::optional<RunRequest> request_;
    std::optional<Checkpoint> start_;
    DumpRequest dump_;
    RunRows rows_;
};

/// Trains run `index` of the plan that the directory was opened with; those before it are over. `baseline` has the
/// losses of the baseline under the same seed, by step, or is null. A run that `stop` ended has a checkpoint; after any
/// other there are none.
RunResult run_one(const RunContext& work, std::span<const PlannedRun> plan, std::size_t index,
                  const std::vector<double>* baseline);

}  // namespace macheps::training
