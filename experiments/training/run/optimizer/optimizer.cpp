// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/optimizer/optimizer.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/math64.hpp"
#include "experiments/training/run/optimizer/clip_norm.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace macheps::training {

namespace {

// Random streams for rounding unscaled and clipped gradients. They differ from the stream for rounding accumulated
// gradients.
constexpr std::uint32_t unscale_stream = 0x85ebca6bu, clip_stream = 0xc2b2ae35u;

/// Returns true if multiplying by 1 / x and dividing by x give the same result for every fp32 number.
bool is_power_of_two(float x) {
    int exponent = 0;
    return std::frexp(x, &exponent) == 0.5f && std::isnormal(x) && std::isnormal(1.0f / x);
}

/// Divides on the host and rounds each quotient once to fp32. Engines cannot divide a tensor by a number, because no
/// model needs that.
void divide(Backend& backend, View x, float divisor) {
    std::vector<float> values(static_cast<std::size_t>(x.count()));
    backend.download(x, values);
    for (float& value : values) value = static_cast<float>(double{value} / double{divisor});
    backend.upload(values, x);
}

}  // namespace

Optimizer::Optimizer(Backend& backend, const policy::ResolvedPolicy& policy, const TrainOptions& options,
                     Transformer& model, std::uint64_t seed)
    : backend_(backend), policy_(policy), options_(options), model_(model), seed_(seed) {
    for (const auto& parameter : model.parameters()) {
        State state{.parameter = parameter.get(),
                    .master = {},
                    .moment1 = backend.empty(parameter->shape),
                    .moment2 = {},
                    .master_slot = Slot(policy, parameter->name + ":master"),
                    .update_slot = Slot(policy, parameter->name + ":update"),
                    .moment1_slot = Slot(policy, parameter->name + ":moment1"),
                    .moment2_slot = Slot(policy, parameter->name + ":moment2"),
                    .decays = parameter->shape.rank() > 1};
        backend.fill(state.moment1, 0.0f);
        if (moments(options.optimizer) > 1) {
            state.moment2 = backend.empty(parameter->shape);
            backend.fill(state.moment2, 0.0f);
        }
        if (policy.has_master(parameter->name)) {
            state.master = backend.empty(parameter->shape);
            backend.cast(parameter->value, state.master, keyed(drawn_to_nearest(state.master_slot), 0));
        }
        states_.push_back(std::move(state));
    }
}

ConstView Optimizer::best_value(std::size_t parameter) const {
    const State& state = states_[parameter];
    return state.master.empty() ? state.parameter->value.view() : state.master.view();
}

/// Calls tensor(name, view) for every tensor of the state, in the order of the sites.
template <class Visitor>
void Optimizer::visit_state(Visitor&& tensor) const {
    for (const State& state : states_) {
        const std::string& name = state.parameter->name;
        tensor(name + ":value", state.parameter->value.view());
        if (!state.master.empty()) tensor(name + ":master", state.master.view());
        tensor(name + ":moment1", state.moment1.view());
        if (!state.moment2.empty()) tensor(name + ":moment2", state.moment2.view());
    }
}

void Optimizer::save(Checkpoint& checkpoint) const {
    checkpoint.optimizer = {beta1_power_, beta2_power_};
    if (policy_.training.rate_waits.value_or(false)) checkpoint.optimizer.push_back(static_cast<double>(taken_));
    checkpoint.state.clear();
    visit_state([&](const std::string& name, View view) {
        Checkpoint::State tensor{.name = name, .shape = {}, .values = {}};
        for (int i = 0; i < view.shape.rank(); ++i) tensor.shape.push_back(view.shape[i]);
        tensor.values.resize(static_cast<std::size_t>(view.count()));
        backend_.download(view, tensor.values);
        checkpoint.state.push_back(std::move(tensor));
    });
}

void Optimizer::load(const Checkpoint& checkpoint) {
    beta1_power_ = checkpoint.optimizer[0];
    beta2_power_ = checkpoint.optimizer[1];
    if (checkpoint.optimizer.size() > 2) taken_ = static_cast<std::int64_t>(checkpoint.optimizer[2]);
    auto next = checkpoint.state.begin();
    visit_state([&](const std::string&, View view) { backend_.upload((next++)->values, view); });
    model_.parameters_changed();
}

void check_state(const Checkpoint& checkpoint, const policy::SiteList& model, const TrainOptions& options,
                 const policy::ResolvedPolicy& policy) {
    std::vector<std::pair<std::string, std::int64_t>> wanted;
    for (const policy::Parameter& parameter : model.parameters) {
        const auto add = [&](const char* slot) { wanted.emplace_back(parameter.name + slot, parameter.count); };
        add(":value");
        if (policy.has_master(parameter.name)) add(":master");
        add(":moment1");
        if (moments(options.optimizer) > 1) add(":moment2");
    }
    for (const auto& [slot, size] : AmaxHistories::layout(policy)) {
        wanted.emplace_back(slot + std::string(history_ending), static_cast<std::int64_t>(size));
    }
    const auto refuse = [&](const std::string& what) { throw Error({.what = what, .where = checkpoint.run}); };
    if (!policy::make_loss_scaler(policy.loss_scaler)->load(checkpoint.loss_scaler)) {
        refuse("the checkpoint is from another loss scaler");
    }
    const std::size_t numbers = policy.training.rate_waits.value_or(false) ? 3 : 2;
    if (checkpoint.state.size() != wanted.size() || checkpoint.optimizer.size() != numbers) {
        refuse(
            fmt::format("the checkpoint has {} tensors, but the run has {}", checkpoint.state.size(), wanted.size()));
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Checkpoint::State& tensor = checkpoint.state[i];
        if (tensor.name != wanted[i].first || static_cast<std::int64_t>(tensor.values.size()) != wanted[i].second) {
            refuse(fmt::format("the checkpoint has {} values of {}, but the run has {} values of {}",
                               tensor.values.size(), tensor.name, wanted[i].second, wanted[i].first));
        }
    }
}

Cast Optimizer::keyed(const Slot& slot, std::int64_t step_index) const {
    return {.format = slot.rule.format,
            .round = slot.rule.round,
            .overflow = slot.rule.overflow,
            .key = {seed_, static_cast<std::uint32_t>(step_index), slot.id},
            .random_bits = slot.rule.random_bits};
}

/// Returns true if the check of a loss scaler finds an Inf or NaN in the gradient. With `in_sum`, the scaler adds the
/// elements in fp32 and checks the sum, which may overflow even if all elements are finite. The sum is not computed if
/// even the largest numbers of the gradient's format cannot make it overflow.
bool Optimizer::overflows(const ParameterState& parameter, bool in_sum) const {
    const View gradient = parameter.grad;
    if (backend_.any_nonfinite(gradient)) return true;
    const Format format = parameter.sum_slot().rule.format;
    const double largest_sum = decode64(format, format.max_finite_code()) * static_cast<double>(gradient.count());
    if (!in_sum || largest_sum <= std::numeric_limits<float>::max()) return false;
    std::vector<float> values(static_cast<std::size_t>(gradient.count()));
    backend_.download(gradient, values);
    return !std::isfinite(std::accumulate(values.begin(), values.end(), 0.0f));
}

/// Scales a gradient as `by` specifies. Unless `by.widens` is set, rounds each result as the slot of the gradient
/// specifies, with random bits from the separate stream `stream`.
void Optimizer::scale_gradient(State& state, policy::Unscaling by, std::int64_t step_index, std::uint32_t stream) {
    const View g = state.parameter->grad;
    if (!by.divides) {
        backend_.scale(g, by.factor, g);
    } else if (is_power_of_two(by.factor)) {
        backend_.scale(g, 1.0f / by.factor, g);
    } else {
        divide(backend_, g, by.factor);
    }
    const Slot& slot = state.parameter->sum_slot();
    if (by.widens || slot.rule.is_identity()) return;
    Cast cast = keyed(slot, step_index);
    cast.key.site ^= stream;
    backend_.cast(g, g, cast);
}

/// Unscales the gradients, unless the factor is 1.
void Optimizer::unscale(policy::Unscaling by, std::int64_t step_index) {
    if (by.factor == 1.0f) return;
    for (State& state : states_) scale_gradient(state, by, step_index, unscale_stream);
}

/// Returns the norm of the current gradients, added tensor by tensor in site order.
float Optimizer::norm(const policy::ClipFormula& formula, bool widened) const {
    const bool is_rounded = formula.in_grad_format && !widened;
    NormOfTensors norm(formula);
    for (const State& state : states_) {
        const View g = state.parameter->grad;
        // The norm must include non-finite elements. compare(), which sums in fp64, skips them; sum_of_squares(), which
        // sums in fp32, does not.
        const bool is_wide = formula.norm == policy::ClipFormula::Norm::tensors_fp64 && !backend_.any_nonfinite(g);
        const Format format = is_rounded ? state.parameter->sum_slot().rule.format : fp32;
        norm.add(is_wide ? backend_.compare(g, g).x2 : double{backend_.sum_of_squares(g)}, format);
    }
    return norm.result();
}

/// Clips the gradients. A factor of 1 is skipped, because multiplying by 1 changes no value.
void Optimizer::clip(const policy::ClipFormula& formula, float norm, bool widened, std::int64_t step_index) {
    if (options_.clip <= 0) return;
    for (State& state : states_) {
        const bool is_rounded = formula.in_grad_format && !widened;
        const Format format = is_rounded ? state.parameter->sum_slot().rule.format : fp32;
        const policy::Unscaling by{.factor = clip_coefficient(formula, norm, options_.clip, format), .widens = widened};
        if (by.factor != 1.0f) scale_gradient(state, by, step_index, clip_stream);
    }
}

/// Unscales the gradients and, unless the step is skipped, clips them. Returns the norm of the unscaled gradients.
float Optimizer::unscale_and_clip(policy::Unscaling by, std::int64_t step_index, bool is_skipped) {
    const policy::ClipFormula& formula = policy_.training.clip_formula();
    by.widens = by.widens || formula.widens;
    if (!formula.is_combined || by.divides) {
        unscale(by, step_index);
        const float unscaled = norm(formula, by.widens);
        if (!is_skipped) clip(formula, unscaled, by.widens, step_index);
        return unscaled;
    }
    const double undone = by.scale * options_.token_weight;
    const float scaled = norm(formula, by.widens);
    const float unscaled = scaled / static_cast<float>(undone);
    if (!is_skipped && options_.clip > 0) by.factor = combined_factor(unscaled, undone, options_.clip);
    unscale(by, step_index);
    return unscaled;
}

double Optimizer::rate(std::int64_t step_index) const {
    return learning_rate(options_, policy_.training.rate_waits.value_or(false) ? taken_ : step_index);
}

/// Returns the constants for the Adam kernels of torch, Apex and DeepSpeed.
Adam Optimizer::adam_constants(double lr) const {
    return {.kernel = engine_kernel(policy_.training.adam_kernel()),
            .lr = lr,
            .beta1 = options_.beta1,
            .beta2 = options_.beta2,
            .eps = options_.eps,
            .weight_decay = options_.weight_decay,
            .bias_correction1 = 1.0 - beta1_power_,
            .bias_correction2 = 1.0 - beta2_power_,
            .adds_decay_to_gradient = options_.optimizer == policy::OptimizerKind::adam,
            .arithmetic = policy_.optimizer_arithmetic};
}

AdamW Optimizer::adamw_constants(double lr) const {
    return {.beta1 = static_cast<float>(options_.beta1),
            .one_minus_beta1 = static_cast<float>(1.0 - options_.beta1),
            .beta2 = static_cast<float>(options_.beta2),
            .one_minus_beta2 = static_cast<float>(1.0 - options_.beta2),
            .eps = static_cast<float>(options_.eps),
            .step_size = static_cast<float>(lr / (1.0 - beta1_power_)),
            .sqrt_bias2 = static_cast<float>(macheps::sqrt(1.0 - beta2_power_)),
            .decay = static_cast<float>(lr * options_.weight_decay),
            .arithmetic = policy_.optimizer_arithmetic};
}

void Optimizer::update(State& state, std::int64_t step_index, UpdateStats& total) {
    ParameterState& parameter = *state.parameter;
    const bool has_master = !state.master.empty();
    const View target = has_master ? state.master.view() : parameter.value.view();
    const Cast value_cast = keyed(has_master ? state.master_slot : parameter.value_slot, step_index);
    UpdateStats stats;
    const double lr = rate(step_index);
    if (has_kernel(policy_.training, options_)) {
        Adam args = adam_constants(lr);
        if (!state.decays) args.weight_decay = 0;
        if (policy_.training.adam_kernel().name != "plain") args.arithmetic = value_cast.format;
        args.value_cast = value_cast;
        args.moment1_cast = keyed(state.moment1_slot, step_index);
        args.moment2_cast = keyed(state.moment2_slot, step_index);
        backend_.adam(target, parameter.grad, state.moment1, state.moment2, args, &stats);
    } else if (options_.optimizer == policy::OptimizerKind::adamw) {
        AdamW args = adamw_constants(lr);
        if (!state.decays) args.decay = 0;
        args.value_cast = value_cast;
        args.update_cast = keyed(state.update_slot, step_index);
        args.moment1_cast = keyed(state.moment1_slot, step_index);
        args.moment2_cast = keyed(state.moment2_slot, step_index);
        backend_.adamw(target, parameter.grad, state.moment1, state.moment2, args, &stats);
    } else {
        const Sgd args{.lr = static_cast<float>(lr),
                       .momentum = static_cast<float>(options_.momentum),
                       .decay = state.decays ? static_cast<float>(options_.weight_decay) : 0.0f,
                       .value_cast = value_cast,
                       .update_cast = keyed(state.update_slot, step_index)};
        backend_.sgd(target, parameter.grad, state.moment1, args, &stats);
    }
    if (has_master) backend_.cast(state.master, parameter.value, keyed(parameter.value_slot, step_index));
    total.count += stats.count;
    total.nonzero += stats.nonzero;
    total.lost += stats.lost;
    total.frozen += stats.frozen;
    total.wanted2 += stats.wanted2;
    total.moved2 += stats.moved2;
    total.moved_wanted += stats.moved_wanted;
}

StepOutcome Optimizer::step(std::int64_t step_index, policy::LossScaler& scaler) {
    StepOutcome outcome;
    bool found_inf = false;
    for (const State& state : states_) found_inf = found_inf || overflows(*state.parameter, scaler.checks_sums());
    // The token weight is a power of two, so dividing by it causes no rounding error.
    policy::Unscaling by = scaler.unscaling(found_inf);
    by.factor *= static_cast<float>(by.divides ? options_.token_weight : 1.0 / options_.token_weight);
    outcome.lr = rate(step_index);
    outcome.skipped = found_inf && scaler.skips();
    outcome.grad_norm = unscale_and_clip(by, step_index, outcome.skipped);
    if (!outcome.skipped) {
        beta1_power_ *= power_base(policy_.training, options_.beta1);
        beta2_power_ *= power_base(policy_.training, options_.beta2);
        for (State& state : states_) update(state, step_index, outcome.updates);
        model_.parameters_changed();
        ++taken_;
    }
    scaler.update(found_inf);
    return outcome;
}

}  // namespace macheps::training
