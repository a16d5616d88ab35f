// SPDX-License-Identifier: Apache-2.0
// Applies a scale rule to a sequence of amaxes (largest magnitudes), without a tensor.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace macheps::study {

/// A scale rule and its input. Names are written as in policies.
struct ScaleQuestion {
    std::string rule;
    std::vector<float> amax;
    std::string format{};  ///< format of the elements; empty: e2m1fn for an NVFP4 rule, else e4m3fn
    std::optional<std::int64_t> history{}, margin{};
    std::string algorithm{};             ///< how an amax is chosen from the history; empty: max
    std::optional<float> tensor_amax{};  ///< NVFP4: amax of the whole tensor; absent: largest of `amax`
};

/// One step and the scales that the rule gives for the tensor of this step.
struct ScaleTraceStep {
    std::int64_t step = 0;  ///< from 1
    float amax = 0, scale = 1, scale_inv = 1;
};

/// Returns one step for each amax. Errors: throws FieldError (usage) for an unknown name (the message suggests the
/// nearest name) and for an option that the rule does not use.
std::vector<ScaleTraceStep> scale_trace(const ScaleQuestion& question);

}  // namespace macheps::study
