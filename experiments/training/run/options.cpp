// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/options.hpp"

#include "core/field_error.hpp"
#include "core/hd.hpp"
#include "core/math64.hpp"
#include "experiments/training/model/config.hpp"

#include <fmt/format.h>

#include <cmath>

namespace macheps::training {

void validate(const TrainOptions& o) {
    const auto refuse = [](const char* field, const std::string& what, const char* fix) {
        throw FieldError(field, what, fix);
    };
    check_range("steps", o.steps, 1, max_steps);
    check_range("batch", o.batch, 1, max_size);
    check_range("micro_batches", o.micro_batches, 1, max_size);
    check_range("ranks", o.ranks, 1, max_ranks);
    if (o.batch % o.ranks != 0) {
        refuse("ranks", fmt::format("{} ranks do not divide a micro-batch of {} samples", o.ranks, o.batch),
               "use a divisor of `batch`, or change `batch`");
    }
    check_range("warmup", o.warmup, 0, max_steps);
    check_range("eval_every", o.eval_every, 0, max_steps);
    check_range("eval_batches", o.eval_batches, 1, max_size);
    check_range("probe_every", o.probe_every, 0, max_steps);
    check_range("histogram_every", o.histogram_every, 0, max_steps);
    const auto no_less_than_0 = [&](const char* field, double value) {
        if (!(value >= 0) || !std::isfinite(value))
            refuse(field, fmt::format("{} is not a valid value", value), "use 0 or more");
    };
    no_less_than_0("clip", o.clip);
    no_less_than_0("weight_decay", o.weight_decay);
    no_less_than_0("momentum", o.momentum);
    if (!(o.lr > 0) || !std::isfinite(o.lr))
        refuse("lr", fmt::format("{} is not a valid learning rate", o.lr), "use a positive number");
    if (!(o.min_lr >= 0) || o.min_lr > o.lr)
        refuse("min_lr", fmt::format("{} is not between 0 and the learning rate", o.min_lr), "use at most `lr`");
    int exponent = 0;
    if (!(o.token_weight > 0) || std::frexp(o.token_weight, &exponent) != 0.5 || std::abs(exponent) > 100) {
        refuse("token_weight", fmt::format("{} is not a valid power of two", o.token_weight),
               "use a power of two such as 2^-12, so that undoing it is exact");
    }
}

TrainOptions options_under(const policy::TrainingRecipe& recipe, const TrainOptions& run) {
    TrainOptions o = run;
    o.optimizer = recipe.optimizer.value_or(o.optimizer);
    o.beta1 = recipe.beta1.value_or(o.beta1);
    o.beta2 = recipe.beta2.value_or(o.beta2);
    o.eps = recipe.eps.value_or(o.eps);
    o.weight_decay = recipe.weight_decay.value_or(o.weight_decay);
    o.momentum = recipe.momentum.value_or(o.momentum);
    o.clip = recipe.max_norm.value_or(o.clip);
    if (recipe.lr) {
        o.lr = *recipe.lr;
        o.min_lr = o.lr * (run.min_lr / run.lr);
    }
    if (recipe.micro_batches && run.micro_batches == 1) {
        std::int64_t parts = min_of(*recipe.micro_batches, run.batch);
        while (run.batch % (parts * run.ranks) != 0) --parts;
        o.micro_batches = parts;
        o.batch = run.batch / parts;
    }
    return o;
}

double learning_rate(const TrainOptions& o, std::int64_t step) {
    if (step < o.warmup) return o.lr * static_cast<double>(step + 1) / static_cast<double>(o.warmup);
    if (o.steps <= o.warmup + 1) return o.lr;
    const double progress = static_cast<double>(step - o.warmup) / static_cast<double>(o.steps - 1 - o.warmup);
    return o.min_lr + 0.5 * (o.lr - o.min_lr) * (1.0 + math::cos(3.141592653589793 * min_of(progress, 1.0)));
}

}  // namespace macheps::training
