// SPDX-License-Identifier: Apache-2.0
// The functions that look for a diagnosis in a training log, and the functions that they share.
#pragma once
#include "reports/training_logs/log_diagnosis.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace macheps::reports {

/// A value of a quantity, and the step of its row.
struct LogPoint {
    std::int64_t step = 0;
    double value = 0;
};

/// Returns the values of a quantity that are finite.
std::vector<LogPoint> finite_points(const TrainingLog& log, Quantity quantity);
/// Returns the mean of `count` points, beginning at `first`.
double mean_of(const std::vector<LogPoint>& points, std::size_t first, std::size_t count);
/// Returns whether the values do not fall: their range is small, and their slope is not smaller than the noise allows.
bool is_flat(const std::vector<LogPoint>& points);
/// Returns whether the log begins with the first step of the run.
bool begins_at_start(const TrainingLog& log);
/// Returns the number of steps that each row covers: the distance from the row before it.
std::int64_t steps_of_row(const TrainingLog& log, std::size_t row);

// Loss scales and skipped steps
std::optional<LogSighting> find_overflow_cascade(const LogView& view);
std::optional<LogSighting> find_scale_at_floor(const LogView& view);
std::optional<LogSighting> find_first_steps_skipped(const LogView& view);
std::optional<LogSighting> find_skipped_steps(const LogView& view);
std::optional<LogSighting> find_schedule_over_skips(const LogView& view);
std::optional<LogSighting> find_scale_without_bound(const LogView& view);
std::optional<LogSighting> find_scale_collapse(const LogView& view);

// Losses
std::optional<LogSighting> find_nan_in_loss(const LogView& view);
std::optional<LogSighting> find_zero_loss(const LogView& view);
std::optional<LogSighting> find_no_learning(const LogView& view);
std::optional<LogSighting> find_plateau(const LogView& view);
std::optional<LogSighting> find_loss_times_gas(const LogView& view);
std::optional<LogSighting> find_far_first_loss(const LogView& view);
std::optional<LogSighting> find_jump_after_first_step(const LogView& view);
std::optional<LogSighting> find_divergence_after_spike(const LogView& view);
std::optional<LogSighting> find_epoch_steps(const LogView& view);

// Gradient norms
std::optional<LogSighting> find_nan_in_gradient(const LogView& view);
std::optional<LogSighting> find_finite_loss_nan_gradient(const LogView& view);
std::optional<LogSighting> find_norm_is_a_code(const LogView& view);
std::optional<LogSighting> find_norm_carries_the_scale(const LogView& view);
std::optional<LogSighting> find_norm_jump_at_growth(const LogView& view);
std::optional<LogSighting> find_rounded_norm(const LogView& view);

// Quantities that are 0 or constant, and the evaluation
std::optional<LogSighting> find_zero_gradient(const LogView& view);
std::optional<LogSighting> find_zero_loss_with_norm(const LogView& view);
std::optional<LogSighting> find_zero_rate(const LogView& view);
std::optional<LogSighting> find_nan_in_eval(const LogView& view);
std::optional<LogSighting> find_constant_norm(const LogView& view);

}  // namespace macheps::reports
