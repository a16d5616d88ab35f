// SPDX-License-Identifier: Apache-2.0
// Constants in the definitions of the verdicts.
#pragma once
#include <cstdint>

namespace macheps::reports {

/// Constants in the definitions of the verdicts and of notable sites. Pages state them next to the figures.
struct DivergenceRules {
    static constexpr std::int64_t longest_window = 50;    ///< means cover the last W = max(1, min(50, steps / 4)) steps
    static constexpr double equivalence_margin = 0.0025;  ///< default margin, as a fraction of the baseline's loss
    static constexpr std::int64_t min_steps = 200;        ///< verdicts of shorter runs carry a warning
    static constexpr std::int64_t min_seeds = 3;
    static constexpr double divergence_threshold = 1e-3;  ///< limit on |moving average of the gap| / baseline's loss
    static constexpr int consecutive_steps = 10;
    static constexpr double ema_decay = 0.9;
    /// A run fails if, for `failure_steps` consecutive steps, the moving average of its loss is more than
    /// `failure_rise` nats above the minimum of this average.
    static constexpr double failure_rise = 1.0;
    static constexpr int failure_steps = 50;
    static constexpr std::int64_t failure_min_steps = 40;  ///< a shorter run does not fail by ending above its start
    static constexpr double notable_underflow = 0.01;      ///< share of a site's values that became zero
    static constexpr double notable_overflow = 0.001;      ///< share of a scaled site's values that overflowed
    static constexpr double notable_reach = 0.5;           ///< largest unscaled value / largest number of its format
};

}  // namespace macheps::reports
