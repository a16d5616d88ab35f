// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/evaluator.hpp"

#include "core/math64.hpp"

#include <cmath>

namespace macheps::training {

Evaluator::Evaluator(Backend& backend, const RunSetup& setup, std::int64_t batches)
    : backend_(backend),
      setup_(setup),
      fp32_model_(backend, setup.model, setup.rank_batch(), setup.fp32, setup.stream_seed()) {
    const Shape shape{setup.rank_batch(), setup.model.context};
    const std::int64_t parts = setup.draws() / shape[0];
    for (std::int64_t i = 0; i < batches * parts; ++i) {
        Batch batch =
            setup.data.batch(Split::held_out, 0, static_cast<std::uint32_t>(i / parts), setup.draws(), shape[1]);
        keep_part(batch, i % parts, parts);
        tokens_.push_back(backend.empty_tokens(shape));
        targets_.push_back(backend.empty_tokens(shape));
        backend.upload(batch.tokens, tokens_.back());
        backend.upload(batch.targets, targets_.back());
        entropy_floor_ += batch.entropy_floor / static_cast<double>(batches * parts);
    }
}

reports::EvalRow Evaluator::evaluate(std::int64_t step, Step& trained) {
    Transformer& model = trained.model();
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
        backend_.copy(trained.optimizer().best_value(i), fp32_model_.parameters()[i]->value);
    }
    Observer* const told = trained.observer();
    model.rounder().observe(nullptr);
    const double loss = mean_loss(model, step), loss_fp32 = mean_loss(fp32_model_, step);
    model.rounder().observe(told);
    reports::EvalRow row{.run = setup_.name(),
                         .policy = setup_.policy.name,
                         .seed = setup_.seed,
                         .step = step,
                         .eval_loss = loss,
                         .eval_loss_fp32 = loss_fp32,
                         .perplexity = math::exp(loss)};
    if (!std::isnan(entropy_floor_)) row.entropy_floor = entropy_floor_;
    return row;
}

double Evaluator::mean_loss(Transformer& model, std::int64_t step) const {
    const StopScope scope(model.rounder(), setup_.stop_now);
    double sum = 0;
    model.parameters_changed();
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
        model.rounder().begin(static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(i), Pass::evaluation);
        sum += model.forward(tokens_[i], targets_[i]).exact;
    }
    model.parameters_changed();
    return sum / static_cast<double>(tokens_.size());
}

}  // namespace macheps::training
