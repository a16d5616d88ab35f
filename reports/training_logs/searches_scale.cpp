// SPDX-License-Identifier: Apache-2.0
// Diagnoses of loss scales and skipped steps in training logs.
#include "reports/findings/diagnosis.hpp"
#include "reports/training_logs/log_searches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace macheps::reports {

namespace {

using Steps = std::vector<StepRow>;

/// A longer interval of skipped steps counts as one step.
constexpr std::int64_t max_interval = 10000;

/// Returns the number of skipped steps of a row. If the log has only loss scales, a step was skipped if the next scale
/// is smaller.
double skips_of_row(const TrainingLog& log, std::size_t row, bool has_skips) {
    if (has_skips) return log.rows[row].skipped.value_or(0);
    if (row + 1 == log.rows.size()) return 0;
    const std::optional<double>&now = log.rows[row].loss_scale, &next = log.rows[row + 1].loss_scale;
    return now && next && *next < *now ? 1 : 0;
}

/// Returns the rows as rows of a run directory, one for each step of which the log says whether it was skipped. If
/// only some of the steps that a row covers were skipped, the row counts as not skipped. A row without a step number may
/// cover several steps, so it counts as not skipped. A row without a loss scale has the last one that the log gives, or
/// NaN.
Steps steps_of(const TrainingLog& log) {
    const bool has_skips = log.has(&TrainingRow::skipped);
    double scale = NAN;
    Steps steps;
    for (std::size_t i = 0; i < log.rows.size(); ++i) {
        const TrainingRow& row = log.rows[i];
        const std::int64_t covered = steps_of_row(log, i);
        const double skips = skips_of_row(log, i, has_skips);
        scale = row.loss_scale.value_or(scale);
        StepRow step{.step = row.step,
                     .loss = row.loss.value_or(NAN),
                     .grad_norm = static_cast<float>(row.grad_norm.value_or(NAN)),
                     .loss_scale = static_cast<float>(scale),
                     .skipped = log.has_step_numbers && skips > 0 && skips >= static_cast<double>(covered)};
        for (step.step -= step.skipped && covered <= max_interval ? covered - 1 : 0; step.step <= row.step; ++step.step)
            steps.push_back(step);
        scale = row.scale_after.value_or(scale);
    }
    return steps;
}

/// Returns the loss scale after the last row that has one, or NaN.
double last_scale(const TrainingLog& log) {
    const auto last = std::find_if(log.rows.rbegin(), log.rows.rend(),
                                   [](const TrainingRow& row) { return row.scale_after || row.loss_scale; });
    return last == log.rows.rend() ? NAN : last->scale_after.value_or(last->loss_scale.value_or(NAN));
}

/// Writes the sentence of a diagnosis of run directories.
LogSighting sighting_in_log(const Diagnosis& diagnosis, Sighting seen, Certainty certainty) {
    const std::optional<std::int64_t> step = seen.step;
    const std::string_view remedy = seen.remedy;
    const Diagnosed finding{.diagnosis = &diagnosis, .seen = std::move(seen)};
    return {.certainty = certainty, .step = step, .sentence = finding.sentence(), .remedy = remedy};
}

/// Looks for a diagnosis of run directories.
std::optional<LogSighting> find_in_steps(std::string_view id, const TrainingLog& log, Steps steps,
                                         Certainty certainty) {
    if (steps.empty()) return {};
    const std::string status =
        log.has_ended_at_floor ? fmt::format("failed: scale is at its floor of {}", last_scale(log)) : "ok";
    const Diagnosis& diagnosis = find_diagnosis(id);
    const RunLog run{.row = {.status = status}, .steps = std::move(steps)};
    std::optional<Sighting> seen = diagnosis.find({.run = run});
    if (!seen) return {};
    return sighting_in_log(diagnosis, *std::move(seen), certainty);
}

/// Returns whether the learning rate schedule advanced over a skipped step. Some programs print the rate of the step,
/// and others the rate after it. The rate must therefore differ from those of both neighbours, which must have rows.
bool schedule_advances_over(const TrainingLog& log, std::size_t row) {
    const auto differs = [&](std::size_t a, std::size_t b) {
        const TrainingRow &one = log.rows[a], &other = log.rows[b];
        return other.step == one.step + 1 && one.lr && other.lr && *one.lr != *other.lr;
    };
    return row > 0 && row + 1 < log.rows.size() && differs(row - 1, row) && differs(row, row + 1);
}

Certainty certainty_of_skips(const TrainingLog& log) {
    return log.knows_skipped_steps ? Certainty::certain : Certainty::likely;
}

/// Returns the first row whose loss scale satisfies the condition.
template <class Condition>
const TrainingRow* first_scale(const TrainingLog& log, Condition holds) {
    const auto found = std::find_if(log.rows.begin(), log.rows.end(),
                                    [&](const TrainingRow& row) { return row.loss_scale && holds(*row.loss_scale); });
    return found == log.rows.end() ? nullptr : &*found;
}

}  // namespace

std::optional<LogSighting> find_overflow_cascade(const LogView& view) {
    Steps steps = steps_of(view.log);
    // The message about a skipped step also contains the scale of the step after it.
    if (const std::optional<double> scale = view.log.rows.back().scale_after)
        steps.push_back({.step = steps.back().step + 1, .loss_scale = static_cast<float>(*scale)});
    return find_in_steps("overflow-cascade", view.log, std::move(steps), certainty_of_skips(view.log));
}

std::optional<LogSighting> find_scale_at_floor(const LogView& view) {
    const TrainingLog& log = view.log;
    if (!log.has(&TrainingRow::loss_scale)) return {};
    std::optional<LogSighting> seen = find_in_steps("scale-at-floor", log, steps_of(log), Certainty::certain);
    if (seen && log.has_ended_at_floor) seen->sentence += "; the run ended there";
    return seen;
}

std::optional<LogSighting> find_first_steps_skipped(const LogView& view) {
    const Steps steps = steps_of(view.log);
    if (!begins_at_start(view.log) || !steps.front().skipped) return {};
    const auto end = std::find_if(steps.begin(), steps.end(), [](const StepRow& step) { return !step.skipped; });
    const std::optional<LogSighting> cascade = find_overflow_cascade(view);
    const bool is_cascade = cascade && cascade->step == steps.front().step;
    return LogSighting{.certainty = certainty_of_skips(view.log),
                       .step = steps.front().step,
                       .sentence = end - steps.begin() == 1
                                       ? "the first step was skipped; schedulers of torch warn about this"
                                       : fmt::format("the first {} steps were skipped; schedulers of torch warn about "
                                                     "this",
                                                     end - steps.begin()),
                       .remedy = is_cascade ? cascade->remedy : ""};
}

std::optional<LogSighting> find_skipped_steps(const LogView& view) {
    const TrainingLog& log = view.log;
    const bool has_skips = log.has(&TrainingRow::skipped);
    double skipped = log.skipped_before;
    const TrainingRow* first = nullptr;
    for (std::size_t i = 0; i < log.rows.size(); ++i) {
        const double more = skips_of_row(log, i, has_skips);
        skipped += more;
        if (more > 0 && first == nullptr) first = &log.rows[i];
    }
    if (skipped == 0) return {};
    const std::int64_t before = log.skipped_before > 0 ? 0 : log.rows.front().step - steps_of_row(log, 0);
    const std::string hidden =
        log.skipped_before > 0 ? fmt::format(", {:.0f} of them before the log begins", log.skipped_before) : "";
    const std::string of_all =
        log.has_step_numbers ? fmt::format(" of {}", log.rows.back().step - before) : std::string();
    return LogSighting{
        .step = first == nullptr ? std::optional<std::int64_t>() : first->step,
        .sentence = fmt::format("{:.0f}{} step{} {} skipped{}", skipped, of_all,
                                of_all.empty() && skipped == 1 ? "" : "s", skipped == 1 ? "was" : "were", hidden)};
}

std::optional<LogSighting> find_schedule_over_skips(const LogView& view) {
    const TrainingLog& log = view.log;
    const bool has_skips = log.has(&TrainingRow::skipped);
    const TrainingRow* first = nullptr;
    double all = 0, skipped = 0, rate = 0;
    std::int64_t count = 0;
    for (std::size_t i = 0; i < log.rows.size(); ++i) {
        rate = log.rows[i].lr.value_or(rate);
        all += rate * static_cast<double>(steps_of_row(log, i));
        if (skips_of_row(log, i, has_skips) < 1 || !schedule_advances_over(log, i)) continue;
        skipped += rate, ++count;
        if (first == nullptr) first = &log.rows[i];
    }
    if (first == nullptr || !(skipped > DiagnosisRules::schedule_share * all)) return {};
    const std::int64_t steps = log.rows.back().step - log.rows.front().step + steps_of_row(log, 0);
    return sighting_in_log(find_diagnosis("schedule-over-skips"),
                           {.step = first->step,
                            .figures = {{"skipped", static_cast<double>(count)},
                                        {"steps", static_cast<double>(steps)},
                                        {"percent", 100 * skipped / all}}},
                           certainty_of_skips(log));
}

std::optional<LogSighting> find_scale_without_bound(const LogView& view) {
    const TrainingRow* first = first_scale(view.log, [](double scale) { return scale >= LogRules::unbounded_scale; });
    if (first == nullptr) return {};
    double largest = 0;
    for (const TrainingRow& row : view.log.rows) largest = std::max(largest, row.loss_scale.value_or(0));
    return LogSighting{.step = first->step,
                       .sentence = fmt::format("the loss scale grew to {}; near 2^127, the scaled loss and the "
                                               "reciprocal of the scale leave the range of fp32",
                                               figure_text(largest))};
}

std::optional<LogSighting> find_scale_collapse(const LogView& view) {
    const auto is_small = [](double scale) { return scale < 1; };
    const TrainingRow* first = first_scale(view.log, is_small);
    // A program that does not scale the loss may print 0 in every row.
    if (first == nullptr || first_scale(view.log, [](double scale) { return scale != 0; }) == nullptr) return {};
    return LogSighting{.step = first->step,
                       .sentence = *first->loss_scale > 0
                                       ? fmt::format("the loss scale fell to {}, so it makes gradients smaller",
                                                     figure_text(*first->loss_scale))
                                       : "the loss scale fell below 1 (a log of integers shows 0), so it makes "
                                         "gradients smaller"};
}

}  // namespace macheps::reports
