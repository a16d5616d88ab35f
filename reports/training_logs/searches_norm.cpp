// SPDX-License-Identifier: Apache-2.0
// Diagnoses of gradient norms in training logs.
#include "reports/findings/diagnosis.hpp"
#include "reports/findings/spikes.hpp"
#include "reports/training_logs/line_forms.hpp"
#include "reports/training_logs/log_searches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace macheps::reports {

namespace {

/// Returns whether the norm of a row is not finite although no step of the row was skipped.
bool has_bad_norm(const TrainingRow& row) {
    return row.grad_norm && !std::isfinite(*row.grad_norm) && row.skipped.value_or(0) == 0;
}

bool has_lost_loss(const TrainingRow& row) { return row.loss && (!std::isfinite(*row.loss) || *row.loss == 0); }

/// Returns whether any loss was scaled by more than 1.
bool scales_loss(const TrainingLog& log) {
    return std::any_of(log.rows.begin(), log.rows.end(),
                       [](const TrainingRow& row) { return row.loss_scale.value_or(1) > 1; });
}

/// Returns whether a log shows which steps were skipped.
bool knows_skips(const TrainingLog& log) {
    return std::any_of(log.rows.begin(), log.rows.end(),
                       [](const TrainingRow& row) { return row.skipped.has_value() || row.loss_scale.has_value(); });
}

/// Returns whether the learning rate changes in each row with a bad norm by about as much as in the row before. The
/// schedule then counts all steps of these rows.
bool rate_goes_on(const std::vector<TrainingRow>& rows) {
    constexpr double least_of_change = 0.9;  // a skipped step of ten makes the change a tenth smaller
    std::optional<double> before;
    const TrainingRow* last = nullptr;  // the last row with a rate; rows of evaluations have none
    bool has_bad = false;
    for (const TrainingRow& row : rows) {
        const bool is_bad = has_bad_norm(row);
        if (!row.lr) {
            if (is_bad) return false;
            continue;
        }
        if (last != nullptr && row.step > last->step) {
            const double change = std::abs(*row.lr - *last->lr) / static_cast<double>(row.step - last->step);
            if (is_bad && (!before || !(change > least_of_change * *before))) return false;
            has_bad = has_bad || is_bad;
            before = change;
        }
        last = &row;
    }
    return has_bad && *before > 0;
}

/// Returns whether a number has at most `bits` significant bits.
bool has_few_bits(double value, int bits) {
    int exponent = 0;
    const double scaled = std::ldexp(std::frexp(value, &exponent), bits);
    return scaled == std::trunc(scaled);
}

/// Returns whether a norm with at most `bits` significant bits is evidence of its format. Small whole numbers
/// have few bits in every format.
bool is_telling(double norm, int bits) { return norm != std::trunc(norm) || std::abs(norm) >= std::ldexp(1.0, bits); }

/// Returns the ratios of the norms at growth steps to the mean of the norms before and after. A step is a growth step
/// if the scale is larger in the row `shift` rows later than in the row before that one. Programs print either the
/// scale that a step used (shift 1) or the scale after the step (shift 0).
std::vector<LogPoint> ratios_at_growth(const TrainingLog& log, std::size_t shift) {
    std::vector<LogPoint> ratios;
    const std::vector<TrainingRow>& rows = log.rows;
    for (std::size_t i = 1; i + 1 < rows.size(); ++i) {
        const std::optional<double>&before = rows[i + shift - 1].loss_scale, &after = rows[i + shift].loss_scale;
        const bool has_norms = rows[i - 1].grad_norm && rows[i].grad_norm && rows[i + 1].grad_norm;
        if (!before || !after || !(*after > *before) || !has_norms) continue;
        const double ratio = 2 * *rows[i].grad_norm / (*rows[i - 1].grad_norm + *rows[i + 1].grad_norm);
        if (std::isfinite(ratio)) ratios.push_back({rows[i].step, ratio});
    }
    return ratios;
}

}  // namespace

std::optional<LogSighting> find_nan_in_gradient(const LogView& view) {
    const std::vector<TrainingRow>& rows = view.log.rows;
    const auto first = std::find_if(rows.begin(), rows.end(), has_bad_norm);
    if (first == rows.end()) return {};
    const auto count = std::count_if(rows.begin(), rows.end(), has_bad_norm);
    const auto last =
        std::find_if(rows.rbegin(), rows.rend(), [](const TrainingRow& row) { return row.loss.has_value(); });
    const bool is_lost = last != rows.rend() && last->step > first->step && has_lost_loss(*last) &&
                         (!last->grad_norm || !std::isfinite(*last->grad_norm));
    const std::string seen = fmt::format("the gradient norm is {} in {} row{}", figure_text(*first->grad_norm), count,
                                         count == 1 ? "" : "s");
    if (knows_skips(view.log)) {
        return LogSighting{.step = first->step,
                           .sentence = fmt::format("{}, and the log reports no skipped step there; {}", seen,
                                                   is_lost ? "the last loss is 0 or not finite, so the weights are lost"
                                                           : "either a scaler skipped the step without a message, or "
                                                             "the gradient was applied to the weights")};
    }
    // A trainer of Transformers does not advance the schedule of the learning rate if its GradScaler skips the step.
    const bool is_trainer = view.log.form->may_hide_nan;
    if (is_trainer && is_lost && rate_goes_on(rows)) {
        return LogSighting{
            .step = first->step,
            .sentence =
                fmt::format("{}; the log does not report skipped steps, but the learning rate goes on in these "
                            "rows, and a GradScaler that skips a step does not advance it; the last loss is 0 or "
                            "not finite: probably no step was skipped, the gradients were applied to the weights, "
                            "and a GradScaler did not run or did not see them",
                            seen),
            .remedy =
                "print(trainer.accelerator.scaler, trainer.accelerator.optimizer_step_was_skipped) in a "
                "callback: does a GradScaler run, and does it skip these steps? Train again from the last "
                "checkpoint before them"};
    }
    return LogSighting{
        .step = first->step,
        .sentence = fmt::format("{}; the log does not report skipped steps: either a scaler skipped them, or the "
                                "gradients were applied to the weights{}",
                                seen, is_lost ? ", which the last loss suggests: it is 0 or not finite" : ""),
        .remedy = is_trainer ? "print(trainer.accelerator.scaler, trainer.accelerator.optimizer_step_was_skipped) in a "
                               "callback: does a GradScaler run, and does it skip these steps?"
                             : std::string_view{}};
}

std::optional<LogSighting> find_finite_loss_nan_gradient(const LogView& view) {
    const std::vector<TrainingRow>& rows = view.log.rows;
    const auto first = std::find_if(rows.begin(), rows.end(), [](const TrainingRow& row) {
        return has_bad_norm(row) && row.loss && !has_lost_loss(row);
    });
    if (first == rows.end()) return {};
    const bool is_scaled = scales_loss(view.log), may_hide = view.log.form->may_hide_nan;
    return LogSighting{
        .certainty = is_scaled || may_hide ? Certainty::possible : Certainty::certain,
        .step = first->step,
        .sentence = fmt::format("the loss is {:.5g} and the gradient norm is {}: the fault lies in the backward pass, "
                                "in the clipping, or in a norm of scaled gradients{}{}",
                                *first->loss, figure_text(*first->grad_norm),
                                is_scaled ? "; with a loss scale, this may be an ordinary overflow" : "",
                                may_hide ? "; the log may also have replaced a NaN loss" : "")};
}

std::optional<LogSighting> find_norm_is_a_code(const LogView& view) {
    const std::vector<LogPoint> norms = finite_points(view.log, &TrainingRow::grad_norm);
    const auto is_one = [](const LogPoint& norm) { return norm.value == 1; };
    const auto first = std::find_if(norms.begin(), norms.end(), is_one);
    // If the log begins with 1.0, norms are probably measured after they were clipped to 1.
    if (first == norms.begin() || first == norms.end()) return {};
    const auto ones = std::count_if(norms.begin(), norms.end(), is_one);
    const auto near = std::count_if(norms.begin(), norms.end(), [](const LogPoint& norm) {
        return norm.value != 1 && std::abs(norm.value - 1) < LogRules::code_width;
    });
    if (ones <= near) return {};
    return LogSighting{.certainty = Certainty::possible,
                       .step = first->step,
                       .sentence = fmt::format("the gradient norm is exactly 1 in {} of {} rows: DeepSpeed 0.16.6 to "
                                               "0.19.6 reports 1.0 for a norm that is NaN or infinite, and a norm that "
                                               "is measured after clipping to 1 looks the same",
                                               ones, norms.size())};
}

std::optional<LogSighting> find_norm_carries_the_scale(const LogView& view) {
    double least_norm = HUGE_VAL, largest_norm = 0, least_scale = HUGE_VAL, largest_scale = 0, least = HUGE_VAL,
           largest = 0;
    std::vector<double> norms;
    std::size_t pairs = 0;
    for (const TrainingRow& row : view.log.rows) {
        const bool has_norm = row.grad_norm && std::isfinite(*row.grad_norm) && *row.grad_norm > 0;
        if (has_norm) norms.push_back(*row.grad_norm);
        if (!has_norm || !row.loss_scale || !(*row.loss_scale > 0) || !std::isfinite(*row.loss_scale)) continue;
        const double ratio = *row.grad_norm / *row.loss_scale;
        least_norm = std::min(least_norm, *row.grad_norm), largest_norm = std::max(largest_norm, *row.grad_norm);
        least_scale = std::min(least_scale, *row.loss_scale), largest_scale = std::max(largest_scale, *row.loss_scale);
        least = std::min(least, ratio), largest = std::max(largest, ratio);
        ++pairs;
    }
    if (pairs == 0) return {};
    const std::int64_t step = view.log.rows.front().step;
    const bool follows = pairs >= DiagnosisRules::min_steps && largest <= LogRules::carried_factor * least &&
                         largest_scale >= LogRules::carried_change * least_scale &&
                         largest_norm >= LogRules::carried_change / LogRules::carried_factor * least_norm;
    if (follows) {
        return LogSighting{
            .certainty = Certainty::likely,
            .step = step,
            .sentence = fmt::format("the gradient norm follows the loss scale: norm / scale stays between "
                                    "{:.3g} and {:.3g} while the scale changes from {} to {}",
                                    least, largest, figure_text(least_scale), figure_text(largest_scale))};
    }
    const bool is_huge = middle_of(norms) > LogRules::huge_norm && scales_loss(view.log) &&
                         is_flat(finite_points(view.log, &TrainingRow::loss));
    if (!is_huge) return {};
    return LogSighting{
        .certainty = Certainty::possible,
        .step = step,
        .sentence = fmt::format("the median gradient norm is {:.3g} and the loss does not fall: gradients "
                                "may be clipped before they are unscaled, or they are really this large",
                                middle_of(norms))};
}

std::optional<LogSighting> find_norm_jump_at_growth(const LogView& view) {
    for (const std::size_t shift : {std::size_t{1}, std::size_t{0}}) {
        const std::vector<LogPoint> ratios = ratios_at_growth(view.log, shift);
        if (ratios.size() < LogRules::min_growths) continue;
        std::vector<double> values;
        for (const LogPoint& ratio : ratios) values.push_back(ratio.value);
        const double middle = middle_of(values);
        if (middle < LogRules::half_low || middle > LogRules::half_high) continue;
        return LogSighting{
            .certainty = Certainty::likely,
            .step = ratios.front().step,
            .sentence = fmt::format("in {} steps in which the loss scale grew, the gradient norm is {:.2g} "
                                    "times that of the neighbouring steps: gradients are unscaled with "
                                    "the scale of the next step",
                                    ratios.size(), middle)};
    }
    return {};
}

std::optional<LogSighting> find_rounded_norm(const LogView& view) {
    const std::vector<LogPoint> norms = finite_points(view.log, &TrainingRow::grad_norm);
    std::set<double> distinct;
    std::size_t telling = 0;
    for (const LogPoint& norm : norms) {
        if (!is_telling(norm.value, LogRules::rounded_bits)) continue;
        ++telling;
        distinct.insert(norm.value);
    }
    const bool are_rounded = std::all_of(norms.begin(), norms.end(), [](const LogPoint& norm) {
        return has_few_bits(norm.value, LogRules::rounded_bits);
    });
    if (telling < LogRules::window || distinct.size() < LogRules::min_distinct_norms || !are_rounded) return {};
    return LogSighting{
        .certainty = Certainty::likely,
        .step = norms.front().step,
        .sentence = fmt::format("all {} gradient norms have at most {} significant bits: they are computed "
                                "in bf16",
                                norms.size(), LogRules::rounded_bits)};
}

}  // namespace macheps::reports
