// SPDX-License-Identifier: Apache-2.0
// The constants of the verdicts.
#pragma once
#include <cstdint>

namespace macheps::reports {

/// The constants of the verdicts. Pages state them next to their figures.
struct DivergenceRules {
    static constexpr std::int64_t longest_window = 50;    ///< W = min(50, steps / 4), at least 1
    static constexpr double equivalence_margin = 0.0025;  ///< default margin, as a fraction of the baseline's loss
    static constexpr std::int64_t min_steps = 200;        ///< verdicts of shorter runs carry a warning
    static constexpr std::int64_t min_seeds = 3;
    static constexpr double divergence_threshold = 1e-3;  ///< as a fraction of the baseline's loss at that step
    static constexpr int consecutive_steps = 10;
    static constexpr double ema_decay = 0.9;
    static constexpr double failure_rise = 1.0;            ///< nats above the lowest ema so far ...
    static constexpr int failure_steps = 50;               ///< ... for this number of steps in a row
    static constexpr std::int64_t failure_min_steps = 40;  ///< a shorter run may end above its first loss
    static constexpr double notable_underflow = 0.01;      ///< share of a site's elements
    static constexpr double notable_overflow = 0.001;      ///< share of a scaled site's elements
    static constexpr double notable_reach = 0.5;           ///< share of the largest finite number, without a scale
};

}  // namespace macheps::reports
