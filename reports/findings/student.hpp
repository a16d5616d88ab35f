// SPDX-License-Identifier: Apache-2.0
// Student's t: intervals of paired samples, and the difference that a given number of samples can detect.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace macheps::reports {

/// Returns the quantile of Student's t with `df` degrees of freedom for p = 0.95 or 0.975. Uses a table up to df 30
/// (errors below 1e-6), then the Cornish-Fisher series to order df^-3 (errors below 2e-6). Source: Abramowitz and
/// Stegun 26.7.5.
double t_quantile_95(std::int64_t df);
double t_quantile_975(std::int64_t df);

/// Returns the true mean, in standard errors of the mean, at which the 95 % t interval of df + 1 samples excludes zero
/// with probability 0.8. This is the noncentrality parameter for which |t'| exceeds t_quantile_975(df) with that
/// probability. Uses a table up to df 30 (errors below 1e-6), then a series in 1 / df (errors below 1e-4).
double detectable_shift(std::int64_t df);

/// Mean of paired samples and its two-sided t intervals. The intervals are absent for fewer than two samples.
struct PairedMean {
    double mean = 0;
    std::optional<double> half_width_95{}, half_width_90{};
    /// The true mean that is detected with probability 0.8. It is detectable_shift() times the standard error.
    std::optional<double> detectable{};
};
PairedMean paired_mean(std::span<const double> gaps);

/// Returns the smallest number of samples with which a true mean of `size` is detected with probability 0.8, if single
/// samples have the standard deviation `deviation`. Returns nothing if 1000 samples are not enough.
std::optional<std::int64_t> samples_to_detect(double size, double deviation);

}  // namespace macheps::reports
