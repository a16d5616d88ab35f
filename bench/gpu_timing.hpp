// SPDX-License-Identifier: Apache-2.0
// Times of work on a device, ours and the yardstick's in turns. Host only.
#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace macheps::bench {

/// Something to time. `start` may return before the work is done.
using Work = std::function<void()>;

/// Milliseconds of one call.
struct Times {
    double median = 0;
    double spread = 0;  ///< half of what lies between the quartiles, as a share of the median
};

struct Turns {
    int repetitions = 11;
    double sample_ms = 5;  ///< calls are repeated until a sample takes so long
    Work wait{};           ///< until everything that was started is done
};

inline Times times_of(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    const std::size_t n = samples.size();
    const double median = (samples[(n - 1) / 2] + samples[n / 2]) / 2;
    return {median, median > 0 ? (samples[n * 3 / 4] - samples[n / 4]) / (2 * median) : 0};
}

/// Wall time of calls between two waits, in turns. Streams differ, and a wait for the device is what they share; calls
/// in a row hide what starting them costs, as in a program.
inline std::vector<Times> in_turns(const std::vector<Work>& works, const Turns& turns) {
    using Clock = std::chrono::steady_clock;
    const auto sample = [&](const Work& work, int calls) {
        turns.wait();
        const Clock::time_point begin = Clock::now();
        for (int i = 0; i < calls; ++i) work();
        turns.wait();
        return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / calls;
    };
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
