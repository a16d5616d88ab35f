// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/experiment.hpp"

#include "core/error.hpp"
#include "core/field_error.hpp"
#include "core/host/float_environment.hpp"
#include "core/host/memory_limit.hpp"
#include "core/host/publish.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/model/memory.hpp"
#include "experiments/training/run/directory/inputs_file.hpp"
#include "experiments/training/run/directory/run_directory.hpp"
#include "experiments/training/run/experiment_runs.hpp"
#include "experiments/training/run/side_by_side.hpp"
#include "reports/logs/run_log.hpp"

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

namespace macheps::training {

namespace {

void check_folder(const char* field, const std::filesystem::path& file) {
    std::error_code error;
    const std::filesystem::path folder = file.parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
        throw FieldError(field, fmt::format("the folder {} does not exist", folder.string()), "create it first");
    }
}

void validate(const DumpRequest& dump, std::int64_t steps) {
    if (dump.file.empty()) return;
    if (dump.step < 0 || dump.step >= steps) {
        throw FieldError("dump", fmt::format("step {} does not exist in a run of {} steps", dump.step, steps),
                         fmt::format("use 0 to {}; the first step is 0", steps - 1));
    }
    check_folder("dump", dump.file);
}

}  // namespace

void validate(const Experiment& experiment) {
    validate(experiment.model);
    validate(experiment.options);
    validate(experiment.dump, experiment.options.steps);
    check_folder("inputs_file", experiment.inputs_file);
    check_range("save_every", experiment.save_every, 0, max_steps);
    for (const std::int64_t seed : experiment.seeds) check_range("seeds", seed, 0, INT64_MAX);
    const double tokens = static_cast<double>(experiment.options.steps) *
                          static_cast<double>(experiment.options.micro_batches) *
                          static_cast<double>(experiment.options.batch) * static_cast<double>(experiment.model.context);
    if (tokens > 0x1p62) {
        throw FieldError("steps", fmt::format("a run of {:.3g} tokens is too long to be counted", tokens),
                         "use fewer steps, or a smaller batch");
    }
}

double min_memory(const Experiment& experiment) {
    const TrainOptions& o = experiment.options;
    const double kept = o.ranks == 1 ? 0 : static_cast<double>(o.ranks) * sizeof(float);  // one gradient for each rank
    const bool compares_gradients =
        o.probe_every > 0 &&
        std::any_of(experiment.policies.begin(), experiment.policies.end(),
                    [](const policy::Policy& policy) { return policy.name != reports::baseline_policy; });
    return min_memory(experiment.model, o.batch / o.ranks, moments(o.optimizer), compares_gradients) +
           kept * static_cast<double>(parameter_count(experiment.model));
}

void check_memory(const Backend& backend, const Experiment& experiment, int at_a_time) {
    validate(experiment);
    if (dynamic_cast<const CpuBackend*>(&backend) == nullptr) return;
    const TrainOptions& o = experiment.options;
    const double held_out = static_cast<double>(o.eval_batches) * static_cast<double>(o.batch) *
                            static_cast<double>(experiment.model.context) * 2 * sizeof(std::int32_t);
    const double one = min_memory(experiment) + held_out;
    require_memory(at_a_time * one, experiment.memory, "training this model");
}

void check_directory(const Experiment& experiment) {
    const auto& directory = experiment.directory;
    std::error_code error;
    if (std::filesystem::exists(directory, error) && !std::filesystem::is_directory(directory, error)) {
        throw Error({.what = "this is a file, not a directory",
                     .where = directory.string(),
                     .fix = "choose another directory with `directory`",
                     .exit = Exit::cannot_write});
    }
    if (!experiment.force && holds_a_run(directory)) {
        throw Error({.what = "this run directory exists already",
                     .where = directory.string(),
                     .fix = "use another `directory`, `resume` to continue it, or `force` to replace it",
                     .exit = Exit::usage});
    }
}

namespace {

/// Losses of the finished baseline runs. The other runs with the same seed are compared with them.
class Baselines {
  public:
    explicit Baselines(std::span<const PlannedRun> plan) : plan_(plan) {
        for (const PlannedRun& run : plan) {
            if (run.is_baseline) losses_[run.seed];
        }
    }
    void is_over(std::size_t index, std::vector<double> losses) {
        if (plan_[index].is_baseline) losses_[plan_[index].seed] = std::move(losses);
    }
    /// Returns the baseline's losses for run `index`. Returns null if this run is a baseline itself, if the baseline is
    /// not among the policies, or if the baseline is not finished.
    const std::vector<double>* of(std::size_t index) const {
        const auto found = losses_.find(plan_[index].seed);
        return plan_[index].is_baseline || found == losses_.end() || found->second.empty() ? nullptr : &found->second;
    }
    /// Returns false while run `index` has to wait for its baseline.
    bool is_ready(std::size_t index) const {
        return plan_[index].is_baseline || of(index) != nullptr || !losses_.contains(plan_[index].seed);
    }

  private:
    std::span<const PlannedRun> plan_;
    std::map<std::int64_t, std::vector<double>> losses_;  // empty: not finished
};

bool run_one_by_one(const RunContext& work, std::span<const PlannedRun> plan, Baselines& baselines) {
    for (std::size_t i = work.directory.completed(); i < plan.size(); ++i) {
        if (work.stop) return false;
        RunResult result = run_one(work, plan, i, baselines.of(i));
        if (result.status == "stopped") return false;
        baselines.is_over(i, std::move(result.losses));
    }
    return true;
}

bool run_side_by_side(std::span<Backend* const> backends, const RunContext& work, std::span<const PlannedRun> plan,
                      Baselines& baselines) {
    SideBySide runs(backends, work, plan);
    if (!runs.has_threads()) return run_one_by_one(work, plan, baselines);
    std::vector<bool> is_begun(plan.size());
    const auto begin = [&](std::size_t i) {
        runs.begin(i, baselines.of(i));
        is_begun[i] = true;
    };
    std::size_t next = work.directory.completed();
    bool first_is_open = false;
    for (std::size_t first = next; first < plan.size();) {
        if (work.stop && !first_is_open) return false;
        for (;;) {
            while (next < plan.size() && is_begun[next]) ++next;
            if (next == plan.size()) break;
            if (baselines.is_ready(next)) {
                if (!runs.has_room()) break;
                begin(next);
                continue;
            }
            // An engine that would otherwise wait for a baseline trains the baseline of another seed.
            std::size_t ahead = next;
            while (ahead < plan.size() && (is_begun[ahead] || !plan[ahead].is_baseline)) ++ahead;
            if (ahead == plan.size() || !runs.is_idle()) break;
            begin(ahead);
        }
        first_is_open = true;
        std::optional<RunResult> result = runs.wait(next < plan.size() && baselines.is_ready(next));
        if (!result) continue;
        first_is_open = false;
        if (result->status == "stopped") return false;
        baselines.is_over(first++, std::move(result->losses));
    }
    return true;
}

}  // namespace

bool run_experiment(std::span<Backend* const> backends, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop,
                    const std::atomic<bool>* stop_now) {
    const DefaultFloatModes modes;
    Backend& backend = *backends.front();
    check_memory(backend, experiment, static_cast<int>(backends.size()));
    const SharedInputs inputs(experiment);
    const std::vector<PlannedRun> plan = plan_runs(experiment);
    RunDirectory directory(experiment, inputs, plan, engines_name(backends), [&](const std::string& note) {
        if (progress) progress({.note = note});
    });
    if (!experiment.inputs_file.empty()) write_inputs(backend, experiment, inputs, directory.manifest());
    Baselines baselines(plan);
    for (std::size_t i = 0; i < directory.completed(); ++i) {
        if (plan[i].is_baseline) baselines.is_over(i, directory.losses(plan[i].name));
    }
    const RunContext work{backend, experiment, inputs, directory, progress, stop, stop_now};
    // Each step has many hashes, which are written to their file immediately. Runs with hashes therefore cannot be held
    // in memory, and train one after another.
    if (backends.size() == 1 || experiment.hash_sites) return run_one_by_one(work, plan, baselines);
    return run_side_by_side(backends, work, plan, baselines);
}

bool run_experiment(Backend& backend, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop,
                    const std::atomic<bool>* stop_now) {
    Backend* const one[] = {&backend};
    return run_experiment(one, experiment, progress, stop, stop_now);
}

int runs_side_by_side(const Experiment& experiment, int threads) {
    // A forward and a backward pass do three multiply-adds for each weight and token. An engine does about 10^10
    // multiply-adds per second, so a run of 10^13 multiply-adds takes about a quarter of an hour.
    constexpr double short_run = 1e13;
    constexpr double max_bytes = 0x1p30;  // limit for one run, so that many runs fit into memory
    const TrainOptions& o = experiment.options;
    const double tokens = static_cast<double>(o.steps) * static_cast<double>(o.batch) *
                          static_cast<double>(o.micro_batches) * static_cast<double>(experiment.model.context);
    if (min_memory(experiment) > max_bytes) return 1;
    if (experiment.hash_sites || 3 * tokens * static_cast<double>(parameter_count(experiment.model)) > short_run)
        return 1;
    const std::size_t runs = experiment.policies.size() * experiment.seeds.size();
    return static_cast<int>(std::clamp<std::size_t>(runs, 1, static_cast<std::size_t>(std::max(1, threads))));
}

std::string engines_name(std::span<Backend* const> backends) {
    const std::string name = backends.front()->name();
    return backends.size() == 1 ? name : fmt::format("{} x {}", backends.size(), name);
}

namespace {

std::filesystem::path numbered_path(int number) { return fmt::format("runs/{:03}", number); }

}  // namespace

std::filesystem::path next_run_directory() {
    for (int i = 1;; ++i) {
        if (!std::filesystem::exists(numbered_path(i))) return numbered_path(i);
    }
}

NumberedDirectory::NumberedDirectory() {
    constexpr int max_tries = 100;
    for (int i = 1, tries = 0;;) {
        std::error_code ignored;  // if this fails, mkdir below fails too and reports it
        if (std::filesystem::create_directories("runs", ignored)) made_runs_ = true;
        path_ = numbered_path(i);
        if (::mkdir(path_.c_str(), 0777) == 0) return;
        // A process whose training is rejected removes the folder `runs` if it is empty. Such a process may have
        // removed it just before mkdir.
        if (errno == ENOENT && ++tries < max_tries) continue;
        if (errno != EEXIST) throw_cannot_write(path_, errno, "make the run directory");
        ++i;
    }
}

NumberedDirectory::~NumberedDirectory() {
    ::rmdir(path_.c_str());
    if (made_runs_) ::rmdir("runs");
}

}  // namespace macheps::training
