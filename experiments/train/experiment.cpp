// SPDX-License-Identifier: Apache-2.0
#include "experiments/train/experiment.hpp"

#include "core/error.hpp"
#include "experiments/field_error.hpp"
#include "experiments/train/manifest.hpp"
#include "experiments/train/run_directory.hpp"
#include "experiments/train/trainer.hpp"
#include "experiments/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

namespace macheps {

namespace {

void check(const TrainOptions& o) {
    const auto refuse = [](const char* field, const std::string& what, const char* fix) {
        throw FieldError(field, what, fix);
    };
    const auto at_least = [&](const char* field, std::int64_t value, std::int64_t least) {
        if (value < least)
            refuse(field, fmt::format("{} is too small", value), least == 0 ? "give 0 or more" : "give 1 or more");
    };
    at_least("steps", o.steps, 1);
    at_least("batch", o.batch, 1);
    at_least("micro_batches", o.micro_batches, 1);
    at_least("warmup", o.warmup, 0);
    at_least("eval_every", o.eval_every, 0);
    at_least("eval_batches", o.eval_batches, 1);
    at_least("probe_every", o.probe_every, 0);
    at_least("histogram_every", o.histogram_every, 0);
    const auto no_less_than_0 = [&](const char* field, double value) {
        if (!(value >= 0) || !std::isfinite(value)) refuse(field, fmt::format("it is {}", value), "give 0 or more");
    };
    no_less_than_0("clip", o.clip);
    no_less_than_0("weight_decay", o.weight_decay);
    no_less_than_0("momentum", o.momentum);
    if (!(o.lr > 0) || !std::isfinite(o.lr))
        refuse("lr", fmt::format("{} is no learning rate", o.lr), "give a positive number");
    if (!(o.min_lr >= 0) || o.min_lr > o.lr)
        refuse("min_lr", fmt::format("{} does not lie in 0 .. lr", o.min_lr), "give at most `lr`");
    int exponent = 0;
    if (!(o.token_weight > 0) || std::frexp(o.token_weight, &exponent) != 0.5 || std::abs(exponent) > 100) {
        refuse("token_weight", fmt::format("{} is no power of two", o.token_weight),
               "give a power of two, so that undoing it is exact, for instance 2^-12");
    }
}

std::unique_ptr<Data> open_data(const Experiment& e) {
    return macheps::open_data({.train = e.data_file, .held_out = e.held_out_file, .format = e.data_format},
                              e.model.vocabulary, e.model.context);
}

Error no_directory(const std::filesystem::path& directory, const std::string& what) {
    return Error({.what = what,
                  .where = directory.string(),
                  .fix = "choose another directory with `directory`",
                  .exit = Exit::cannot_write});
}

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

/// One line of the plan: a policy under a seed.
struct PlannedPolicy {
    const ResolvedPolicy* policy;
    std::int64_t seed;
};

/// Seed by seed, fp32 first.
std::vector<PlannedPolicy> order_of_runs(const Experiment& experiment, const std::vector<ResolvedPolicy>& resolved) {
    std::vector<PlannedPolicy> order;
    for (const std::int64_t seed : experiment.seeds) {
        const std::size_t first = order.size();
        for (const ResolvedPolicy& policy : resolved) order.push_back({&policy, seed});
        std::stable_partition(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(),
                              [](const PlannedPolicy& run) { return run.policy->name == "fp32"; });
    }
    return order;
}

std::vector<StepRow> rows_of(const std::vector<StepRow>& rows, const std::string& run) {
    std::vector<StepRow> out;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(out), [&](const StepRow& row) { return row.run == run; });
    return out;
}

std::vector<float> losses_of(const std::vector<StepRow>& rows, const std::string& run) {
    std::vector<float> losses;
    for (const StepRow& row : rows_of(rows, run)) losses.push_back(row.loss);
    return losses;
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
        throw no_directory(directory, "this is a file, not a directory");
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
    check(experiment);
    const SiteList sites = model_sites(experiment.model);
    std::vector<ResolvedPolicy> resolved;
    for (const Policy& policy : experiment.policies) resolved.push_back(resolve(policy, sites));
    const ResolvedPolicy fp32_policy = resolve(load_policy("fp32"), sites);
    const std::unique_ptr<Data> data = open_data(experiment);
    const std::string manifest = manifest_text(experiment, resolved, data->describe(), backend.name());
    const std::uint64_t recipe = recipe_checksum(manifest);
    const std::filesystem::path& directory = experiment.directory;
    const std::filesystem::path manifest_path = directory / "manifest.json";

    if (!experiment.resume) {
        if (!experiment.repeats.empty()) {
            check_same_recipe(experiment.repeats, csv::read_text(experiment.repeats), manifest);
        }
        check_directory(experiment);
        check_complete(experiment, manifest);
        std::error_code error;
        std::filesystem::create_directories(directory, error);
        if (error) throw no_directory(directory, fmt::format("cannot make the directory: {}", error.message()));
    }
    const DirectoryLock lock(directory);
    const std::vector<PlannedPolicy> order = order_of_runs(experiment, resolved);
    CheckpointFolder checkpoints(directory);
    ResumePoint point;
    Progress now{.runs = order.size(), .steps = experiment.options.steps};
    if (experiment.resume) {
        check_same_recipe(manifest_path, csv::read_text(manifest_path), manifest);
        std::vector<PlannedRun> plan;
        for (const PlannedPolicy& run : order) {
            plan.push_back({run_name(run.policy->name, run.seed), [&, policy = run.policy](const Checkpoint& c) {
                                check_state(c, sites, experiment.options, *policy);
                            }});
        }
        point = find_resume_point(directory, plan, recipe, checkpoints, [&](const std::string& note) {
            if (progress) progress({.note = note});
        });
    } else {
        check_directory(experiment);  // again: another process may have been here before the lock was ours
        if (experiment.force) clear_run(directory);
        csv::replace_file(manifest_path, manifest);
    }

    RunFiles files(directory);
    std::optional<CsvWriter<HashRow>> hashes;
    if (experiment.hash_sites) hashes.emplace(directory / HashRow::file);
    std::vector<float> baseline;
    for (now.index = 0; now.index < order.size(); ++now.index) {
        const ResolvedPolicy& policy = *order[now.index].policy;
        now.policy = policy.name;
        now.seed = order[now.index].seed;
        now.finished = false;
        const std::string name = run_name(policy.name, now.seed);
        const bool is_baseline = policy.name == "fp32";
        if (is_baseline) baseline.clear();
        if (now.index < point.completed) {
            if (is_baseline) baseline = losses_of(point.steps, name);
            continue;
        }
        if (stop) return false;
        RunRequest request{.policy = policy,
                           .fp32 = fp32_policy,
                           .model = experiment.model,
                           .options = experiment.options,
                           .data = *data,
                           .seed = now.seed,
                           .stop = &stop};
        request.is_baseline = is_baseline;
        if (!is_baseline && !baseline.empty()) request.baseline = &baseline;
        request.on_step = [&](std::int64_t step, float loss) {
            now.step = step + 1;
            now.loss = loss;
            if (progress) progress(now);
        };
        if (now.index == point.completed && point.checkpoint) {
            request.start = &*point.checkpoint;
            request.steps_done = rows_of(point.steps, name);
        }
        request.save_every = experiment.save_every;
        request.save = [&](Checkpoint checkpoint) {
            checkpoint.recipe = recipe;
            checkpoints.save(now.index, std::move(checkpoint));
        };
        DumpRequest dump = experiment.dump;
        const bool dumps = !dump.file.empty() && dump.policy == policy.name && dump.seed == now.seed;
        dump.metadata = {{"manifest", manifest}, {"created_by", "macheps " + version()}, {"git", git_revision()}};
        if (dumps) request.dump = &dump;
        if (hashes) request.hashes = &*hashes;
        const RunResult result = train(backend, request, files);
        if (dumps && progress) {
            progress({.note = result.dumped
                                  ? fmt::format("Step {} of {}: {}", dump.step, name, dump.file.string())
                                  : fmt::format("Step {} of {} did not run here: nothing dumped", dump.step, name)});
        }
        checkpoints.wait();  // a run is not called stopped before it can be resumed
        now.status = result.status;
        now.finished = true;
        if (progress) progress(now);
        if (result.status == "stopped") return false;
        if (is_baseline) baseline = result.losses;
        checkpoints.clear();
        point.checkpoint.reset();
    }
    checkpoints.clear();
    return true;
}

std::filesystem::path next_run_directory() {
    for (int i = 1;; ++i) {
        std::filesystem::path path = fmt::format("runs/{:03}", i);
        if (!std::filesystem::exists(path)) return path;
    }
}

}  // namespace macheps
