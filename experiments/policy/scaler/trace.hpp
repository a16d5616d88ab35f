// SPDX-License-Identifier: Apache-2.0
// A loss scaler without a model: what it does where given steps overflow.
#pragma once
#include "experiments/policy/scaler/scaler.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::policy {

/// One step of a scaler.
struct ScalerStep {
    std::int64_t step = 0;  ///< from 1
    double scale = 1;       ///< that the loss of this step is multiplied by
    bool overflow = false, skipped = false;
    double scale_after = 1;
    std::int64_t tracker = 0;                  ///< LossScaler::growth_tracker() afterwards
    std::optional<std::int64_t> hysteresis{};  ///< LossScaler::hysteresis() afterwards
    bool raised = false;                       ///< the framework ended the run here
    Unscaling unscaling{};                     ///< of a step that was not raised
    std::string error{};                       ///< of one that was
};

/// Steps 1 to `steps`, those in `overflow_at` with an Inf in the gradients. Ends with the first step that raises.
std::vector<ScalerStep> trace(LossScaler& scaler, std::span<const std::int64_t> overflow_at, std::int64_t steps);

}  // namespace macheps::policy
