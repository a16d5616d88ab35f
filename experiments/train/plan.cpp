// SPDX-License-Identifier: Apache-2.0
#include "experiments/train/plan.hpp"

#include "reports/csv.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace macheps {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A run's model and optimiser, for a few steps whose results nobody keeps.
class Trial {
  public:
    Trial(Backend& backend, const Experiment& experiment, const Data& data, const ResolvedPolicy& policy,
          const ResolvedPolicy& fp32)
        : backend_(backend),
          experiment_(experiment),
          options_(experiment.options),
          data_(data),
          policy_(policy),
          seed_(static_cast<std::uint64_t>(experiment.seeds.front())),
          model_(backend, experiment.model, options_.batch, policy, seed_),
          fp32_model_(backend, experiment.model, options_.batch, fp32, seed_),
          scaler_(make_loss_scaler(policy.loss_scaler)),
          probe_(backend),
          tokens_(backend.empty_tokens({options_.batch, experiment.model.context})),
          targets_(backend.empty_tokens({options_.batch, experiment.model.context})) {
        model_.initialise(seed_);
        fp32_model_.initialise(seed_);
        optimizer_.emplace(backend, policy, options_, model_, seed_);
        if (options_.probe_every > 0) model_.rounder().observe(&probe_);
    }

    /// Seconds of one optimiser step.
    double step(bool sampling, bool histograms) {
        const auto start = Clock::now();
        probe_.begin(sampling, histograms);
        model_.clear_gradients();
        const float factor =
            scaler_->scale() * static_cast<float>(options_.token_weight) / static_cast<float>(options_.micro_batches);
        for (std::int64_t part = 0; part < options_.micro_batches; ++part) {
            upload(Split::train, step_ * options_.micro_batches + part);
            model_.rounder().begin(static_cast<std::uint32_t>(step_), static_cast<std::uint32_t>(part));
            loss_ = model_.forward(tokens_, targets_);
            model_.backward(factor);
        }
        const StepOutcome outcome = optimizer_->step(step_, *scaler_);
        grad_norm_ = outcome.grad_norm;
        ++step_;
        return seconds_since(start);
    }

    /// Seconds of a forward pass under the policy and one in fp32.
    double evaluation_batch() {
        upload(Split::held_out, 0);
        model_.rounder().observe(nullptr);
        const auto start = Clock::now();
        model_.forward(tokens_, targets_);
        fp32_model_.forward(tokens_, targets_);
        return seconds_since(start);
    }

    /// Bytes of one row of steps.csv, and of the rows of the last step, which was sampled.
    std::int64_t step_row_bytes() const {
        const StepRow row{
            .run = run_name(policy_.name, experiment_.seeds.front()),
            .policy = policy_.name,
            .seed = experiment_.seeds.front(),
            .step = options_.steps,
            .tokens = options_.steps * options_.micro_batches * options_.batch * experiment_.model.context,
            .loss = loss_,
            .baseline_loss = loss_,
            .gap = grad_norm_,
            .grad_norm = grad_norm_,
            .update_norm = grad_norm_,
            .lr = grad_norm_,
            .loss_scale = scaler_->scale(),
            .underflow = probe_.total().underflow,
            .update_eff = double{grad_norm_} / 3};
        std::string text;
        csv::append_line(text, row);
        return static_cast<std::int64_t>(text.size());
    }
    std::int64_t site_row_bytes() const {
        return bytes_of(probe_.site_rows(run_name(policy_.name, experiment_.seeds.front()), policy_.name,
                                         experiment_.seeds.front(), options_.steps));
    }
    std::int64_t exponent_row_bytes() const {
        return bytes_of(probe_.exponent_rows(run_name(policy_.name, experiment_.seeds.front()), options_.steps));
    }

  private:
    template <class Row>
    static std::int64_t bytes_of(const std::vector<Row>& rows) {
        std::string text;
        for (const Row& row : rows) csv::append_line(text, row);
        return static_cast<std::int64_t>(text.size());
    }

    void upload(Split split, std::int64_t draw) {
        const Batch batch =
            data_.batch(split, seed_, static_cast<std::uint32_t>(draw), options_.batch, experiment_.model.context);
        backend_.upload(batch.tokens, tokens_);
        backend_.upload(batch.targets, targets_);
    }

    Backend& backend_;
    const Experiment& experiment_;
    const TrainOptions& options_;
    const Data& data_;
    const ResolvedPolicy& policy_;
    std::uint64_t seed_;
    Transformer model_, fp32_model_;
    std::unique_ptr<LossScaler> scaler_;
    Probe probe_;
    std::optional<Optimizer> optimizer_;
    TokenTensor tokens_, targets_;
    std::int64_t step_ = 0;
    float loss_ = 0, grad_norm_ = 0;
};

/// How often something happens that happens at step 0 and every `every` steps.
std::int64_t times(std::int64_t steps, std::int64_t every) { return every > 0 ? (steps + every - 1) / every : 0; }

/// Of the sampled steps, those that keep histograms.
std::int64_t histogram_steps(const TrainOptions& o) {
    std::int64_t n = 0;
    if (o.probe_every <= 0 || o.histogram_every <= 0) return 0;
    for (std::int64_t step = 0; step < o.steps; step += o.probe_every) n += step % o.histogram_every == 0 ? 1 : 0;
    return n;
}

Plan::PolicyPlan measure(Backend& backend, const Experiment& experiment, const Data& data, const ResolvedPolicy& policy,
                         const ResolvedPolicy& fp32) {
    constexpr std::int64_t most_steps = 32, least_steps = 3;
    constexpr double least_seconds = 0.2;
    constexpr std::int64_t evaluation_row_bytes = 110, run_row_bytes = 180;
    const TrainOptions& o = experiment.options;
    Plan::PolicyPlan plan{
        .policy = policy.name,
        .memory = estimate_memory(model_sites(experiment.model), policy, o.batch, moments(o.optimizer))};
    Trial trial(backend, experiment, data, policy, fp32);
    trial.step(false, false);  // makes what is made once
    double spent = 0;
    while (plan.timed_steps < most_steps && (plan.timed_steps < least_steps || spent < least_seconds)) {
        spent += trial.step(false, false);
        ++plan.timed_steps;
    }
    plan.step_seconds = spent / static_cast<double>(plan.timed_steps);
    const std::int64_t samples = std::min(times(o.steps, o.probe_every), o.steps), histograms = histogram_steps(o);
    std::int64_t bytes = run_row_bytes + o.steps * trial.step_row_bytes();
    if (samples > 0) {
        plan.sampled_step_seconds = trial.step(true, histograms > 0);
        bytes += samples * trial.site_row_bytes() + histograms * trial.exponent_row_bytes();
    }
    trial.evaluation_batch();  // makes the fp32 model's casts
    plan.evaluation_seconds = trial.evaluation_batch() * static_cast<double>(o.eval_batches);
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

Plan make_plan(Backend& backend, const Experiment& experiment) {
    check(experiment);
    const SiteList sites = model_sites(experiment.model);
    std::vector<ResolvedPolicy> resolved;
    for (const Policy& policy : experiment.policies) resolved.push_back(resolve(policy, sites));
    const ResolvedPolicy fp32 = resolve(load_policy("fp32"), sites);
    const auto data = open_data(
        {.train = experiment.data_file, .held_out = experiment.held_out_file, .format = experiment.data_format},
        experiment.model.vocabulary, experiment.model.context);
    const TrainOptions& o = experiment.options;
    Plan plan{.directory = experiment.directory,
              .data = data->describe(),
              .device = backend.name(),
              .runs = resolved.size() * experiment.seeds.size(),
              .seeds = experiment.seeds,
              .steps = o.steps,
              .tokens = o.steps * o.micro_batches * o.batch * experiment.model.context,
              .parameters = parameter_count(experiment.model),
              .policies = {},
              .problems = {}};
    for (const ResolvedPolicy& policy : resolved) {
        plan.policies.push_back(measure(backend, experiment, *data, policy, fp32));
        plan.seconds += plan.policies.back().seconds;
        plan.disk_bytes += plan.policies.back().row_bytes;
    }
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
