// SPDX-License-Identifier: Apache-2.0
// Spikes of a curve: values that lie far from the values before them.
#pragma once
#include <cstddef>
#include <optional>
#include <span>

namespace macheps::reports {

struct SpikeRules {
    static constexpr double deviations = 7;
    static constexpr std::size_t long_run = 2000, long_window = 1000;  ///< long runs use mean and standard deviation
    static constexpr std::size_t short_window =
        100;  ///< shorter runs use the median, and 1.4826 times the median absolute deviation
    static constexpr double deviation_of_mad = 1.4826;
};

/// Returns the spike score: the percentage of values that are spikes. A value is a spike if it is 7 deviations or more
/// away from the mean (in short runs, the median) of the window before it. After a window of equal values, any
/// different value is a spike. Values without a whole window before them are left out. Returns nothing if no value is
/// left.
std::optional<double> spike_score(std::span<const double> values);

}  // namespace macheps::reports
