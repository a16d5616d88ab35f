// SPDX-License-Identifier: Apache-2.0
// Keys that several kinds of loss scaler have, checks of their values, and helpers for their states. Only for the files
// of this folder.
#pragma once
#include "experiments/policy/scaler/scaler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace macheps::policy::scaler_key {

/// Accepts scales in the range of fp32. Any other scale would multiply the loss by Inf or 0 from the start.
constexpr bool is_positive_fp32(double x) { return x >= 0x1p-149 && x <= 0x1.fffffep127; }
constexpr bool is_count(double x) { return x >= 1 && x <= std::numeric_limits<int>::max(); }
constexpr bool is_count_or_zero(double x) { return x >= 0 && x <= std::numeric_limits<int>::max(); }
constexpr bool is_zero_or_fp32(double x) { return x >= 0 && x <= 0x1.fffffep127; }

inline constexpr ScalerKey init_scale{.name = "init_scale",
                                      .type = ScalerValue::fp32,
                                      .initial = 65536,
                                      .is_good = is_positive_fp32,
                                      .wanted = "a positive fp32 number",
                                      .summary = "the scale of the first step"};
inline constexpr ScalerKey growth_factor{.name = "growth_factor",
                                         .initial = 2,
                                         .is_good = [](double x) { return x > 1 && std::isfinite(x); },
                                         .wanted = "more than 1",
                                         .summary = "factor by which the scale grows"};
inline constexpr ScalerKey backoff_factor{.name = "backoff_factor",
                                          .initial = 0.5,
                                          .is_good = [](double x) { return x > 0 && x < 1; },
                                          .wanted = "more than 0, less than 1",
                                          .summary = "factor that multiplies the scale after an Inf or NaN"};
inline constexpr ScalerKey growth_interval{.name = "growth_interval",
                                           .type = ScalerValue::count,
                                           .initial = 2000,
                                           .is_good = is_count,
                                           .wanted = "1 to 2147483647",
                                           .summary = "number of clean steps in a row after which the scale grows"};
inline constexpr ScalerKey min_scale{.name = "min_scale",
                                     .initial = 1,
                                     .is_good = is_zero_or_fp32,
                                     .wanted = "0 or a positive fp32 number",
                                     .summary = "the lowest scale"};
inline constexpr ScalerKey max_scale{.name = "max_scale",
                                     .initial = 0x1p24,
                                     .is_good = is_positive_fp32,
                                     .wanted = "a positive fp32 number",
                                     .summary = "the highest scale, also for the first step"};
inline constexpr ScalerKey hysteresis{
    .name = "hysteresis",
    .type = ScalerValue::count,
    .initial = 2,
    .is_good = is_count,
    .wanted = "1 to 2147483647",
    .summary = "number of steps with Inf or NaN until the scale backs off: with 1, at the first such step"};
inline constexpr ScalerKey unscale_by_division{
    .name = "unscale_by_division",
    .type = ScalerValue::flag,
    .initial = 0,
    .summary = "true: gradients are divided by the scale, not multiplied by its rounded reciprocal"};
inline constexpr ScalerKey growth_step_half_grad{.name = "growth_step_half_grad",
                                                 .type = ScalerValue::flag,
                                                 .initial = 1,
                                                 .summary =
                                                     "true: if the scale grows after a step, the gradients of this "
                                                     "step are unscaled with the new scale, which halves them, as in "
                                                     "DeepSpeed"};
inline constexpr ScalerKey deepspeed_version{
    .name = "version",
    .type = ScalerValue::version,
    .initial = 19006,
    .summary = "version of DeepSpeed; since 0.17.1 the scale grows one step later after an overflow"};

/// Returns the key with another initial value.
constexpr ScalerKey from(ScalerKey key, double initial) {
    key.initial = initial;
    return key;
}
/// Returns the key for a framework that keeps its value as a Python double.
constexpr ScalerKey in_fp64(ScalerKey key) {
    key.type = ScalerValue::number;
    return key;
}
/// Returns the key for a framework that keeps its value as an fp32 tensor.
constexpr ScalerKey in_fp32(ScalerKey key) {
    key.type = ScalerValue::fp32;
    return key;
}

/// Returns whether a saved state has `count` numbers, of which all except the first are integers.
inline bool is_state(std::span<const double> state, std::size_t count) {
    const auto is_whole = [](double x) { return std::abs(x) <= 0x1p53 && std::trunc(x) == x; };
    return state.size() == count && std::all_of(state.begin() + 1, state.end(), is_whole);
}

}  // namespace macheps::policy::scaler_key
