// SPDX-License-Identifier: Apache-2.0
#include "experiments/train/trainer.hpp"

#include "core/error.hpp"
#include "core/math64.hpp"
#include "experiments/model/memory.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

namespace macheps {

namespace {

/// Loss and its fp32 evaluation, mean over the held-out batches.
class Evaluator {
  public:
    Evaluator(Backend& backend, const RunRequest& request, Transformer& model, Optimizer& optimizer)
        : backend_(backend),
          request_(request),
          model_(model),
          optimizer_(optimizer),
          fp32_model_(backend, request.model, request.options.batch, request.fp32,
                      static_cast<std::uint64_t>(request.seed)) {
        const Shape shape{request.options.batch, request.model.context};
        for (std::int64_t i = 0; i < request.options.eval_batches; ++i) {
            const Batch batch =
                request.data.batch(Split::held_out, 0, static_cast<std::uint32_t>(i), shape[0], shape[1]);
            tokens_.push_back(backend.empty_tokens(shape));
            targets_.push_back(backend.empty_tokens(shape));
            backend.upload(batch.tokens, tokens_.back());
            backend.upload(batch.targets, targets_.back());
            entropy_floor_ += batch.entropy_floor / static_cast<double>(request.options.eval_batches);
        }
    }

    EvalRow evaluate(std::int64_t step) {
        for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
            backend_.copy(optimizer_.best_value(i), fp32_model_.parameters()[i]->value);
        }
        fp32_model_.parameters_changed();
        Observer* observer = model_.rounder().observer();
        model_.rounder().observe(nullptr);
        const double loss = mean_loss(model_), loss_fp32 = mean_loss(fp32_model_);
        model_.rounder().observe(observer);
        EvalRow row{.run = run_name(request_.policy.name, request_.seed),
                    .policy = request_.policy.name,
                    .seed = request_.seed,
                    .step = step,
                    .eval_loss = loss,
                    .eval_loss_fp32 = loss_fp32,
                    .perplexity = math::exp(loss)};
        if (!std::isnan(entropy_floor_)) row.entropy_floor = entropy_floor_;
        return row;
    }

  private:
    double mean_loss(Transformer& model) const {
        double sum = 0;
        for (std::size_t i = 0; i < tokens_.size(); ++i) sum += model.forward(tokens_[i], targets_[i]);
        return sum / static_cast<double>(tokens_.size());
    }

    Backend& backend_;
    const RunRequest& request_;
    Transformer& model_;
    Optimizer& optimizer_;
    Transformer fp32_model_;
    std::vector<TokenTensor> tokens_, targets_;
    double entropy_floor_ = 0;
};

class Run {
  public:
    Run(Backend& backend, const RunRequest& request, RunFiles& files)
        : backend_(backend),
          request_(request),
          options_(request.options),
          files_(files),
          name_(run_name(request.policy.name, request.seed)),
          model_(backend, request.model, options_.batch, request.policy, static_cast<std::uint64_t>(request.seed)),
          scaler_(make_loss_scaler(request.policy.loss_scaler)),
          probe_(backend),
          tokens_(backend.empty_tokens({options_.batch, request.model.context})),
          targets_(backend.empty_tokens({options_.batch, request.model.context})) {
        model_.initialise(static_cast<std::uint64_t>(request.seed));
        optimizer_.emplace(backend, request.policy, options_, model_, static_cast<std::uint64_t>(request.seed));
        evaluator_.emplace(backend, request, model_, *optimizer_);
        if (options_.probe_every > 0) model_.rounder().observe(&probe_);
        if (request.hashes != nullptr) {
            hasher_.emplace(backend, name_, *request.hashes, model_.rounder().observer());
            model_.rounder().observe(&*hasher_);
        }
    }

    RunResult train() {
        if (request_.start != nullptr) resume(*request_.start);
        const std::int64_t first = request_.start != nullptr ? request_.start->step : 0;
        for (std::int64_t step = first; step < options_.steps; ++step) {
            const bool is_stopped = request_.stop != nullptr && request_.stop->load(std::memory_order_relaxed);
            const bool is_due = request_.save_every > 0 && step % request_.save_every == 0;
            if (step > first && (is_stopped || is_due)) save(step);
            if (is_stopped) {
                result_.status = "stopped";
                return std::move(result_);
            }
            if (options_.eval_every > 0 && step % options_.eval_every == 0) evaluate(step);
            if (!one_step(step)) {
                result_.status = "diverged";
                diverged_step_ = step;
                break;
            }
        }
        if (result_.status.empty()) {
            result_.status = "ok";
            evaluate(options_.steps);
        }
        files_.sync_rows();  // a row of runs says that all the others are there
        files_.runs.append(run_row());
        files_.runs.sync();
        return std::move(result_);
    }

  private:
    void evaluate(std::int64_t step) {
        casts_are_made();
        files_.evals.append(evaluator_->evaluate(step));
    }

    void begin(Checkpoint::Place place) {
        place_ = place;
        model_.rounder().begin(static_cast<std::uint32_t>(place.step), static_cast<std::uint32_t>(place.micro_batch));
    }

    /// Before a forward pass: linears keep their casts of weights that have not changed since.
    void casts_are_made() {
        if (!casts_made_) casts_made_ = place_;
    }

    void save(std::int64_t step) {
        if (!request_.save) return;
        files_.flush();
        Checkpoint checkpoint{.run = name_,
                              .step = step,
                              .seconds = seconds_,
                              .optimizer = {},
                              .loss_scaler = scaler_->state(),
                              .casts_made = casts_made_,
                              .files = files_.marks(),
                              .state = {}};
        optimizer_->save(checkpoint);
        request_.save(std::move(checkpoint));
    }

    void resume(const Checkpoint& checkpoint) {
        for (const StepRow& row : request_.steps_done) {
            result_.losses.push_back(row.loss);
            count(row.loss, row.skipped);
        }
        seconds_ = checkpoint.seconds;
        if (!scaler_->load(checkpoint.loss_scaler)) {
            throw Error({.what = "the checkpoint is of another loss scaler", .where = name_});
        }
        optimizer_->load(checkpoint);
        // What a model makes once (casts of weights, tables) is made here, where no observer counts it a second time.
        if (checkpoint.casts_made) begin(*checkpoint.casts_made);
        Observer* observer = model_.rounder().observer();
        model_.rounder().observe(nullptr);
        upload_batch(0);
        model_.forward(tokens_, targets_);
        model_.rounder().observe(observer);
        if (!checkpoint.casts_made) model_.parameters_changed();
        casts_made_ = checkpoint.casts_made;
        begin({checkpoint.step - 1, options_.micro_batches - 1});
    }

    void upload_batch(std::int64_t draw) {
        const Batch batch =
            request_.data.batch(Split::train, static_cast<std::uint64_t>(request_.seed),
                                static_cast<std::uint32_t>(draw), options_.batch, request_.model.context);
        backend_.upload(batch.tokens, tokens_);
        backend_.upload(batch.targets, targets_);
        if (dump_) dump_->add_batch(batch);
    }

    /// The state before the step; the slots' values follow by themselves.
    void begin_dump(std::int64_t step) {
        if (request_.dump == nullptr || request_.dump->step != step) return;
        dump_.emplace(backend_, model_.rounder().observer());
        model_.rounder().observe(&*dump_);
        dump_->add_state(*optimizer_, "");
    }

    void end_dump(std::int64_t step, float loss, float loss_scale, const StepOutcome& outcome) {
        if (!dump_) return;
        model_.rounder().observe(dump_->next());
        dump_->add_gradients(model_, ".applied");
        dump_->add_state(*optimizer_, ".after");
        dump_->add_scalar("loss", loss);
        dump_->add_scalar("loss_scale", loss_scale);
        dump_->add_scalar("grad_norm", outcome.grad_norm);
        dump_->add_scalar("lr", learning_rate(options_, step));
        dump_->add_scalar("skipped", static_cast<std::uint8_t>(outcome.skipped));
        auto metadata = request_.dump->metadata;
        metadata["run"] = name_;
        metadata["policy"] = request_.policy.name;
        metadata["seed"] = std::to_string(request_.seed);
        metadata["step"] = std::to_string(step);
        dump_->write(request_.dump->file, options_.batch, request_.model.context, metadata);
        dump_.reset();
        result_.dumped = true;
    }

    void count(float loss, bool skipped) {
        skipped_ += skipped ? 1 : 0;
        if (std::isfinite(loss)) best_loss_ = best_loss_ ? min_of(*best_loss_, loss) : loss;
    }

    /// Forward and backward over the micro-batches; returns their mean loss.
    float accumulate_gradients(std::int64_t step) {
        model_.clear_gradients();
        const auto parts = static_cast<float>(options_.micro_batches);
        // torch's order: the loss is divided by the number of micro-batches, then scaled.
        const float factor = scaler_->scale() * static_cast<float>(options_.token_weight) / parts;
        float loss = 0;
        for (std::int64_t part = 0; part < options_.micro_batches; ++part) {
            upload_batch(step * options_.micro_batches + part);
            begin({step, part});
            casts_are_made();
            if (hasher_) hasher_->begin(step, part);
            loss += model_.forward(tokens_, targets_) / parts;
            model_.backward(factor);
        }
        return loss;
    }

    /// False when the run cannot go on: the loss is no number and nothing will mend it.
    bool one_step(std::int64_t step) {
        const auto start = std::chrono::steady_clock::now();
        const bool sampling = options_.probe_every > 0 && step % options_.probe_every == 0;
        probe_.begin(sampling, sampling && options_.histogram_every > 0 && step % options_.histogram_every == 0);
        const float loss_scale = scaler_->scale();
        begin_dump(step);
        const float loss = accumulate_gradients(step);
        if (dump_) dump_->add_gradients(model_, "");
        if (hasher_) hasher_->add_gradients(model_, "");
        const StepOutcome outcome = optimizer_->step(step, *scaler_);
        if (hasher_) {
            hasher_->add_gradients(model_, ".applied");
            hasher_->add_state(*optimizer_);
            request_.hashes->flush();
        }
        end_dump(step, loss, loss_scale, outcome);
        if (!outcome.skipped) casts_made_.reset();
        seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

        result_.losses.push_back(loss);
        count(loss, outcome.skipped);
        files_.steps.append(step_row(step, loss, loss_scale, outcome));
        if (sampling) {
            for (const SiteRow& row : probe_.site_rows(name_, request_.policy.name, request_.seed, step))
                files_.sites.append(row);
            for (const ExponentRow& row : probe_.exponent_rows(name_, step)) files_.exponents.append(row);
        }
        files_.flush();
        if (request_.on_step) request_.on_step(step, loss);
        return std::isfinite(loss) || outcome.skipped;
    }

    StepRow step_row(std::int64_t step, float loss, float loss_scale, const StepOutcome& outcome) const {
        const std::vector<float>* baseline = request_.baseline;
        const bool has_baseline = baseline != nullptr && step < static_cast<std::int64_t>(baseline->size());
        std::optional<float> reference;
        if (request_.is_baseline) reference = loss;
        if (has_baseline) reference = (*baseline)[static_cast<std::size_t>(step)];
        const UpdateStats& u = outcome.updates;
        return {.run = name_,
                .policy = request_.policy.name,
                .seed = request_.seed,
                .step = step,
                .tokens = (step + 1) * options_.micro_batches * options_.batch * request_.model.context,
                .loss = loss,
                .baseline_loss = reference,
                .gap = reference ? std::optional(loss - *reference) : std::nullopt,
                .grad_norm = outcome.grad_norm,
                .update_norm = static_cast<float>(sqrt(u.moved2)),
                .lr = static_cast<float>(learning_rate(options_, step)),
                .loss_scale = loss_scale,
                .growth_tracker = scaler_->growth_tracker(),
                .skipped = outcome.skipped,
                .overflow_site = probe_.overflow_site(),
                .underflow = probe_.total().underflow,
                .overflow = probe_.total().overflow,
                .saturated = probe_.total().saturated,
                .lost_updates = u.lost,
                .update_eff = u.wanted2 > 0 ? std::optional(u.moved_wanted / u.wanted2) : std::nullopt};
    }

    RunRow run_row() const {
        const auto steps = static_cast<std::int64_t>(result_.losses.size());
        const std::int64_t tokens = steps * options_.micro_batches * options_.batch * request_.model.context;
        const MemoryEstimate bytes =
            estimate_memory(model_sites(request_.model), request_.policy, options_.batch, moments(options_.optimizer));
        RunRow row{.run = name_,
                   .policy = request_.policy.name,
                   .seed = request_.seed,
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
        return row;
    }

    Backend& backend_;
    const RunRequest& request_;
    const TrainOptions& options_;
    RunFiles& files_;
    std::string name_;
    Transformer model_;
    std::unique_ptr<LossScaler> scaler_;
    Probe probe_;
    std::optional<SiteHasher> hasher_;
    std::optional<StepDump> dump_;  // while the step that was asked for runs
    std::optional<Optimizer> optimizer_;
    std::optional<Evaluator> evaluator_;
    TokenTensor tokens_, targets_;
    RunResult result_;
    std::int64_t skipped_ = 0;
    std::optional<std::int64_t> diverged_step_;
    std::optional<float> best_loss_;
    Checkpoint::Place place_;                      // of the rounder
    std::optional<Checkpoint::Place> casts_made_;  // empty: the weights changed, and no forward pass has run since
    double seconds_ = 0;
};

}  // namespace

RunFiles::RunFiles(const std::filesystem::path& directory)
    : runs(directory / "runs.csv"),
      steps(directory / "steps.csv"),
      evals(directory / "evals.csv"),
      sites(directory / "sites.csv"),
      exponents(directory / "exponents.csv") {}

void RunFiles::flush() {
    steps.flush();
    evals.flush();
    sites.flush();
    exponents.flush();
    runs.flush();
}

std::array<csv::FileMark, 4> RunFiles::marks() const {
    return {steps.mark(), evals.mark(), sites.mark(), exponents.mark()};
}

void RunFiles::sync_rows() {
    steps.sync();
    evals.sync();
    sites.sync();
    exponents.sync();
}

RunResult train(Backend& backend, const RunRequest& request, RunFiles& files) {
    return Run(backend, request, files).train();
}

std::string run_name(const std::string& policy, std::int64_t seed) { return fmt::format("{}/{}", policy, seed); }

}  // namespace macheps
