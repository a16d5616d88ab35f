// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/trainer.hpp"

#include "core/host/float_environment.hpp"
#include "core/text/json.hpp"
#include "experiments/training/model/matmul_formats.hpp"
#include "experiments/training/model/memory.hpp"
#include "experiments/training/run/directory/site_hash.hpp"
#include "experiments/training/run/evaluator.hpp"
#include "experiments/training/run/watch/gradient_shadow.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace macheps::training {

namespace {

class Trainer {
  public:
    Trainer(Backend& backend, const RunRequest& request, RunRows& rows)
        : backend_(backend),
          request_(request),
          setup_(request.setup),
          options_(request.setup.options),
          rows_(rows),
          step_(backend, setup_),
          evaluator_(backend, setup_, options_.eval_batches) {
        if (request.hashes == nullptr) return;
        hasher_.emplace(backend, setup_.name(), *request.hashes, step_.observer());
        step_.attach(*hasher_);
    }

    RunResult train() {
        if (request_.start != nullptr) resume(*request_.start);
        const std::int64_t first = request_.start != nullptr ? request_.start->step : 0;
        for (std::int64_t step = first; step < options_.steps; ++step) {
            const bool is_stopped =
                rows_.is_abandoned() || (request_.stop != nullptr && request_.stop->load(std::memory_order_relaxed));
            const bool is_due = request_.save_every > 0 && step % request_.save_every == 0;
            if (step > first && (is_stopped || is_due)) save(step);
            if (is_stopped) return stopped();
            const Ends before = ends();
            try {
                if (options_.eval_every > 0 && step % options_.eval_every == 0) evaluate(step);
                if (one_step(step)) continue;
            } catch (const Abandoned&) {
                if (step > first) save(step, before);
                return stopped();
            }
            if (result_.status.empty()) result_.status = "diverged";
            diverged_step_ = step;
            break;
        }
        if (result_.status.empty()) {
            const Ends before = ends();
            try {
                evaluate(options_.steps);
            } catch (const Abandoned&) {
                if (options_.steps > first) save(options_.steps, before);
                return stopped();
            }
            result_.status = "ok";
        }
        rows_.end_run(run_row());
        return std::move(result_);
    }

  private:
    void evaluate(std::int64_t step) { rows_.append(evaluator_.evaluate(step, step_)); }

    /// The current ends of the row files, or nullopt while the rows are still held in memory. The files contain all
    /// rows of earlier steps.
    using Ends = std::optional<std::array<reports::csv::FileMark, row_files.size()>>;
    Ends ends() const { return rows_.is_open() ? Ends(rows_.marks()) : std::nullopt; }

    RunResult stopped() {
        result_.status = "stopped";
        return std::move(result_);
    }

    void save(std::int64_t step) {
        if (!rows_.is_open()) return;  // a checkpoint can only refer to rows that are in the files
        rows_.flush();
        save(step, ends());
    }
    void save(std::int64_t step, const Ends& ends) {
        if (!request_.save || !ends) return;
        Checkpoint checkpoint{.run = setup_.name(),
                              .step = step,
                              .seconds = seconds_,
                              .optimizer = {},
                              .loss_scaler = {},
                              .files = *ends,
                              .state = {}};
        step_.save(checkpoint);
        request_.save(std::move(checkpoint));
    }

    void resume(const Checkpoint& checkpoint) {
        for (const reports::StepRow& row : request_.steps_done) count(row.loss, row.skipped);
        seconds_ = checkpoint.seconds;
        step_.load(checkpoint);
    }

    void count(double loss, bool skipped) {
        result_.losses.push_back(loss);
        skipped_ += skipped ? 1 : 0;
        if (std::isfinite(loss)) best_loss_ = best_loss_ ? min_of(*best_loss_, loss) : loss;
    }

    /// Returns false if the run cannot continue: either the loss is not finite in a step that was not skipped, or the
    /// loss scaler raised an error, as its framework does.
    bool one_step(std::int64_t step) {
        std::optional<StepDump> dump;
        if (request_.dump != nullptr && request_.dump->step == step) {
            dump.emplace(backend_, step_.observer());
            dump->add_state(step_.optimizer(), "");
            step_.attach(*dump);
        }
        std::optional<GradientShadow> shadow;
        if (!request_.is_baseline && sampling_of(options_, step) != Sampling::counts) {
            shadow.emplace(backend_, setup_, evaluator_.fp32_model(), step_);
            step_.attach(*shadow);
        }
        StepResult result;
        try {
            result = step_.run(step);
        } catch (const policy::ScalerRaised& raised) {
            if (shadow) step_.release();
            if (dump) step_.release();
            result_.status = fmt::format("failed: {}", raised.what());
            return false;
        }
        if (shadow) step_.release();
        if (hasher_) hasher_->add_update(step_.model(), step_.optimizer());
        if (dump) {
            step_.release();
            write_dump(*dump, result);
        }
        seconds_ += result.seconds;
        count(result.loss, result.outcome.skipped);
        write_rows(result, shadow ? &*shadow : nullptr);
        if (request_.on_step) request_.on_step(step, result.loss);
        return std::isfinite(result.loss) || result.outcome.skipped;
    }

    /// Adds the results that StepDump cannot collect while it watches the step, and writes the file of the dump.
    void write_dump(StepDump& dump, const StepResult& result) {
        dump.add_gradients(step_.model(), ".applied");
        dump.add_state(step_.optimizer(), ".after");
        dump.add_scalar("loss", result.loss);
        dump.add_scalar("loss_rounded", result.loss_rounded);
        dump.add_scalar("loss_scale", result.loss_scale);
        dump.add_scalar("grad_norm", result.outcome.grad_norm);
        dump.add_scalar("lr", result.outcome.lr);
        dump.add_scalar("skipped", static_cast<std::uint8_t>(result.outcome.skipped));
        auto metadata = request_.dump->metadata;
        metadata["run"] = setup_.name();
        metadata["policy"] = setup_.policy.name;
        metadata["seed"] = std::to_string(setup_.seed);
        metadata["step"] = std::to_string(result.step);
        if (step_.ranks().count() > 1) metadata["buckets"] = bucket_names();
        dump.write(request_.dump->file, setup_.rank_batch(), setup_.model.context, metadata);
        result_.dumped = true;
    }

    /// Returns the reduction buckets as a JSON list. Each bucket is a list of the names of its parameters, whose
    /// gradients are reduced as one vector.
    std::string bucket_names() {
        std::vector<std::vector<std::string>> buckets;
        for (const ReduceBucket& bucket : step_.ranks().buckets()) {
            std::vector<std::string>& names = buckets.emplace_back();
            for (const std::size_t p : bucket.parameters) names.push_back(step_.model().parameters()[p]->name);
        }
        return Json(buckets).dump();
    }

    /// `shadow` is null if the step was not compared with fp32.
    void write_rows(const StepResult& result, const GradientShadow* shadow) {
        reports::StepRow step = step_.row(result, baseline_loss(result));
        if (shadow != nullptr && !shadow->divergence().farthest.empty()) {
            const SiteDivergence& sites = shadow->divergence();
            step.first_diverging_site = sites.first, step.farthest_site = sites.farthest;
            step.farthest_distance = sites.distance;
        }
        if (const auto gradient = shadow != nullptr ? shadow->result() : std::nullopt) {
            step.grad_cosine = gradient->cosine, step.grad_proj = gradient->proj, step.grad_snr_db = gradient->snr_db;
            step.grad_cosine_least = gradient->min_cosine, step.grad_least_parameter = gradient->min_parameter;
        }
        rows_.append(step);
        if (request_.hashes != nullptr) request_.hashes->flush();
        const std::string& policy = setup_.policy.name;
        for (const reports::SiteRow& row : step_.probe().site_rows(setup_.name(), policy, setup_.seed, result.step))
            rows_.append(row);
        for (const reports::ExponentRow& row : step_.probe().exponent_rows(setup_.name(), result.step))
            rows_.append(row);
        rows_.flush();
    }

    std::optional<double> baseline_loss(const StepResult& result) const {
        const auto step = static_cast<std::size_t>(result.step);
        if (request_.is_baseline) return result.loss;
        if (request_.baseline == nullptr || step >= request_.baseline->size()) return std::nullopt;
        return (*request_.baseline)[step];
    }

    reports::RunRow run_row() const {
        const auto steps = static_cast<std::int64_t>(result_.losses.size());
        const std::int64_t tokens = setup_.tokens(steps);
        const policy::SiteList sites = model_sites(setup_.model);
        const MemoryEstimate bytes =
            estimate_memory(sites, setup_.policy, setup_.rank_batch(), moments(options_.optimizer), options_.recompute);
        reports::RunRow row{.run = setup_.name(),
                            .policy = setup_.policy.name,
                            .seed = setup_.seed,
                            .status = result_.status,
                            .steps = steps,
                            .tokens = tokens,
                            .skipped_steps = skipped_};
        if (steps > 0) row.final_loss = result_.losses.back();
        row.best_loss = best_loss_;
        row.diverged_step = diverged_step_;
        row.seconds = seconds_;
        row.tokens_per_second = seconds_ > 0 ? static_cast<double>(tokens) / seconds_ : 0;
        row.bytes_params = bytes.parameters;
        row.bytes_grads = bytes.gradients;
        row.bytes_master = bytes.master;
        row.bytes_optimizer = bytes.optimizer;
        row.bytes_activations = bytes.activations;
        row.parameters = parameter_count(setup_.model);
        row.matmul_formats = matmul_formats(setup_.model, sites, setup_.policy);
        const auto [low, asked] = setup_.policy.low_linears();
        row.low_linears = low;
        row.asked_linears = asked;
        if (const std::string stress = policy::stress_text(setup_.policy.training); !stress.empty())
            row.stress = stress;
        return row;
    }

    Backend& backend_;
    const RunRequest& request_;
    const RunSetup& setup_;
    const TrainOptions& options_;
    RunRows& rows_;
    Step step_;
    Evaluator evaluator_;
    std::optional<SiteHasher> hasher_;
    RunResult result_;
    std::int64_t skipped_ = 0;
    std::optional<std::int64_t> diverged_step_;
    std::optional<double> best_loss_;
    double seconds_ = 0;
};

}  // namespace

RunResult train(Backend& backend, const RunRequest& request, RunRows& rows) {
    const DefaultFloatModes modes;
    return Trainer(backend, request, rows).train();
}

}  // namespace macheps::training
