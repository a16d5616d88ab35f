// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/step.hpp"

#include "core/error.hpp"
#include "core/math64.hpp"

#include <fmt/format.h>

#include <chrono>

namespace macheps::training {

namespace {

Transformer& initialised(Transformer& model, std::uint64_t seed) {
    model.initialise(seed);
    return model;
}

}  // namespace

std::string run_name(const std::string& policy, std::int64_t seed) { return fmt::format("{}/{}", policy, seed); }

Sampling sampling_of(const TrainOptions& o, std::int64_t step) {
    if (o.probe_every <= 0 || step % o.probe_every != 0) return Sampling::counts;
    return o.histogram_every > 0 && step % o.histogram_every == 0 ? Sampling::histograms : Sampling::sites;
}

Step::Step(Backend& backend, const RunSetup& setup)
    : backend_(backend),
      setup_(setup),
      model_(backend, setup.model, setup.rank_batch(), setup.policy, setup.stream_seed()),
      scaler_(policy::make_loss_scaler(setup.policy.loss_scaler)),
      probe_(backend),
      optimizer_(backend, setup.policy, setup.options, initialised(model_, setup.stream_seed()), setup.stream_seed()),
      ranks_(backend, setup.policy, model_, setup.options.ranks, setup.stream_seed()),
      tokens_(backend.empty_tokens({setup.rank_batch(), setup.model.context})),
      targets_(backend.empty_tokens({setup.rank_batch(), setup.model.context})) {
    model_.recompute(setup.options.recompute);
    if (setup.options.probe_every > 0) model_.rounder().observe(&probe_);
}

void Step::attach(StepWatcher& watcher) {
    watchers_.push_back(&watcher);
    model_.rounder().observe(&watcher);
}

void Step::release() {
    model_.rounder().observe(watchers_.back()->next());
    watchers_.pop_back();
}

/// Uploads and returns the samples of one part. A part is the share of one rank in one micro-batch. `part` is the index
/// of the part in the whole run.
Batch Step::upload(std::int64_t part) {
    const std::int64_t drawn = setup_.draws(), parts = drawn / setup_.rank_batch();
    if (const std::int64_t draw = part / parts; draw != draw_) {
        drawn_ = setup_.data.batch(Split::train, setup_.stream_seed(), static_cast<std::uint32_t>(draw), drawn,
                                   setup_.model.context);
        draw_ = draw;
    }
    Batch batch = drawn_;
    keep_part(batch, part % parts, parts);
    backend_.upload(batch.tokens, tokens_);
    backend_.upload(batch.targets, targets_);
    return batch;
}

/// Runs the forward and backward passes of all micro-batches of each rank. Then replaces the gradients by their mean
/// over the ranks, and sets the mean losses in `result`.
void Step::accumulate_gradients(StepResult& result) {
    const StopScope scope(model_.rounder(), setup_.stop_now);
    // The weights are cast again in every step, even if the last step was skipped and left them unchanged. If they were
    // not, the casts would depend on whether an evaluation took place between the last step and this step.
    model_.parameters_changed();
    const auto parts = static_cast<float>(setup_.options.micro_batches);
    // Follows torch, which divides the loss by the number of micro-batches and then scales it. In the backward pass,
    // the order is reversed: the scale is divided by the number of micro-batches.
    const auto scale = static_cast<float>(scaler_->scale());
    const float factor = scale * static_cast<float>(setup_.options.token_weight) / parts;
    const std::int64_t ranks = ranks_.count(), micro_batches = setup_.options.micro_batches;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        model_.clear_gradients();
        for (std::int64_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
            // Each micro-batch is split among the ranks, in the order of the ranks.
            const std::int64_t part = micro_batch * ranks + rank;
            const Batch batch = upload(result.step * micro_batches * ranks + part);
            model_.rounder().begin(static_cast<std::uint32_t>(result.step), static_cast<std::uint32_t>(part));
            for (StepWatcher* watcher : watchers_) watcher->on_batch(result.step, part, batch);
            const Loss loss = model_.forward(tokens_, targets_);
            result.loss += loss.exact;
            result.loss_rounded += loss.rounded / (parts * static_cast<float>(ranks));
            model_.backward(factor);
            model_.end_micro_batch();
            // All ranks share one scale, computed from the largest amax of any rank (reduce_amax). The scale is
            // therefore updated after the last rank.
            if (rank + 1 == ranks) model_.rounder().histories().update();
        }
        if (ranks > 1) {
            for (StepWatcher* watcher : watchers_) watcher->on_rank(model_, rank);
        }
        ranks_.keep(rank);
    }
    ranks_.reduce(result.step, observer());
    result.loss /= static_cast<double>(micro_batches * ranks);
}

StepResult Step::run(std::int64_t step, Sampling sampling) {
    const auto start = std::chrono::steady_clock::now();
    probe_.begin(sampling != Sampling::counts, sampling == Sampling::histograms);
    StepResult result{.step = step, .loss_scale = static_cast<float>(scaler_->scale())};
    const AmaxHistories before = model_.rounder().histories();
    try {
        accumulate_gradients(result);
    } catch (const Abandoned&) {
        model_.rounder().histories() = before;  // when resumed, the step runs again from the start
        throw;
    }
    for (StepWatcher* watcher : watchers_) watcher->on_gradients(model_);
    result.outcome = optimizer_.step(step, *scaler_);
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
}

reports::StepRow Step::row(const StepResult& result, std::optional<double> baseline_loss) const {
    const UpdateStats& u = result.outcome.updates;
    const auto share = [](std::uint64_t part, std::uint64_t all) {
        return all > 0 ? std::optional(static_cast<double>(part) / static_cast<double>(all)) : std::nullopt;
    };
    const bool has_moment2 = moments(setup_.options.optimizer) > 1;
    const auto efficiency = u.wanted2 > 0 ? std::optional(u.moved_wanted / u.wanted2) : std::nullopt;
    return {.run = setup_.name(),
            .policy = setup_.policy.name,
            .seed = setup_.seed,
            .step = result.step,
            .tokens = setup_.tokens(result.step + 1),
            .loss = result.loss,
            .baseline_loss = baseline_loss,
            .gap = baseline_loss ? std::optional(result.loss - *baseline_loss) : std::nullopt,
            .grad_norm = result.outcome.grad_norm,
            .update_norm = static_cast<float>(sqrt(u.moved2)),
            .lr = static_cast<float>(result.outcome.lr),
            .loss_scale = result.loss_scale,
            .growth_tracker = scaler_->growth_tracker(),
            .skipped = result.outcome.skipped,
            .overflow_site = probe_.overflow_site(),
            .underflow = probe_.total().underflow,
            .overflow = probe_.total().overflow,
            .saturated = probe_.total().saturated,
            .lost_updates = u.lost,
            .update_eff = efficiency,
            .loss_rounded = result.loss_rounded,
            .update_stagnation = share(u.lost, u.nonzero),
            .effective_lr = efficiency ? std::optional(result.outcome.lr * *efficiency) : std::nullopt,
            .moment_stagnation = has_moment2 ? share(u.frozen, u.count) : std::nullopt};
}

void Step::save(Checkpoint& checkpoint) const {
    checkpoint.loss_scaler = scaler_->state();
    optimizer_.save(checkpoint);
    for (auto& [slot, state] : model_.rounder().histories().state()) {
        checkpoint.state.push_back({.name = slot + std::string(history_ending),
                                    .shape = {static_cast<std::int64_t>(state.size())},
                                    .values = state});
    }
}

void Step::load(const Checkpoint& checkpoint) {
    if (!scaler_->load(checkpoint.loss_scaler)) {
        throw Error({.what = "the checkpoint is from another loss scaler", .where = setup_.name()});
    }
    optimizer_.load(checkpoint);
    for (const Checkpoint::State& each : checkpoint.state) {
        if (!each.name.ends_with(history_ending)) continue;
        model_.rounder().histories().load(each.name.substr(0, each.name.size() - history_ending.size()), each.values);
    }
}

}  // namespace macheps::training
