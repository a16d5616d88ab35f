// SPDX-License-Identifier: Apache-2.0
#include "experiments/train/experiment.hpp"

#include "core/error.hpp"
#include "core/float_environment.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/field_error.hpp"
#include "experiments/memory_limit.hpp"
#include "experiments/model/memory.hpp"
#include "experiments/train/experiment_runs.hpp"
#include "experiments/train/run_directory.hpp"

#include <fmt/format.h>

#include <utility>

namespace macheps {

namespace {

void check(const DumpRequest& dump, std::int64_t steps) {
    if (dump.file.empty()) return;
    const auto refuse = [](std::string what, std::string fix) {
        throw FieldError("dump", std::move(what), std::move(fix));
    };
    if (dump.step < 0 || dump.step >= steps) {
        refuse(fmt::format("there is no step {} in {}", dump.step, steps),
               fmt::format("give 0 to {}: the first step is 0", steps - 1));
    }
    std::error_code error;
    const std::filesystem::path folder = dump.file.parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
        refuse(fmt::format("there is no folder {}", folder.string()), "make it first");
    }
}

}  // namespace

void check(const Experiment& experiment) {
    macheps::check(experiment.model);
    check(experiment.options);
    check(experiment.dump, experiment.options.steps);
    check_range("save_every", experiment.save_every, 0, most_steps);
    for (const std::int64_t seed : experiment.seeds) check_range("seeds", seed, 0, INT64_MAX);
    const double tokens = static_cast<double>(experiment.options.steps) *
                          static_cast<double>(experiment.options.micro_batches) *
                          static_cast<double>(experiment.options.batch) * static_cast<double>(experiment.model.context);
    if (tokens > 0x1p62) {
        throw FieldError("steps", fmt::format("a run of {:.3g} tokens is more than can be counted", tokens),
                         "give fewer steps, or a smaller batch");
    }
}

void check_memory(const Backend& backend, const Experiment& experiment) {
    check(experiment);
    if (dynamic_cast<const CpuBackend*>(&backend) == nullptr) return;
    const TrainOptions& o = experiment.options;
    const double held_out = static_cast<double>(o.eval_batches) * static_cast<double>(o.batch) *
                            static_cast<double>(experiment.model.context) * 2 * sizeof(std::int32_t);
    require_memory(least_memory(experiment.model, o.batch, moments(o.optimizer)) + held_out, experiment.memory,
                   "training this model");
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
                     .fix = "give another `directory`, `resume` to go on with it, or `force` to replace it",
                     .exit = Exit::usage});
    }
}

bool run_experiment(Backend& backend, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop,
                    const std::atomic<bool>* stop_now) {
    const DefaultFloatModes modes;
    check_memory(backend, experiment);
    const SharedInputs inputs(experiment);
    const std::vector<PlannedRun> plan = plan_runs(experiment);
    RunDirectory directory(experiment, inputs, plan, backend.name(), [&](const std::string& note) {
        if (progress) progress({.note = note});
    });
    const RunContext work{backend, experiment, inputs, directory, progress, stop, stop_now};
    std::vector<float> baseline;  // of the seed in hand; empty when the baseline is not among the policies
    for (std::size_t i = 0; i < plan.size(); ++i) {
        if (plan[i].is_baseline) baseline.clear();
        if (i < directory.completed()) {
            if (plan[i].is_baseline) baseline = directory.losses(plan[i].name);
            continue;
        }
        if (stop) return false;
        const bool is_compared = !plan[i].is_baseline && !baseline.empty();
        RunResult result = run_one(work, plan, i, is_compared ? &baseline : nullptr);
        if (result.status == "stopped") return false;
        if (plan[i].is_baseline) baseline = std::move(result.losses);
    }
    return true;
}

std::filesystem::path next_run_directory() {
    for (int i = 1;; ++i) {
        std::filesystem::path path = fmt::format("runs/{:03}", i);
        if (!std::filesystem::exists(path)) return path;
    }
}

}  // namespace macheps
