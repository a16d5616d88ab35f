// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/experiment_runs.hpp"

#include "core/error.hpp"
#include "core/host/publish.hpp"
#include "core/host/version.hpp"
#include "experiments/training/run/directory/manifest.hpp"
#include "experiments/training/run/trainable.hpp"
#include "reports/logs/manifest_text.hpp"
#include "reports/logs/run_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace macheps::training {

namespace {

/// Creates the directory of a new experiment after checking that it may be used and that the manifest is complete.
/// Returns its path. For a resumed experiment, only returns the path.
const std::filesystem::path& made_directory(const Experiment& experiment, const std::string& manifest) {
    if (experiment.resume) return experiment.directory;
    if (!experiment.repeats.empty()) {
        check_same_recipe(experiment.repeats, reports::read_manifest_text(experiment.repeats), manifest);
    }
    check_directory(experiment);
    check_complete(experiment, manifest);
    if (manifest.size() > reports::max_manifest_bytes) {
        throw Error({.what = fmt::format("the manifest would have {} bytes, but at most {} can be read again",
                                         manifest.size(), reports::max_manifest_bytes),
                     .where = experiment.directory.string(),
                     .fix = "divide the policies among several directories, or use fewer `layers`",
                     .exit = Exit::usage});
    }
    std::error_code error;
    std::filesystem::create_directories(experiment.directory, error);
    if (error) {
        throw Error({.what = fmt::format("cannot create the directory: {}", error.message()),
                     .where = experiment.directory.string(),
                     .fix = "choose another directory with `directory`",
                     .exit = Exit::cannot_write});
    }
    return experiment.directory;
}

/// Writes the manifest of a new experiment, or finds the point where the earlier process stopped. The directory must be
/// locked.
ResumePoint begin_or_go_on(const Experiment& experiment, const SharedInputs& inputs, std::span<const PlannedRun> plan,
                           const std::string& manifest, CheckpointFolder& checkpoints, const RunDirectory::Note& note) {
    const std::filesystem::path path = experiment.directory / "manifest.json";
    if (!experiment.resume) {
        check_directory(experiment);  // again: another process may have used it before the lock
        if (experiment.force) clear_run(experiment.directory);
        publish(path, manifest);
        return {};
    }
    check_same_recipe(path, reports::read_manifest_text(path), manifest);
    std::vector<std::string> names;
    for (const PlannedRun& run : plan) names.push_back(run.name);
    const auto check = [&](std::size_t run, const Checkpoint& checkpoint) {
        const policy::ResolvedPolicy& policy = inputs.policies[plan[run].policy];
        check_state(checkpoint, inputs.sites, options_under(policy.training, experiment.options), policy);
    };
    return find_resume_point(experiment.directory, names, check, recipe_checksum(manifest), checkpoints,
                             [&](const std::string& text) {
                                 if (note) note(text);
                             });
}

std::vector<reports::StepRow> rows_of(const std::vector<reports::StepRow>& rows, const std::string& run) {
    std::vector<reports::StepRow> out;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(out),
                 [&](const reports::StepRow& row) { return row.run == run; });
    return out;
}

}  // namespace

SharedInputs::SharedInputs(const Experiment& experiment) {
    validate(experiment);
    sites = model_sites(experiment.model);
    for (const policy::Policy& policy : experiment.policies) {
        policies.push_back(resolve(policy, sites));
        check_trainable(policies.back());
        check_batches(policies.back(), experiment.model, options_under(policy.training, experiment.options));
    }
    fp32 = resolve(policy::load_policy(reports::baseline_policy), sites);
    for (const policy::ResolvedPolicy& policy : policies) {
        if (policy.training.stress == fp32_of(policy).training.stress) continue;
        stressed_fp32.push_back(fp32);
        stressed_fp32.back().training.stress = policy.training.stress;
    }
    data = open_data(
        {.train = experiment.data_file, .held_out = experiment.held_out_file, .format = experiment.data_format},
        experiment.model.vocabulary, experiment.model.context);
}

const policy::ResolvedPolicy& SharedInputs::fp32_of(const policy::ResolvedPolicy& policy) const {
    for (const policy::ResolvedPolicy& stressed : stressed_fp32) {
        if (stressed.training.stress == policy.training.stress) return stressed;
    }
    return fp32;
}

std::vector<PlannedRun> plan_runs(const Experiment& experiment) {
    std::vector<PlannedRun> plan;
    for (const std::int64_t seed : experiment.seeds) {
        const std::size_t first = plan.size();
        for (std::size_t i = 0; i < experiment.policies.size(); ++i) {
            const std::string& policy = experiment.policies[i].name;
            plan.push_back({run_name(policy, seed), i, seed, policy == reports::baseline_policy});
        }
        std::stable_partition(plan.begin() + static_cast<std::ptrdiff_t>(first), plan.end(),
                              [](const PlannedRun& run) { return run.is_baseline; });
    }
    return plan;
}

RunDirectory::RunDirectory(const Experiment& experiment, const SharedInputs& inputs, std::span<const PlannedRun> plan,
                           const std::string& device, const Note& note)
    : manifest_(manifest_text(experiment, inputs.policies, inputs.data->describe(), device)),
      recipe_(recipe_checksum(manifest_)),
      lock_(made_directory(experiment, manifest_)),
      checkpoints_(experiment.directory),
      point_(begin_or_go_on(experiment, inputs, plan, manifest_, checkpoints_, note)),
      files_(experiment.directory) {
    if (experiment.hash_sites) hashes_.emplace(experiment.directory / reports::HashRow::file);
    if (point_.completed == plan.size()) checkpoints_.clear();
}

std::vector<double> RunDirectory::losses(const std::string& run) const {
    std::vector<double> losses;
    for (const reports::StepRow& row : rows_of(point_.steps, run)) losses.push_back(row.loss);
    return losses;
}

RunJob::RunJob(const RunContext& work, std::span<const PlannedRun> plan, std::size_t index,
               const std::vector<double>* baseline)
    : work_(work), run_(plan[index]), index_(index) {
    const Experiment& experiment = work.experiment;
    RunDirectory& directory = work.directory;
    const policy::ResolvedPolicy& policy = work.inputs.policies[run_.policy];
    now_ = {.index = index,
            .runs = plan.size(),
            .policy = policy.name,
            .seed = run_.seed,
            .steps = experiment.options.steps};
    options_ = options_under(policy.training, experiment.options);
    request_.emplace(RunRequest{.setup = {.policy = policy,
                                          .fp32 = work.inputs.fp32_of(policy),
                                          .model = experiment.model,
                                          .options = options_,
                                          .data = *work.inputs.data,
                                          .seed = run_.seed,
                                          .drawn = experiment.options.batch,
                                          .stop_now = work.stop_now},
                                .is_baseline = run_.is_baseline,
                                .baseline = baseline,
                                .stop = &work.stop});
    request_->on_step = [this](std::int64_t step, double loss) {
        if (!rows_.is_open()) return;
        now_.step = step + 1;
        now_.loss = loss;
        report(now_);
    };
    if (index == directory.point_.completed) start_ = std::exchange(directory.point_.checkpoint, {});
    if (start_) {
        request_->start = &*start_;
        request_->steps_done = rows_of(directory.point_.steps, run_.name);
    }
    request_->save_every = experiment.save_every;
    request_->save = [this](Checkpoint checkpoint) {
        checkpoint.recipe = work_.directory.recipe_;
        work_.directory.checkpoints_.save(index_, std::move(checkpoint));
    };
    dump_ = experiment.dump;
    dump_.metadata = {
        {"manifest", directory.manifest_}, {"created_by", "macheps " + version()}, {"git", git_revision()}};
    if (!dump_.file.empty() && dump_.policy == policy.name && dump_.seed == run_.seed) request_->dump = &dump_;
    if (directory.hashes_) request_->hashes = &*directory.hashes_;
}

void RunJob::report(const Progress& progress) const {
    if (work_.progress) work_.progress(progress);
}

void RunJob::open() { rows_.open(work_.directory.files_); }

RunResult RunJob::train(Backend& backend) { return training::train(backend, *request_, rows_); }

void RunJob::finish(const RunResult& result) {
    if (request_->dump != nullptr) {
        report({.note = result.dumped
                            ? fmt::format("wrote step {} of {} to {}", dump_.step, run_.name, dump_.file.string())
                            : fmt::format("step {} of {} was not run, so nothing was dumped", dump_.step, run_.name)});
    }
    work_.directory.checkpoints_.wait();  // report a run as stopped only once it can be resumed
    if (!result.losses.empty()) {
        now_.step = static_cast<std::int64_t>(result.losses.size());
        now_.loss = result.losses.back();
    }
    now_.status = result.status;
    now_.finished = true;
    report(now_);
    if (result.status != "stopped") work_.directory.checkpoints_.clear();
}

RunResult run_one(const RunContext& work, std::span<const PlannedRun> plan, std::size_t index,
                  const std::vector<double>* baseline) {
    RunJob job(work, plan, index, baseline);
    job.open();
    RunResult result = job.train(work.backend);
    job.finish(result);
    return result;
}

}  // namespace macheps::training
