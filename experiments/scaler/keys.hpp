// SPDX-License-Identifier: Apache-2.0
// Keys that several kinds of loss scaler have, and what their values may be. For the files of this folder.
#pragma once
#include "experiments/scaler/scaler.hpp"

#include <cmath>
#include <limits>

namespace macheps::scaler_key {

/// The scale is an fp32 number in every framework; one that fp32 cannot hold would start as Inf or 0.
constexpr bool is_positive_fp32(double x) { return x >= 0x1p-149 && x <= 0x1.fffffep127; }
constexpr bool is_count(double x) { return x >= 1 && x <= std::numeric_limits<int>::max(); }

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
                                         .summary = "what the scale is multiplied by when it grows"};
inline constexpr ScalerKey backoff_factor{.name = "backoff_factor",
                                          .initial = 0.5,
                                          .is_good = [](double x) { return x > 0 && x < 1; },
                                          .wanted = "more than 0, less than 1",
                                          .summary = "what the scale is multiplied by after an Inf or NaN"};
inline constexpr ScalerKey growth_interval{.name = "growth_interval",
                                           .type = ScalerValue::count,
                                           .initial = 2000,
                                           .is_good = is_count,
                                           .wanted = "1 to 2147483647",
                                           .summary = "clean steps in a row after which the scale grows"};

}  // namespace macheps::scaler_key
