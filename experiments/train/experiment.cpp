// SPDX-License-Identifier: Apache-2.0
#include "experiments/train/experiment.hpp"

#include "core/error.hpp"
#include "experiments/field_error.hpp"
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
    if (experiment.save_every < 0) {
        throw FieldError("save_every", fmt::format("{} is too small", experiment.save_every), "give 0 or more");
    }
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
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop) {
    const SharedInputs inputs(experiment);
    const std::vector<PlannedRun> plan = plan_runs(experiment);
    RunDirectory directory(experiment, inputs, plan, backend.name(), [&](const std::string& note) {
        if (progress) progress({.note = note});
    });
    const RunContext work{backend, experiment, inputs, directory, progress, stop};
    std::vector<double> baseline;  // of the seed in hand; empty when the baseline is not among the policies
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
