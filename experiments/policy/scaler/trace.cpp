// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/scaler/trace.hpp"

#include <unordered_set>

namespace macheps::policy {

std::vector<ScalerStep> trace(LossScaler& scaler, std::span<const std::int64_t> overflow_at, std::int64_t steps) {
    const std::unordered_set<std::int64_t> overflows(overflow_at.begin(), overflow_at.end());
    std::vector<ScalerStep> rows;
    for (std::int64_t step = 1; step <= steps; ++step) {
        ScalerStep row{.step = step, .scale = scaler.scale(), .overflow = overflows.contains(step)};
        try {
            row.unscaling = scaler.unscaling(row.overflow);
            scaler.update(row.overflow);
        } catch (const ScalerRaised& raised) {
            row.raised = true;
            row.error = raised.what();
        }
        row.skipped = row.raised || (row.overflow && scaler.skips());
        row.scale_after = scaler.scale();
        row.tracker = scaler.growth_tracker();
        row.hysteresis = scaler.hysteresis();
        rows.push_back(std::move(row));
        if (rows.back().raised) break;
    }
    return rows;
}

}  // namespace macheps::policy
