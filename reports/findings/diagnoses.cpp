// SPDX-License-Identifier: Apache-2.0
// The table of diagnoses, and the functions that look for them in the rows of one run.
#include "reports/findings/diagnosis.hpp"
#include "reports/findings/divergence.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace macheps::reports {

namespace {

using Steps = std::vector<StepRow>;

double median(std::vector<double> values) {
    const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Consecutive steps, beginning at index `first`.
struct Stretch {
    std::size_t first = 0, count = 0;
};

/// Returns the longest stretch of steps for which holds(row, previous) is true, or the first of several equally long
/// stretches. `previous` is the preceding row, or null for the first row of a stretch.
template <class Condition>
Stretch longest(const Steps& steps, Condition holds) {
    Stretch best, now;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const StepRow* before = now.count > 0 ? &steps[i - 1] : nullptr;
        if (holds(steps[i], before)) {
            if (now.count++ == 0) now.first = i;
        } else if (now.count > 0 && holds(steps[i], nullptr)) {
            now = {.first = i, .count = 1};
        } else {
            now = {};
        }
        if (now.count > best.count) best = now;
    }
    return best;
}

/// Finds a loss scale that has reached its minimum. Either consecutive steps overflow at the lowest scale of the run,
/// or the run ended with the error that some frameworks raise at the minimum. If the scaler has no minimum, overflows
/// at a scale below 1 count instead, because such a scale shrinks the gradients.
std::optional<Sighting> scale_at_floor(const RunView& view) {
    const Steps& steps = view.run.steps;
    constexpr std::string_view raised = "scale is at its floor of ";
    double least = HUGE_VAL;
    for (const StepRow& step : steps) least = std::min(least, double(step.loss_scale));
    const auto overflows_there = [&](const StepRow& step, const StepRow*) {
        return step.skipped && (step.loss_scale < 1 || step.loss_scale == least);
    };
    const Stretch stay = longest(steps, overflows_there);
    const std::string& status = view.run.row.status;
    if (const std::size_t at = status.find(raised); status.starts_with("failed:") && at != std::string::npos) {
        std::size_t before = 0;
        while (before < steps.size() && steps[steps.size() - 1 - before].skipped) ++before;
        return Sighting{.step = steps.back().step + 1,
                        .site = steps.back().overflow_site,
                        .figures = {{"scale", std::strtod(status.c_str() + at + raised.size(), nullptr)},
                                    {"skipped", double(before + 1)}}};
    }
    if (stay.count < std::size_t(DiagnosisRules::floor_steps)) return {};
    return Sighting{.step = steps[stay.first].step,
                    .site = steps[stay.first].overflow_site,
                    .figures = {{"scale", least}, {"skipped", double(stay.count)}}};
}

/// Returns the remedy for the skipped steps between `first` and `after` if a smaller initial scale does not help: the
/// scale fell to 1 or to its minimum. Otherwise returns an empty text.
std::string_view remedy_without_scale(const RunView& view, const StepRow& first, const StepRow& after) {
    const std::optional<Sighting> floor = scale_at_floor(view);
    const bool reaches_floor = floor && *floor->step >= first.step && *floor->step <= after.step + 1;
    if (after.loss_scale > 1 && !reaches_floor) return {};
    return "look for the cause of the overflows in the forward pass or in the data, or train in bf16; a smaller "
           "initial scale does not help";
}

std::optional<Sighting> overflow_cascade(const RunView& view) {
    const Steps& steps = view.run.steps;
    const Stretch cascade = longest(steps, [](const StepRow& step, const StepRow*) { return step.skipped; });
    if (cascade.count < std::size_t(DiagnosisRules::cascade_steps)) return {};
    const StepRow& first = steps[cascade.first];
    const StepRow& after = steps[std::min(cascade.first + cascade.count, steps.size() - 1)];
    const double from = first.loss_scale, to = after.loss_scale;
    if (!(to < from)) return {};
    return Sighting{
        .step = first.step,
        .site = first.overflow_site,
        .figures = {{"skipped", double(cascade.count)}, {"from", from}, {"to", to}, {"halvings", std::log2(from / to)}},
        .remedy = remedy_without_scale(view, first, after)};
}

std::optional<Sighting> first_steps_skipped(const RunView& view) {
    const Steps& steps = view.run.steps;
    if (steps.front().step != 0 || !steps.front().skipped) return {};
    std::size_t count = 0;
    while (count < steps.size() && steps[count].skipped) ++count;
    const StepRow& after = steps[std::min(count, steps.size() - 1)];
    return Sighting{.step = 0,
                    .site = steps.front().overflow_site,
                    .figures = {{"skipped", double(count)}, {"lr", after.lr}, {"first_lr", steps.front().lr}},
                    .remedy = remedy_without_scale(view, steps.front(), after)};
}

std::optional<Sighting> schedule_over_skips(const RunView& view) {
    const Steps& steps = view.run.steps;
    double all = 0, skipped = 0;
    std::int64_t count = 0;
    const StepRow* first = nullptr;
    for (const StepRow& step : steps) {
        all += step.lr;
        // A schedule that counts the optimiser's steps does not advance while steps are skipped. Whether it advanced
        // over the last step is not known.
        if (!step.skipped || &step == &steps.back() || (&step + 1)->lr == step.lr) continue;
        skipped += step.lr, ++count;
        if (first == nullptr) first = &step;
    }
    if (first == nullptr || !(skipped > DiagnosisRules::schedule_share * all)) return {};
    return Sighting{
        .step = first->step,
        .figures = {
            {"skipped", double(count)}, {"steps", double(view.run.steps.size())}, {"percent", 100 * skipped / all}}};
}

/// Returns the first step whose gradient was finite but whose update was not, or null if there is none. If the gradient
/// was not finite in an earlier step that was not skipped, that gradient is the cause, and the result is null.
const StepRow* first_division_by_zero(const Steps& steps) {
    for (const StepRow& step : steps) {
        if (step.skipped) continue;
        if (!std::isfinite(step.grad_norm)) return nullptr;
        if (!std::isfinite(step.update_norm)) return &step;
    }
    return nullptr;
}

std::optional<Sighting> division_by_zero(const RunView& view) {
    const StepRow* step = first_division_by_zero(view.run.steps);
    if (step == nullptr) return {};
    return Sighting{.step = step->step, .figures = {{"norm", step->grad_norm}, {"update", step->update_norm}}};
}

std::optional<Sighting> nan_in_loss(const RunView& view) {
    const StepRow* first = nullptr;
    std::int64_t count = 0;
    double shown = NAN;
    for (const StepRow& step : view.run.steps) {
        const bool is_finite = std::isfinite(step.loss) && std::isfinite(step.loss_rounded.value_or(0));
        if (!is_finite) ++count;
        if (!is_finite && first == nullptr) first = &step;
        // A log shows the last finite loss or, if the first loss is not finite, the next finite one.
        if (is_finite && (first == nullptr || std::isnan(shown))) shown = step.loss;
    }
    if (first == nullptr) return {};
    return Sighting{.step = first->step,
                    .site = first->overflow_site,
                    .figures = {{"count", double(count)}, {"steps", double(view.run.steps.size())}, {"shown", shown}}};
}

std::optional<Sighting> nonfinite_update(const RunView& view) {
    // After such a step, the weights are not finite, and neither are the gradients of all later steps.
    if (first_division_by_zero(view.run.steps) != nullptr) return {};
    for (const StepRow& step : view.run.steps) {
        if (step.skipped || std::isfinite(step.grad_norm)) continue;
        return Sighting{.step = step.step,
                        .site = step.overflow_site,
                        .figures = {{"norm", step.grad_norm}, {"scale", step.loss_scale}}};
    }
    return {};
}

std::optional<Sighting> stagnation(const RunView& view) {
    double sum = 0, lost = 0;
    std::size_t count = 0;
    const StepRow* first = nullptr;
    for (const StepRow& step : view.run.steps) {
        if (!step.update_eff || !std::isfinite(*step.update_eff)) continue;
        sum += *step.update_eff, lost += double(step.lost_updates), ++count;
        if (first == nullptr && *step.update_eff < DiagnosisRules::stagnant_efficiency) first = &step;
    }
    if (first == nullptr || !(sum / double(count) < DiagnosisRules::stagnant_efficiency)) return {};
    return Sighting{.step = first->step,
                    .figures = {{"percent", 100 * sum / double(count)}, {"lost", lost / double(count)}}};
}

/// Finds second moments v that stopped changing. If beta2 is close to 1, a narrow format rounds beta2 * v back to v.
/// Then v can grow but never decrease.
std::optional<Sighting> frozen_moments(const RunView& view) {
    const Steps& steps = view.run.steps;
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t i = steps.size() / 2; i < steps.size(); ++i) {
        if (steps[i].moment_stagnation) sum += *steps[i].moment_stagnation, ++count;
    }
    if (count == 0 || !(sum / double(count) > DiagnosisRules::frozen_share)) return {};
    const auto first = std::find_if(steps.begin(), steps.end(), [](const StepRow& step) {
        return step.moment_stagnation.value_or(0) > DiagnosisRules::frozen_share;
    });
    return Sighting{.step = first->step, .figures = {{"percent", 100 * sum / double(count)}}};
}

std::optional<Sighting> no_master(const RunView& view) {
    if (view.baseline == nullptr) return {};
    const RunRow &row = view.run.row, &fp32 = view.baseline->row;
    if (row.bytes_master != 0 || row.bytes_params <= 0 || row.bytes_params >= fp32.bytes_params) return {};
    return Sighting{.figures = {{"bytes", 4 * double(row.bytes_params) / double(fp32.bytes_params)}}};
}

/// Takes a row [site, cast, ...] of the resolved policy in a manifest. Returns the cast if the site ends with `slot`,
/// and otherwise an empty string.
std::string_view cast_at(const Json& row, std::string_view slot) {
    if (!row.is_array() || row.size() < 2 || !row[0].is_string() || !row[1].is_string()) return {};
    return std::string_view(row[0].string()).ends_with(slot) ? std::string_view(row[1].string()) : std::string_view{};
}

std::optional<Sighting> narrow_accumulation(const RunView& view) {
    if (view.train == nullptr || view.policy == nullptr) return {};
    const Json *parts = view.micro_batches != nullptr ? view.micro_batches->find(view.run.row.policy) : nullptr,
               *resolved = view.policy->find("resolved");
    if (parts == nullptr) parts = view.train->find("micro_batches");
    if (parts == nullptr || !parts->is_number_integer() || parts->get<double>() < 2) return {};
    if (resolved == nullptr || !resolved->is_array()) return {};
    // The manifest lists every separate sum, and lists a gradient only if it is rounded.
    std::set<std::string_view> summed;
    const auto parameter_of = [](const Json& row) {
        return std::string_view(row[0].string()).substr(0, row[0].string().rfind(':'));
    };
    for (const Json& row : *resolved) {
        if (!cast_at(row, ":accum").empty() && cast_at(row, ":accum") != "-") summed.insert(parameter_of(row));
    }
    std::int64_t tensors = 0;
    std::string site;
    for (const Json& row : *resolved) {
        const std::string_view grad = cast_at(row, ":grad"), accum = cast_at(row, ":accum");
        const bool adds_here = !accum.empty() || (!grad.empty() && !summed.contains(parameter_of(row)));
        const std::string_view cast = accum.empty() ? grad : accum;
        if (!adds_here || cast == "fp32" || cast == "-") continue;
        if (++tensors == 1) site = row[0].string();
    }
    if (tensors == 0) return {};
    return Sighting{.site = site, .figures = {{"tensors", double(tensors)}, {"parts", parts->get<double>()}}};
}

std::optional<Sighting> activation_overflow(const RunView& view) {
    const WorstSite& worst = view.sites.activation_reach;
    if (!worst.first_step) return {};
    return Sighting{.step = worst.step,
                    .site = worst.site,
                    .figures = {{"percent", 100 * worst.rate}, {"first", double(*worst.first_step)}}};
}

std::optional<Sighting> gradient_underflow(const RunView& view) {
    const WorstSite& worst = view.sites.gradient_underflow;
    if (!worst.first_step) return {};
    return Sighting{.step = worst.step,
                    .site = worst.site,
                    .figures = {{"percent", 100 * worst.rate}, {"first", double(*worst.first_step)}}};
}

std::optional<Sighting> narrow_wire(const RunView& view) {
    const WorstSite& wire = view.sites.wire;
    if (!wire.first_step) return {};
    return Sighting{.step = wire.step, .site = wire.site, .figures = {{"percent", 100 * wire.rate}}};
}

/// Calls visit(row, ratio, next) for each step that was not skipped. `ratio` is the gradient norm divided by the norm
/// of the fp32 run in the same step, and `next` is the next row or null. Leaves out steps whose ratio is not finite and
/// positive.
template <class Visitor>
void each_norm_ratio(const RunView& view, Visitor visit) {
    const Steps &steps = view.run.steps, &fp32 = view.baseline->steps;
    std::size_t at = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        while (at < fp32.size() && fp32[at].step < steps[i].step) ++at;
        if (at == fp32.size()) return;
        const double ratio = double(steps[i].grad_norm) / double(fp32[at].grad_norm);
        if (steps[i].skipped || fp32[at].step != steps[i].step || !std::isfinite(ratio) || ratio <= 0) continue;
        visit(steps[i], ratio, i + 1 < steps.size() ? &steps[i + 1] : nullptr);
    }
}

/// Finds gradients that are clipped before they are unscaled. The recorded norm is then wrong by a factor equal to the
/// loss scale: too large if it is measured before clipping, and too small if it is measured after unscaling.
std::optional<Sighting> clip_before_unscale(const RunView& view) {
    if (view.baseline == nullptr) return {};
    std::vector<double> ratios, off;
    std::int64_t step = 0;
    double scale = 0;
    each_norm_ratio(view, [&](const StepRow& row, double ratio, const StepRow*) {
        if (row.loss_scale < DiagnosisRules::clip_scale) return;
        if (ratios.empty()) step = row.step;
        scale = row.loss_scale;
        ratios.push_back(ratio);
        off.push_back(std::abs(std::abs(std::log2(ratio)) - std::log2(double(row.loss_scale))));
    });
    if (ratios.size() < DiagnosisRules::min_steps || median(off) > DiagnosisRules::clip_tolerance) return {};
    return Sighting{.step = step, .figures = {{"ratio", median(ratios)}, {"scale", scale}}};
}

std::optional<Sighting> half_gradient_on_growth(const RunView& view) {
    if (view.baseline == nullptr) return {};
    std::vector<double> growths, others;
    std::int64_t step = 0;
    each_norm_ratio(view, [&](const StepRow& row, double ratio, const StepRow* next) {
        const bool grows = next != nullptr && next->loss_scale > row.loss_scale;
        if (grows && growths.empty()) step = row.step;
        (grows ? growths : others).push_back(ratio);
    });
    if (growths.size() < DiagnosisRules::min_growths || others.size() < DiagnosisRules::min_steps) return {};
    const double drop = median(growths) / median(others);
    if (drop < 0.4 || drop > 0.6) return {};
    return Sighting{.step = step, .figures = {{"growths", double(growths.size())}, {"drop", drop}}};
}

std::optional<Sighting> layers_left_out(const RunView& view) {
    if (view.policy == nullptr) return {};
    const Json* left_out = view.policy->find("left_out");
    if (left_out == nullptr || !left_out->is_array() || left_out->empty()) return {};
    const Json& first = left_out->front();
    return Sighting{.site = first.is_string() ? first.string() : std::string{},
                    .figures = {{"layers", double(left_out->size())}}};
}

std::optional<Sighting> divergence_after_spike(const RunView& view) {
    std::optional<double> ema;
    double least = HUGE_VAL, min_at_spike = 0, jump = 0;
    const StepRow* spike = nullptr;
    for (const StepRow& step : view.run.steps) {
        if (step.skipped && !std::isfinite(step.loss)) continue;
        if (spike == nullptr && !std::isfinite(step.loss)) return {};  // the diagnosis nan-in-loss reports this case
        if (spike == nullptr && ema && step.loss - *ema > DiagnosisRules::notable_spike) {
            spike = &step, min_at_spike = least, jump = step.loss - *ema;
        }
        constexpr double decay = DivergenceRules::ema_decay;
        ema = ema ? decay * *ema + (1 - decay) * step.loss : step.loss;
        least = std::min(least, *ema);
    }
    // If the average is NaN, this comparison is false, so the NaN counts as a lasting rise.
    if (spike == nullptr || *ema - min_at_spike <= DiagnosisRules::lasting_rise) return {};
    return Sighting{
        .step = spike->step, .site = spike->overflow_site, .figures = {{"jump", jump}, {"rise", *ema - min_at_spike}}};
}

std::optional<Sighting> loss_rounded(const RunView& view) {
    std::set<double> exact, rounded;
    double difference = 0;
    std::size_t count = 0;
    for (const StepRow& step : view.run.steps) {
        if (!step.loss_rounded || !std::isfinite(step.loss) || !std::isfinite(*step.loss_rounded)) continue;
        exact.insert(step.loss), rounded.insert(*step.loss_rounded), ++count;
        difference = std::max(difference, std::abs(step.loss - double(*step.loss_rounded)));
    }
    if (count < DiagnosisRules::min_steps || 2 * rounded.size() > exact.size()) return {};
    return Sighting{
        .figures = {{"values", double(rounded.size())}, {"steps", double(count)}, {"difference", difference}}};
}

constexpr Diagnosis table[] = {
    {"overflow-cascade", Reads::steps, "4 or more consecutive steps were skipped while the loss scale fell",
     "{skipped} consecutive steps were skipped while the loss scale fell from {from} to {to} ({halvings} "
     "{halvings?halving|halvings}), and nothing was learned in them",
     "start with the loss scale at which it ended (init_scale, DeepSpeed's initial_scale_power, Megatron's "
     "--initial-loss-scale); if it happened in the middle of a run, look at the first site that overflowed",
     overflow_cascade},
    {"scale-at-floor", Reads::steps,
     "4 or more consecutive steps overflowed at the smallest loss scale of the run or at a scale below 1, or the "
     "scaler ended the run there",
     "gradients still overflow at a loss scale of {scale}, after {skipped} consecutive "
     "{skipped?overflow|overflows}, so no loss scale helps",
     "look for the cause in the forward pass or in the data, not in the scale: fix the first site that overflowed, or "
     "train in bf16; weights that were trained in bf16 may not fit in fp16",
     scale_at_floor},
    {"first-steps-skipped", Reads::steps, "the first step was skipped",
     "the run began with {skipped} skipped {skipped?step|steps}; the learning rate was {first_lr} at the first step, "
     "and {lr} at the first step of the optimiser; schedulers of torch warn about this",
     "start with a smaller loss scale, or advance the scheduler only after a step of the optimiser",
     first_steps_skipped},
    {"schedule-over-skips", Reads::steps,
     "the steps that were skipped while the learning rate schedule continued had more than 1 % of the sum of all "
     "learning rates",
     "the learning rate schedule continued over {skipped} skipped {skipped?step|steps} (of {steps} steps), which "
     "used up {percent} % of it",
     "let the schedule count steps of the optimiser, not iterations; if a fused optimiser skips steps internally, read "
     "its step counter instead of counting calls",
     schedule_over_skips},
    {"division-by-zero", Reads::steps,
     "in a step that was not skipped, the norm of the update was not finite although the gradient norm was, and no "
     "earlier gradient was the cause",
     "a gradient with norm {norm} gave an update with norm {update}: the optimiser divided by zero, because its second "
     "moment and its eps are 0 in the format of the step",
     "keep master weights and moments in fp32; if everything must stay in fp16, use an eps of 1e-4 (1e-8 is rounded to "
     "0 in fp16, and 1e-7 still allows updates of 40 000 times the learning rate); a loss scaler does not help, "
     "because the gradient is finite",
     division_by_zero},
    {"nan-in-loss", Reads::steps, "the loss of a step was not finite",
     "the loss of {count} of {steps} steps is not finite; a log that leaves such steps out "
     "(logging_nan_inf_filter, on by default) still shows about {shown}",
     "turn off the filter of the log, look at the first site with a NaN or infinity, and look for rows of data in "
     "which every label is masked",
     nan_in_loss},
    {"nonfinite-update", Reads::steps, "a gradient norm was not finite in a step that was not skipped",
     "a gradient with norm {norm}, at a loss scale of {scale}, was applied to the weights, because nothing checked it",
     "use a loss scaler that checks for infinities and NaN and skips such steps; without a scaler, do not clip, and "
     "stop if the norm is not finite",
     nonfinite_update},
    {"stagnation", Reads::steps,
     "the weights moved less than 98 % of the distance that the optimiser asked for (mean of update_eff)",
     "the weights moved {percent} % of the distance that the optimiser asked for: {lost} "
     "{lost?update per step was|updates per step were} below half a unit in the last place of their weights and "
     "changed nothing",
     "keep fp32 master weights, round the weights stochastically, or raise the learning rate", stagnation},
    {"frozen-moments", Reads::moments,
     "in the second half of the steps, more than a fifth of the second moments did not change (mean of "
     "moment_stagnation)",
     "{percent} % of the second moments did not change in the second half of the steps: their decay is below half a "
     "unit in their last place, so the steps of these weights only become smaller",
     "keep the moments in fp32, or use a smaller beta2 (in bf16, all second moments freeze at 0.999 and none at 0.996)",
     frozen_moments},
    {"no-master", Reads::memory, "weights take fewer bytes than in fp32 and have no master copy",
     "weights are stored in {bytes} bytes each and have no wider master copy",
     "load the model in fp32 and use autocast, or use an optimiser with fp32 master weights; if neither is possible, "
     "round stochastically",
     no_master},
    {"narrow-accumulation", Reads::manifest,
     "a step has several micro-batches, and their gradients are added in a format narrower than fp32",
     "the gradients of {parts} micro-batches are added in a narrow format, in {tensors} {tensors?tensor|tensors}",
     "accumulate in fp32 (DeepSpeed: data_types.grad_accum_dtype, whose default depends on the version)",
     narrow_accumulation},
    {"activation-overflow", Reads::sites,
     "a value of the forward pass that was cast without a scale exceeded half of the largest number of its format, or "
     "overflowed",
     "a value of the forward pass first exceeded half of the largest finite number of its format at step {first}; the "
     "largest value reached {percent} % of it",
     "run that site in bf16 or fp32, or reduce its inputs; a loss scale has no effect on the forward pass",
     activation_overflow},
    {"clip-before-unscale", Reads::baseline,
     "at loss scales of 256 or more, the gradient norm is larger or smaller than that of fp32 by about the loss scale "
     "(within a factor of 8, in the median)",
     "the gradient norm is {ratio} times that of fp32, and the loss scale is {scale}: gradients were clipped or "
     "measured before they were unscaled",
     "unscale the gradients before clipping (torch: scaler.unscale_(optimizer), then clip_grad_norm_)",
     clip_before_unscale},
    {"half-gradient-on-growth", Reads::baseline,
     "in two or more steps after which the loss scale grows, the gradient norm is 0.4 to 0.6 times that of the other "
     "steps (medians, both relative to fp32)",
     "in {growths} steps after which the scale grew, gradients were {drop} times as large as they should have been, "
     "because they were unscaled with the scale of the next step",
     "clip the gradients, which hides the effect, or use a larger loss_scale_window; the cause is that DeepSpeed "
     "updates the scale before it unscales",
     half_gradient_on_growth},
    {"gradient-underflow", Reads::sites, "more than 1 % of the elements of a gradient became zero in a cast",
     "a gradient first lost more than 1 % of its elements in a cast at step {first}; at most, {percent} % of the "
     "elements of a gradient became zero",
     "scale the loss (fp16), scale the tensor (fp8), or use a format with a wider range (bf16, e5m2)",
     gradient_underflow},
    {"narrow-wire", Reads::sites, "ranks sent their gradients in a format narrower than fp32",
     "ranks sent their gradients in a narrow format: at most {percent} % of the elements became zero, and the sums "
     "depend on the order of addition",
     "reduce in fp32 (FSDP: reduce_dtype, DeepSpeed: communication_data_type); order = \"fp64\" in [reduce] shows how "
     "much the rounding of the sums costs",
     narrow_wire},
    {"layers-left-out", Reads::manifest, "some layers that match a rule of the policy were left unchanged",
     "{layers} {layers?layer that matches a rule of the policy was|layers that match a rule of the policy were} left "
     "unchanged, because {layers?its|their} sizes are not the multiples that the rule requires or a framework's filter "
     "excludes {layers?it|them}; the manifest gives each reason (left_out_why)",
     "choose sizes that are such multiples, or another filter; otherwise do not expect the speed of the format in "
     "those layers",
     layers_left_out},
    {"divergence-after-spike", Reads::steps,
     "the loss jumped more than 0.5 nat above its moving average, and the average ended more than 0.25 nat above its "
     "minimum before the jump",
     "the loss jumped by {jump} nat, and its moving average ended {rise} nat above its minimum before the jump",
     "clip gradients, lower the learning rate or lengthen the warm-up; if fp32 did not jump, look at the site that "
     "this finding names, if any",
     divergence_after_spike},
    {"loss-rounded", Reads::loss_rounded,
     "the policy's own loss has at most half as many distinct values as the loss computed in fp64",
     "the policy's own loss took only {values} different {values?value|values} in {steps} steps, and its error is up "
     "to {difference}",
     "compute the loss from fp32 logits (logits.float()); read trends from `loss`, not from `loss_rounded`",
     loss_rounded},
};

}  // namespace

std::span<const Diagnosis> diagnoses() { return table; }

}  // namespace macheps::reports
