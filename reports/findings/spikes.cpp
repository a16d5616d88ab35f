// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/spikes.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace macheps::reports {

namespace {

struct Spread {
    double middle = 0, deviation = 0;
};

Spread by_median(std::span<const double> window) {
    std::vector<double> values(window.begin(), window.end());
    const double middle = middle_of(values);
    for (double& value : values) value = std::abs(value - middle);
    return {middle, SpikeRules::deviation_of_mad * middle_of(values)};
}

Spread by_mean(std::span<const double> window) {
    double sum = 0, squares = 0;
    for (const double value : window) sum += value;
    const double mean = sum / double(window.size());
    for (const double value : window) squares += (value - mean) * (value - mean);
    return {mean, std::sqrt(squares / double(window.size() - 1))};
}

}  // namespace

double middle_of(std::vector<double>& values) {
    const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

std::optional<double> spike_score(std::span<const double> values) {
    const bool is_long = values.size() >= SpikeRules::long_run;
    const std::size_t window = is_long ? SpikeRules::long_window : SpikeRules::short_window;
    if (values.size() <= window) return std::nullopt;
    std::size_t spikes = 0;
    for (std::size_t i = window; i < values.size(); ++i) {
        const std::span<const double> before = values.subspan(i - window, window);
        const Spread spread = is_long ? by_mean(before) : by_median(before);
        const double distance = std::abs(values[i] - spread.middle);
        spikes += distance > 0 && distance >= SpikeRules::deviations * spread.deviation ? 1 : 0;
    }
    return 100 * double(spikes) / double(values.size() - window);
}

}  // namespace macheps::reports
