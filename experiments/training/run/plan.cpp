// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/plan.hpp"

#include "core/host/float_environment.hpp"
#include "experiments/training/run/evaluator.hpp"
#include "experiments/training/run/experiment_runs.hpp"
#include "experiments/training/run/step.hpp"
#include "experiments/training/run/watch/gradient_shadow.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/rows/csv.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

namespace macheps::training {

namespace {

template <class Row>
std::int64_t bytes_of(const std::vector<Row>& rows) {
    std::string text;
    for (const Row& row : rows) reports::csv::append_line(text, row);
    return static_cast<std::int64_t>(text.size());
}

/// Returns the approximate size of one row of steps.csv in bytes. Measures the row of the step `last`, but with the
/// step number and the token count of the end of a run, which have the most digits.
std::int64_t step_row_bytes(const Step& step, const StepResult& last, const RunSetup& setup) {
    reports::StepRow row = step.row(last, last.loss);
    row.step = setup.options.steps;
    row.tokens = setup.tokens(setup.options.steps);
    row.gap = row.grad_norm;  // a placeholder: the gap needs the baseline's loss, which is unknown
    return bytes_of(std::vector{row});
}

/// Returns how often an event happens in `steps` steps if it happens at step 0 and then every `every` steps.
std::int64_t times(std::int64_t steps, std::int64_t every) { return every > 0 ? (steps + every - 1) / every : 0; }

/// Returns the number of sampled steps that keep histograms.
std::int64_t histogram_steps(const TrainOptions& o) {
    if (o.probe_every <= 0 || o.histogram_every <= 0) return 0;
    const std::int64_t factor = o.histogram_every / std::gcd(o.probe_every, o.histogram_every);
    // Histograms are kept at multiples of the least common multiple of both intervals. If this multiple is beyond the
    // last step, only step 0 keeps a histogram.
    return o.probe_every > o.steps / factor ? 1 : times(o.steps, o.probe_every * factor);
}

/// Returns the number of multiply-adds of a step, up to a constant factor. Each token is multiplied with all weights
/// and, in attention, with the tokens of its context.
double work(const ModelConfig& model, const TrainOptions& o) {
    const double before =
        2.0 * static_cast<double>(model.layers) * static_cast<double>(model.context) * static_cast<double>(model.width);
    return static_cast<double>(o.micro_batches * o.batch * model.context) *
           (static_cast<double>(parameter_count(model)) + before);
}

/// The experiment that is timed: the given experiment, or a copy with fewer tokens and layers.
struct Timing {
    Experiment experiment;
    /// Share of a timed step's duration that is proportional to the number of tokens. The rest of the duration (casts
    /// of weights, and the optimiser) is proportional to the number of weights.
    double token_share = 1;
    bool is_scaled = false;

    /// Returns the ratio by which a step or an evaluation of the real experiment takes longer than that of the timed
    /// experiment.
    double factor(const TrainOptions& real, const ModelConfig& model, const TrainOptions& timed) const {
        const double weights =
            static_cast<double>(parameter_count(model)) / static_cast<double>(parameter_count(experiment.model));
        return (1 - token_share) * weights + token_share * work(model, real) / work(experiment.model, timed);
    }
};

struct Timed {
    std::int64_t steps = 0;
    double step = 0, sampled = 0, evaluation = 0;  ///< seconds
    /// Bytes of the rows of one run with its real number of steps. `step_bytes` counts the rows of the run, its steps
    /// and evaluations. `site_bytes` counts everything that sampled steps add: the rows of sites.csv and exponents.csv,
    /// and the cells of steps.csv that compare gradients.
    std::int64_t step_bytes = 0, site_bytes = 0;
};

/// Times steps and an evaluation under a policy. If the experiment itself is timed, its plain steps take about
/// min_seconds. If a smaller copy is timed, only two plain steps are timed.
Timed time_policy(Backend& backend, const Timing& timing, const SharedInputs& inputs,
                  const policy::ResolvedPolicy& resolved) {
    constexpr std::int64_t evaluation_row_bytes = 110, run_row_bytes = 260, gradient_bytes = 200;
    const std::int64_t max_steps = timing.is_scaled ? 2 : 32, min_steps = timing.is_scaled ? 2 : 3;
    constexpr double min_seconds = 0.2;
    const Experiment& experiment = timing.experiment;
    // Steps that are skipped are shorter, and a framework may end a run whose first steps are all skipped. The timed
    // steps therefore have a constant loss scale of 1.
    policy::ResolvedPolicy policy = resolved;
    if (resolved.loss_scaler.kind != &policy::no_scaler)
        policy.loss_scaler = policy::LossScalerConfig(*policy::find_scaler("static"), {{"init_scale", 1}});
    const TrainOptions o = options_under(policy.training, experiment.options);
    Timed timed;
    const RunSetup setup{.policy = policy,
                         .fp32 = inputs.fp32_of(resolved),
                         .model = experiment.model,
                         .options = o,
                         .data = *inputs.data,
                         .seed = experiment.seeds.front(),
                         .drawn = experiment.options.batch};
    Step step(backend, setup);
    StepResult last = step.run(0, Sampling::counts);  // not timed: does the work that is done only once
    const auto next = [&](Sampling sampling) { return last = step.run(last.step + 1, sampling); };
    double spent = 0;
    while (timed.steps < max_steps && (timed.steps < min_steps || spent < min_seconds)) {
        spent += next(Sampling::counts).seconds;
        ++timed.steps;
    }
    timed.step = spent / static_cast<double>(timed.steps);
    const std::int64_t samples = std::min(times(o.steps, o.probe_every), o.steps), histograms = histogram_steps(o);
    timed.step_bytes = run_row_bytes + o.steps * step_row_bytes(step, last, setup) +
                       (times(o.steps, o.eval_every) + 1) * evaluation_row_bytes;
    Evaluator evaluator(backend, setup, 1);
    evaluator.evaluate(last.step, step);  // not timed: allocates the buffers of the fp32 model
    if (samples > 0) {
        // Sampled steps of all policies except the baseline also compute the fp32 gradients.
        std::optional<GradientShadow> shadow;
        if (policy.name != reports::baseline_policy) {
            shadow.emplace(backend, setup, evaluator.fp32_model(), step);
            step.attach(*shadow);
        }
        timed.sampled = next(histograms > 0 ? Sampling::histograms : Sampling::sites).seconds;
        if (shadow) step.release();
        timed.site_bytes = samples * bytes_of(step.probe().site_rows(setup.name(), policy.name, setup.seed, o.steps)) +
                           (shadow ? samples * gradient_bytes : 0) +
                           histograms * bytes_of(step.probe().exponent_rows(setup.name(), o.steps));
    }
    const auto start = std::chrono::steady_clock::now();
    evaluator.evaluate(last.step, step);
    timed.evaluation = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return timed;
}

Plan::PolicyPlan plan_of(const Experiment& experiment, const SharedInputs& inputs, const policy::ResolvedPolicy& policy,
                         const Timing& timing, const Timed& timed) {
    const TrainOptions o = options_under(policy.training, experiment.options),
                       small = options_under(policy.training, timing.experiment.options);
    const double factor = timing.factor(o, experiment.model, small);
    Plan::PolicyPlan plan{
        .policy = policy.name,
        .memory = estimate_memory(inputs.sites, policy, o.batch / o.ranks, moments(o.optimizer), o.recompute),
        .timed_steps = timed.steps,
        .step_seconds = timed.step * factor,
        .evaluation_seconds = timed.evaluation * factor * static_cast<double>(o.eval_batches)};
    const std::int64_t samples = std::min(times(o.steps, o.probe_every), o.steps),
                       evaluations = times(o.steps, o.eval_every) + 1;
    if (samples > 0) plan.sampled_step_seconds = timed.sampled * factor;
    const auto seeds = static_cast<double>(experiment.seeds.size());
    plan.seconds = seeds * (static_cast<double>(o.steps - samples) * plan.step_seconds +
                            static_cast<double>(samples) * plan.sampled_step_seconds.value_or(0) +
                            static_cast<double>(evaluations) * plan.evaluation_seconds);
    const double layers =
        static_cast<double>(experiment.model.layers) / static_cast<double>(timing.experiment.model.layers);
    plan.row_bytes = static_cast<std::int64_t>(
        seeds * (static_cast<double>(timed.step_bytes) + layers * static_cast<double>(timed.site_bytes)));
    return plan;
}

/// Returns the experiment itself if its steps are short enough to be timed. Otherwise returns a copy with fewer tokens
/// and layers.
Timing timing_of(const Experiment& experiment) {
    constexpr double soon = 3e9;  // limit for work(), summed over the policies: a few seconds
    Timing timing{.experiment = experiment};
    const double most = soon / static_cast<double>(experiment.policies.size());
    ModelConfig& model = timing.experiment.model;
    TrainOptions& o = timing.experiment.options;
    if (work(model, o) <= most) return timing;
    timing.is_scaled = true;
    o.micro_batches = 1;
    o.batch = o.ranks;
    while (model.context > 16 && work(model, o) > most) model.context = std::max<std::int64_t>(model.context / 2, 16);
    const std::int64_t layers = std::exchange(model.layers, std::min<std::int64_t>(model.layers, 2));
    try {
        const SharedInputs fits(timing.experiment);
    } catch (const Error&) {
        model.layers = layers;  // keep all layers: a policy names a layer that a smaller model lacks
    }
    return timing;
}

/// Returns the share of a step's duration that grows with the number of tokens. Measures it by timing steps of the same
/// policy on twice as many tokens.
double token_share(Backend& backend, const Timing& timing, const policy::ResolvedPolicy& policy, const Timed& timed) {
    Timing twice = timing;
    twice.experiment.options.batch *= 2;
    const SharedInputs inputs(twice.experiment);
    const double more = time_policy(backend, twice, inputs, policy).step;
    return std::clamp(more / timed.step - 1, 0.1, 1.0);
}

/// Returns the nearest existing folder at or above `path`. The plan reports whether this folder is writable and how
/// much space is free there.
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
        plan.problems.push_back(Error({.what = "this folder is not writable",
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
            Error({.what = fmt::format("{} bytes are free, but about {} are needed", *plan.free_bytes, plan.disk_bytes),
                   .where = folder.string(),
                   .fix = "free some space, or choose another directory with `directory`",
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
              .min_bytes = static_cast<std::int64_t>(min_memory(experiment)),
              .policies = {},
              .problems = {}};
    Timing timing = timing_of(experiment);
    plan.timed_tokens = timing.is_scaled ? timing.experiment.options.batch * timing.experiment.model.context : 0;
    std::optional<SharedInputs> small;
    if (timing.is_scaled) small.emplace(timing.experiment);
    const SharedInputs& timed_inputs = small ? *small : inputs;
    for (std::size_t i = 0; i < inputs.policies.size(); ++i) {
        const Timed timed = time_policy(backend, timing, timed_inputs, timed_inputs.policies[i]);
        if (i == 0 && timing.is_scaled) {
            timing.token_share = token_share(backend, timing, timed_inputs.policies[i], timed);
        }
        plan.policies.push_back(plan_of(experiment, inputs, inputs.policies[i], timing, timed));
        plan.seconds += plan.policies.back().seconds;
        plan.disk_bytes += plan.policies.back().row_bytes;
    }
    plan.seconds /= static_cast<double>(std::min(backends.size(), plan.runs));
    // A checkpoint stores the value, the master and two moments of each parameter as fp32. The last two checkpoints of
    // a run are kept.
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

}  // namespace macheps::training
