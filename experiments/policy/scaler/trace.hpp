// SPDX-License-Identifier: Apache-2.0
// Runs a loss scaler without a model, to show how it reacts if the gradients of certain steps overflow.
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
    std::int64_t step = 0;  ///< counted from 1
    double scale = 1;       ///< factor of the loss in this step
    bool overflow = false, skipped = false;
    double scale_after = 1;
    std::int64_t tracker = 0;                  ///< LossScaler::growth_tracker() after the step
    std::optional<std::int64_t> hysteresis{};  ///< LossScaler::hysteresis() after the step
    bool raised = false;                       ///< the framework ended the run here
    Unscaling unscaling{};                     ///< valid if `raised` is false
    std::string error{};                       ///< valid if `raised` is true
};

/// Runs steps 1 to `steps`. The gradients of the steps in `overflow_at` contain an Inf. Ends with the first step that
/// raises.
std::vector<ScalerStep> trace(LossScaler& scaler, std::span<const std::int64_t> overflow_at, std::int64_t steps);

}  // namespace macheps::policy
