// SPDX-License-Identifier: Apache-2.0
// The parts of run_experiment(), for callers that want only some of its runs: the inputs that all runs share, the list
// of runs, the directory that they are written to, and a single run.
//
// If several machines share the work, each takes every n-th run of the plan, into a separate directory:
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

/// The inputs that every run of an experiment reads.
struct SharedInputs {
    /// Resolves the policies and opens the data. Throws Error if the experiment cannot be run.
    explicit SharedInputs(const Experiment& experiment);

    policy::SiteList sites;
    std::vector<policy::ResolvedPolicy> policies;  ///< in the order of the experiment
    policy::ResolvedPolicy fp32;                   ///< for evaluating in fp32, whether it is among `policies` or not
    std::vector<policy::ResolvedPolicy> stressed_fp32{};  ///< fp32 with the stress of a policy, each stress once
    /// Returns fp32 with the stress of this policy (one of `policies`), the reference for its values.
    const policy::ResolvedPolicy& fp32_of(const policy::ResolvedPolicy& policy) const;
    std::unique_ptr<Data> data;
};

/// A policy with a seed.
struct PlannedRun {
    std::string name;        ///< `amp-fp16/0`
    std::size_t policy = 0;  ///< index into Experiment::policies
    std::int64_t seed = 0;
    bool is_baseline = false;
};

/// Returns every run: seed by seed, the baseline first.
std::vector<PlannedRun> plan_runs(const Experiment& experiment);

struct RunContext;

/// The directory of an experiment, made or resumed, and locked during the lifetime of this object.
class RunDirectory {
  public:
    using Note = std::function<void(const std::string&)>;

    /// Makes the directory and writes manifest.json. With Experiment::resume, finds where `plan` continues instead.
    /// `device` is Backend::name(). `note`, which may be empty, is called for checkpoints that were refused. Errors:
    /// throws Error. If the input is bad, nothing has been written.
    RunDirectory(const Experiment& experiment, const SharedInputs& inputs, std::span<const PlannedRun> plan,
                 const std::string& device, const Note& note = {});

    /// Returns the number of runs of the plan that are over, which is the index of the next one.
    std::size_t completed() const { return point_.completed; }
    /// Returns the text of manifest.json.
    const std::string& manifest() const { return manifest_; }
    /// Returns the losses of a run that is over.
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

/// A run of a plan in progress. The thread that has the directory makes the jobs, and finishes them in the order of the
/// plan. Any thread may train them.
class RunJob {
  public:
    /// All arguments must outlive this object.
    RunJob(const RunContext& work, std::span<const PlannedRun> plan, std::size_t index,
           const std::vector<double>* baseline);
    RunJob(const RunJob&) = delete;
    RunJob& operator=(const RunJob&) = delete;

    /// Sends rows to the directory and reports progress from now on. All runs before this one must be over.
    void open();
    /// Trains the run. Call it once. Checkpoints are made only while the rows are open.
    RunResult train(Backend& backend);
    /// Reports the end of the run, and clears its checkpoints unless it was stopped. Call it after train() and open().
    void finish(const RunResult& result);
    /// Makes train() return soon. Rows that nobody opened are lost.
    void abandon() { rows_.abandon(); }

  private:
    void eprint(const Progress& progress) const;

    const RunContext& work_;
    const PlannedRun& run_;
    std::size_t index_;
    Progress now_;
    TrainOptions options_;  ///< options under the policy
    std::optional<RunRequest> request_;
    std::optional<Checkpoint> start_;
    DumpRequest dump_;
    RunRows rows_;
};

/// Trains run `index` of the plan that the directory was opened with. The runs before it must be over. `baseline` has
/// the losses, by step, of the baseline with the same seed, or is null. A run that `stop` ended has a checkpoint; any
/// other run has none afterwards.
RunResult run_one(const RunContext& work, std::span<const PlannedRun> plan, std::size_t index,
                  const std::vector<double>* baseline);

}  // namespace macheps::training
