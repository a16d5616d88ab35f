// SPDX-License-Identifier: Apache-2.0
// Spikes of a curve: how many of its values lie far from those before them.
#pragma once
#include <cstddef>
#include <optional>
#include <span>

namespace macheps::reports {

struct SpikeRules {
    static constexpr double deviations = 7;
    static constexpr std::size_t long_run = 2000, long_window = 1000;  ///< mean and standard deviation of the last 1000
    static constexpr std::size_t short_window =
        100;  ///< of shorter runs: median, and 1.4826 median absolute deviations
    static constexpr double deviation_of_mad = 1.4826;
};

/// The spike score: of the values that have a whole window before them, the percentage that is 7 deviations or more away
/// from its middle. Nothing where no value has one. In a window whose values are all alike any other value is a spike.
std::optional<double> spike_score(std::span<const double> values);

}  // namespace macheps::reports
