// SPDX-License-Identifier: Apache-2.0
// The table of diagnoses of training logs.
#include "reports/findings/diagnosis.hpp"
#include "reports/training_logs/log_searches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace macheps::reports {

namespace {

using enum Certainty;

const LogDiagnosis table[] = {
    {"overflow-cascade", Needs::skips, certain, "4 or more consecutive steps were skipped while the loss scale fell",
     find_diagnosis("overflow-cascade").remedy, find_overflow_cascade, true},
    {"scale-at-floor", Needs::scale, certain,
     "4 or more consecutive steps overflowed at the smallest loss scale of the run or at a scale below 1, or the run "
     "ended there",
     find_diagnosis("scale-at-floor").remedy, find_scale_at_floor},
    {"first-steps-skipped", Needs::skips, certain, "the first step was skipped",
     find_diagnosis("first-steps-skipped").remedy, find_first_steps_skipped, true},
    {"skipped-steps", Needs::skips, certain, "any step was skipped",
     "a few skipped steps are usual in fp16 with a loss scaler, and cost only their data; if there are many, look at "
     "the other findings",
     find_skipped_steps},
    {"schedule-over-skips", Needs::skips_and_lr, certain,
     "the steps that were skipped while the learning rate schedule continued had more than 1 % of the sum of all "
     "learning rates",
     find_diagnosis("schedule-over-skips").remedy, find_schedule_over_skips, true},
    {"nan-in-loss", Needs::loss, certain, "the loss of a row is not finite",
     "look for rows of data in which every label is masked, and run the first bad step in fp32; if fp32 is finite, a "
     "value of the forward pass overflowed",
     find_nan_in_loss},
    {"nan-in-gradient", Needs::norm, certain,
     "a gradient norm is not finite in a row without a skipped step; if the log reports skipped steps, the weights are "
     "lost if the last loss is not finite or 0, and its gradient norm is not finite or missing",
     find_diagnosis("nonfinite-update").remedy, find_nan_in_gradient},
    {"finite-loss-nan-gradient", Needs::loss_and_norm, certain,
     "the loss of a row is finite and its gradient norm is not; `possible` if the loss is scaled, or if the log may "
     "hide "
     "NaN losses",
     "compute the norm in fp32, and look for the first gradient that is not finite, from the loss backwards "
     "(torch: set_detect_anomaly)",
     find_finite_loss_nan_gradient},
    {"loss-zero-filtered", Needs::loss, likely,
     "the loss of two or more rows is exactly 0, and their gradient norm is not finite or missing (Transformers)",
     "set logging_nan_inf_filter to false, then look for the first step whose loss is NaN", find_zero_loss},
    {"zero-loss", Needs::loss, certain,
     "the loss of the last 5 or more rows is exactly 0, their gradient norm is finite (or missing, if the program does "
     "not hide NaN losses), and the loss before them is not below 0.01",
     "count the labels of each row of data that are not masked, and print the loss of one batch with all its digits",
     find_zero_loss_with_norm},
    {"zero-gradient", Needs::norm, certain, "the gradient norm of the last 5 or more rows is exactly 0",
     "check that parameters are trained, that labels are not all masked, and that the loss is scaled in fp16",
     find_zero_gradient},
    {"zero-rate", Needs::rate, certain, "the learning rate is 0 in all rows, of which there are 5 or more",
     "set the learning rate, and check that the schedule has not ended and that steps are not skipped", find_zero_rate},
    {"nan-in-eval", Needs::eval, certain,
     "an evaluation loss is not finite, although the losses and gradient norms of training are finite up to it",
     "count the labels of each row of the evaluation data that are not masked, and evaluate in fp32", find_nan_in_eval},
    {"no-learning", Needs::loss, certain,
     "in 20 or more rows, the range of the loss is less than 1 % of its mean, and it does not fall by more than three "
     "standard errors of its slope",
     "check that weights change between steps, that labels are not all masked, and that gradients are not scaled down",
     find_no_learning},
    {"plateau-at-ln-vocabulary", Needs::loss, likely,
     "in 20 or more rows, the loss does not fall and its mean is within 0.05 of ln V; without --vocabulary, V is a "
     "common vocabulary, the log is that of a language model, and the word is `likely` only if the loss is within 0.01 "
     "from the first row on",
     "check that gradients reach the weights: optimiser steps that are skipped, gradients scaled to zero, masked "
     "labels, frozen layers",
     find_plateau},
    {"loss-times-gas", Needs::loss, likely,
     "the first loss is k ln V (within 3 %) for a whole number k from 2 to 128; `likely` only if --vocabulary gives V "
     "and --gas gives k; without --vocabulary, V is from 8192 to 262144 and the log is that of a language model",
     "divide the loss of each micro-batch by the number of micro-batches, once; versions of Transformers from 4.46 on "
     "differ in who divides",
     find_loss_times_gas},
    {"first-loss-far-from-ln-vocabulary", Needs::loss, possible,
     "the first loss is more than 1.25 ln V and not a multiple of ln V; without --vocabulary, V is 262144 and the log "
     "is that of a language model",
     "evaluate the loaded weights in fp32 before training; if that loss is small, look for the format that differs",
     find_far_first_loss},
    {"jump-after-first-step", Needs::loss, likely,
     "the loss of the second step is at least twice that of the first step and from 0.9 ln V to 1.25 ln V, and does "
     "not return half way in the next 3 rows; `likely` only if --vocabulary gives V; without --vocabulary, V is from "
     "8192 "
     "to 262144 and the log is that of a language model",
     "train a step with a learning rate of 0: if the loss jumps too, load the weights before fp32 masters are made, or "
     "load the states of the optimiser as well (bf16 in DeepSpeed before 0.13.0); if it does not jump, lengthen the "
     "warm-up",
     find_jump_after_first_step, true},
    {"norm-is-a-code", Needs::norm, possible,
     "a gradient norm is exactly 1 after other norms, more often than norms within 0.005 of 1",
     "print the norm before clipping; in DeepSpeed 0.16.6 to 0.19.6, treat 1.0 as not finite", find_norm_is_a_code},
    {"constant-norm", Needs::norm, likely,
     "in 20 or more rows, which are all rows, the gradient norm is within 0.1 % of one usual limit of clipping (0.1, "
     "0.25, 0.3, 0.5, 1, 2, 5 or 10)",
     "print the norm before clipping", find_constant_norm},
    {"norm-carries-the-scale", Needs::norm_and_scale, likely,
     "norm / loss scale stays within a factor of 4 while the scale changes by a factor of 64 or more; or the median "
     "norm is above 1e4 while the loss is scaled and does not fall (possible)",
     find_diagnosis("clip-before-unscale").remedy, find_norm_carries_the_scale},
    {"norm-jump-at-growth", Needs::norm_and_scale, likely,
     "in two or more steps in which the loss scale grows, the gradient norm is 0.4 to 0.6 times that of the "
     "neighbouring steps (median)",
     find_diagnosis("half-gradient-on-growth").remedy, find_norm_jump_at_growth},
    {"scale-without-bound", Needs::scale, certain, "the loss scale is 2^100 or more, or infinite",
     "the scaler never sees an overflow: check that it inspects the gradients, or that training really uses fp16; set "
     "a maximum scale",
     find_scale_without_bound},
    {"scale-collapse", Needs::scale, certain, "the loss scale is below 1",
     "set a minimum loss scale of 1 and look for the cause of the overflows in the forward pass or in the data",
     find_scale_collapse},
    {"divergence-after-spike", Needs::loss, certain,
     "the loss jumped more than 0.5 nat (and six deviations of its noise) above the median of 5 rows, and the mean of "
     "the last 20 rows is more than 0.25 nat (and three standard errors) above the mean of the 20 rows before the jump",
     "clip gradients, lower the learning rate or lengthen the warm-up; train with the imported config to see whether "
     "fp32 diverges too",
     find_divergence_after_spike},
    {"rounded-norm", Needs::norm, likely,
     "all gradient norms have at most 8 significant bits, and 20 or more of them, at least 10 of them different, are "
     "not whole numbers below 256",
     "compute and clip the norm in fp32", find_rounded_norm},
    {"epoch-steps", Needs::loss_and_epoch, likely,
     "the loss drops by more than 5 %, and by more than three times its change and noise within an epoch, where most "
     "epochs begin",
     "train for fewer epochs, or on more data; this is not a fault of a format", find_epoch_steps},
    {"stagnation", Needs::other_data, possible, "", "", nullptr},
    {"frozen-moments", Needs::other_data, possible, "", "", nullptr},
    {"gradient-underflow", Needs::other_data, possible, "", "", nullptr},
    {"activation-overflow", Needs::other_data, possible, "", "", nullptr},
    {"narrow-wire", Needs::other_data, possible, "", "", nullptr},
};

/// The columns of each kind of need. If `or_scale` is set, the loss scale can replace them.
struct NeedRow {
    Needs needs;
    std::vector<std::string_view> columns;
    bool or_scale = false;
};
const NeedRow need_rows[] = {
    {Needs::loss, {"loss"}},
    {Needs::norm, {"grad_norm"}},
    {Needs::rate, {"lr"}},
    {Needs::eval, {"eval_loss"}},
    {Needs::loss_and_norm, {"loss", "grad_norm"}},
    {Needs::loss_and_epoch, {"loss", "epoch"}},
    {Needs::scale, {"loss_scale"}},
    {Needs::norm_and_scale, {"grad_norm", "loss_scale"}},
    {Needs::skips, {"skipped"}, true},
    {Needs::skips_and_lr, {"lr", "skipped"}, true},
};

/// Returns the reason why a diagnosis cannot be made, or an empty text.
std::string missing_in(const TrainingLog& log, const LogDiagnosis& diagnosis) {
    const Needs needs = diagnosis.needs;
    if (needs == Needs::other_data) return "a log of another program cannot show this; `macheps train --config` does";
    const auto row = std::find_if(std::begin(need_rows), std::end(need_rows),
                                  [needs](const NeedRow& one) { return one.needs == needs; });
    std::string missing;
    for (const std::string_view name : row->columns) {
        const bool is_replaced = row->or_scale && name == "skipped" && log.has(&TrainingRow::loss_scale);
        if (log.has(find_quantity(name)) || is_replaced) continue;
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
        if (row->or_scale && name == "skipped") missing += " or loss_scale";
    }
    if (missing.empty() && diagnosis.needs_step_numbers && !log.has_step_numbers)
        return "the log has no step numbers, and a row may cover several steps";
    return missing.empty() ? "" : "the log has no " + missing;
}

}  // namespace

std::string_view word_of(Certainty certainty) {
    constexpr std::string_view words[] = {"possible", "likely", "certain"};
    return words[static_cast<std::size_t>(certainty)];
}

std::span<const LogDiagnosis> log_diagnoses() { return table; }

LogVerdicts diagnose_log(const TrainingLog& log, const TrainingLogOptions& options) {
    LogVerdicts verdicts;
    const LogView view{.log = log, .options = options};
    for (const LogDiagnosis& diagnosis : table) {
        if (std::string why = missing_in(log, diagnosis); !why.empty()) {
            verdicts.gaps.push_back({.diagnosis = &diagnosis, .why = std::move(why)});
        } else if (std::optional<LogSighting> seen = diagnosis.find(view)) {
            verdicts.findings.push_back({.diagnosis = &diagnosis, .seen = *std::move(seen)});
        }
    }
    return verdicts;
}

}  // namespace macheps::reports
