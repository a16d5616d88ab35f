// SPDX-License-Identifier: Apache-2.0
#include "experiments/train/plan.hpp"

#include "core/float_environment.hpp"
#include "experiments/train/evaluator.hpp"
#include "experiments/train/experiment_runs.hpp"
#include "experiments/train/gradient_shadow.hpp"
#include "experiments/train/step.hpp"
#include "reports/csv.hpp"
#include "reports/run_log.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

namespace macheps {

namespace {

template <class Row>
std::int64_t bytes_of(const std::vector<Row>& rows) {
    std::string text;
    for (const Row& row : rows) csv::append_line(text, row);
    return static_cast<std::int64_t>(text.size());
}

/// Of one row of steps.csv, about: that of a step just run, with the numbers that a late step of a run would have.
std::int64_t step_row_bytes(const Step& step, const StepResult& last, const RunSetup& setup) {
    StepRow row = step.row(last, last.loss);
    row.step = setup.options.steps;
    row.tokens = setup.tokens(setup.options.steps);
    row.gap = row.grad_norm;  // the baseline's loss, and so the gap, are not known here
    return bytes_of(std::vector{row});
}

/// How often something happens that happens at step 0 and every `every` steps.
std::int64_t times(std::int64_t steps, std::int64_t every) { return every > 0 ? (steps + every - 1) / every : 0; }

/// Of the sampled steps, those that keep histograms.
std::int64_t histogram_steps(const TrainOptions& o) {
    if (o.probe_every <= 0 || o.histogram_every <= 0) return 0;
    const std::int64_t factor = o.histogram_every / std::gcd(o.probe_every, o.histogram_every);
    // Both divide the multiples of their least common multiple: of those beyond the last step, step 0 alone is left.
    return o.probe_every > o.steps / factor ? 1 : times(o.steps, o.probe_every * factor);
}

Plan::PolicyPlan measure(Backend& backend, const Experiment& experiment, const SharedInputs& inputs,
                         const ResolvedPolicy& policy) {
    constexpr std::int64_t most_steps = 32, least_steps = 3;
    constexpr double least_seconds = 0.2;
    constexpr std::int64_t evaluation_row_bytes = 110, run_row_bytes = 260, gradient_bytes = 120;
    const TrainOptions o = options_under(policy.training, experiment.options);
    Plan::PolicyPlan plan{
        .policy = policy.name,
        .memory = estimate_memory(inputs.sites, policy, o.batch / o.ranks, moments(o.optimizer), o.recompute)};
    const RunSetup setup{.policy = policy,
                         .fp32 = inputs.fp32,
                         .model = experiment.model,
                         .options = o,
                         .data = *inputs.data,
                         .seed = experiment.seeds.front(),
                         .drawn = experiment.options.batch};
    Step step(backend, setup);
    StepResult last = step.run(0, Sampling::counts);  // makes what is made once
    const auto next = [&](Sampling sampling) { return last = step.run(last.step + 1, sampling); };
    double spent = 0;
    while (plan.timed_steps < most_steps && (plan.timed_steps < least_steps || spent < least_seconds)) {
        spent += next(Sampling::counts).seconds;
        ++plan.timed_steps;
    }
    plan.step_seconds = spent / static_cast<double>(plan.timed_steps);
    const std::int64_t samples = std::min(times(o.steps, o.probe_every), o.steps), histograms = histogram_steps(o);
    std::int64_t bytes = run_row_bytes + o.steps * step_row_bytes(step, last, setup);
    Evaluator evaluator(backend, setup, 1);
    evaluator.evaluate(last.step, step);  // makes the fp32 model's buffers
    if (samples > 0) {
        // Sampled steps of all but the baseline make the gradients of fp32 too.
        std::optional<GradientShadow> shadow;
        if (policy.name != baseline_policy) {
            shadow.emplace(backend, setup, evaluator.fp32_model(), step);
            step.attach(*shadow);
        }
        plan.sampled_step_seconds = next(histograms > 0 ? Sampling::histograms : Sampling::sites).seconds;
        if (shadow) step.release();
        bytes += samples * bytes_of(step.probe().site_rows(setup.name(), policy.name, setup.seed, o.steps)) +
                 (shadow ? samples * gradient_bytes : 0) +
                 histograms * bytes_of(step.probe().exponent_rows(setup.name(), o.steps));
    }
    const auto start = std::chrono::steady_clock::now();
    evaluator.evaluate(last.step, step);
    plan.evaluation_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() *
                              static_cast<double>(o.eval_batches);
    const std::int64_t evaluations = times(o.steps, o.eval_every) + 1;
    bytes += evaluations * evaluation_row_bytes;
    const auto seeds = static_cast<double>(experiment.seeds.size());
    plan.seconds = seeds * (static_cast<double>(o.steps - samples) * plan.step_seconds +
                            static_cast<double>(samples) * plan.sampled_step_seconds.value_or(0) +
                            static_cast<double>(evaluations) * plan.evaluation_seconds);
    plan.row_bytes = static_cast<std::int64_t>(experiment.seeds.size()) * bytes;
    return plan;
}

/// The nearest folder above that exists: what can be written, and how much fits.
std::filesystem::path existing_part(std::filesystem::path path) {
    std::error_code error;
    path = std::filesystem::absolute(path, error);
    while (!std::filesystem::exists(path, error) && path.has_relative_path()) path = path.parent_path();
    return path;
}

void look_at_disk(Plan& plan, const Experiment& experiment) {
    try {
        if (!experiment.resume) check_directory(experiment);
    } catch (const Error& error) {
        plan.problems.push_back(error);
        return;
    }
    const std::filesystem::path folder = existing_part(plan.directory);
    if (!std::filesystem::is_directory(folder) || access(folder.c_str(), W_OK | X_OK) != 0) {
        plan.problems.push_back(Error({.what = "this folder cannot be written",
                                       .where = folder.string(),
                                       .fix = "choose another directory with `directory`",
                                       .exit = Exit::cannot_write}));
        return;
    }
    std::error_code error;
    const auto space = std::filesystem::space(folder, error);
    if (error) return;
    plan.free_bytes = static_cast<std::int64_t>(space.available);
    if (*plan.free_bytes < plan.disk_bytes) {
        plan.problems.push_back(
            Error({.what = fmt::format("{} bytes are free, about {} are needed", *plan.free_bytes, plan.disk_bytes),
                   .where = folder.string(),
                   .fix = "make room, or choose another directory with `directory`",
                   .exit = Exit::cannot_write}));
    }
}

}  // namespace

Plan make_plan(std::span<Backend* const> backends, const Experiment& experiment) {
    const DefaultFloatModes modes;
    Backend& backend = *backends.front();
    check_memory(backend, experiment, static_cast<int>(backends.size()));
    const SharedInputs inputs(experiment);
    const TrainOptions& o = experiment.options;
    Plan plan{.directory = experiment.directory,
              .data = inputs.data->describe(),
              .device = engines_name(backends),
              .runs = plan_runs(experiment).size(),
              .seeds = experiment.seeds,
              .steps = o.steps,
              .tokens = o.steps * o.micro_batches * o.batch * experiment.model.context,
              .parameters = parameter_count(experiment.model),
              .least_bytes = static_cast<std::int64_t>(least_memory(experiment)),
              .policies = {},
              .problems = {}};
    for (const ResolvedPolicy& policy : inputs.policies) {
        plan.policies.push_back(measure(backend, experiment, inputs, policy));
        plan.seconds += plan.policies.back().seconds;
        plan.disk_bytes += plan.policies.back().row_bytes;
    }
    plan.seconds /= static_cast<double>(std::min(backends.size(), plan.runs));
    // A checkpoint keeps value, master and two moments as fp32; the last two of a run are kept.
    const std::int64_t checkpoints = experiment.save_every > 0 && o.steps > experiment.save_every
                                         ? std::min<std::int64_t>(2, (o.steps - 1) / experiment.save_every)
                                         : 0;
    constexpr std::int64_t page_bytes = 1 << 20;
    plan.disk_bytes += page_bytes + checkpoints * plan.parameters * 4 * 4;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    plan.peak_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
    look_at_disk(plan, experiment);
    return plan;
}

}  // namespace macheps
