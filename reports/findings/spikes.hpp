// SPDX-License-Identifier: Apache-2.0
// Spikes of a curve: values that lie far from the values before them.
#pragma once
#include <cstddef>
#include <optional>
#include <span>

namespace macheps::reports {

struct SpikeRules {
    static constexpr double deviations = 7;
    static constexpr std::size_t long_run = 2000, long_window = 1000;  ///< with mean and standard deviation
    static constexpr std::size_t short_window =
        100;  ///< of shorter runs, with the median and 1.4826 median absolute deviations
    static constexpr double deviation_of_mad = 1.4826;
};

/// Returns the spike score. It covers the values that have a whole window before them, and is the percentage of them
/// that are 7 deviations or more away from the middle of their window. Returns nothing if no value has a whole window.
/// After a window of equal values, any different value is a spike.
std::optional<double> spike_score(std::span<const double> values);

}  // namespace macheps::reports
