// SPDX-License-Identifier: Apache-2.0
// Measures the shortest time of repeated samples, which is the most reliable measure on a shared machine.
#pragma once
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace macheps::bench {

inline double seconds(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Measures samples and keeps the shortest time per call.
class Best {
  public:
    template <class F>
    double sample(clockid_t clock, std::int64_t calls, const F& f) {
        const double start = seconds(clock);
        for (std::int64_t i = 0; i < calls; ++i) f();
        const double each = (seconds(clock) - start) / static_cast<double>(calls);
        least_ = std::min(least_, each);
        return each;
    }
    double least() const { return least_; }

  private:
    double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace macheps::bench
