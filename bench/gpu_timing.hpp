// SPDX-License-Identifier: Apache-2.0
// Measures the time of work on a GPU. Samples of our work alternate with samples of the yardstick, the work that it is
// compared with.
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

namespace macheps::bench {

/// A piece of work to be timed.
struct Work {
    std::function<void()> start;  ///< may return before the work is done
    void* stream = nullptr;       ///< the cudaStream_t on which `start` launches the work
};

/// Statistics of the time of one call.
struct Times {
    double median = 0;  ///< in milliseconds
    double spread = 0;  ///< half of the interquartile range, divided by the median
};

struct Turns {
    int repetitions = 11;
    double sample_ms = 5;  ///< calls are repeated until a sample takes this long
    /// Waits until the device is idle, and then runs the work `calls` times. Returns the milliseconds from then until
    /// the last call is done.
    std::function<double(const Work&, int calls)> time;
};

inline Times times_of(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    const std::size_t n = samples.size();
    const double median = (samples[(n - 1) / 2] + samples[n / 2]) / 2;
    return {median, median > 0 ? (samples[n * 3 / 4] - samples[n / 4]) / (2 * median) : 0};
}

/// Measures all works alternately. Returns the median and the spread of the samples of each work. A sample makes
/// several calls in a row, which hides their launch overhead. Real programs hide it in the same way.
inline std::vector<Times> in_turns(const std::vector<Work>& works, const Turns& turns) {
    const auto sample = [&](const Work& work, int calls) { return turns.time(work, calls) / calls; };
    std::vector<int> calls;
    for (const Work& work : works) {
        sample(work, 1);  // warms up
        const double once = sample(work, 1);
        calls.push_back(std::clamp(static_cast<int>(turns.sample_ms / std::max(once, 1e-3)) + 1, 1, 1000));
    }
    std::vector<std::vector<double>> samples(works.size());
    for (int r = 0; r < turns.repetitions; ++r) {
        for (std::size_t w = 0; w < works.size(); ++w) samples[w].push_back(sample(works[w], calls[w]));
    }
    std::vector<Times> times;
    for (std::vector<double>& s : samples) times.push_back(times_of(std::move(s)));
    return times;
}

}  // namespace macheps::bench
