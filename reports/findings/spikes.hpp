// SPDX-License-Identifier: Apache-2.0
// Spikes of a curve: values that lie far from the values before them.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace macheps::reports {

/// Returns the median. For an even number of values, this is the mean of the two middle values. Reorders the values.
double middle_of(std::vector<double>& values);

struct SpikeRules {
    static constexpr double deviations = 7;
    /// Runs of at least `long_run` values: a value is compared with the mean of the `long_window` values before it, and
    /// the deviation is their standard deviation.
    static constexpr std::size_t long_run = 2000, long_window = 1000;
    /// Shorter runs: a value is compared with the median of the `short_window` values before it, and the deviation is
    /// `deviation_of_mad` times their median absolute deviation from the median.
    static constexpr std::size_t short_window = 100;
    static constexpr double deviation_of_mad = 1.4826;
};

/// Returns the spike score: the percentage of values that are spikes. A value is a spike if it is 7 deviations or more
/// away from the mean (in short runs, the median) of the window before it. After a window of equal values, any
/// different value is a spike. Values without a whole window before them are left out. Returns nothing if no value is
/// left.
std::optional<double> spike_score(std::span<const double> values);

}  // namespace macheps::reports
