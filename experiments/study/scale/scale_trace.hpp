// SPDX-License-Identifier: Apache-2.0
// Applies a scale rule to a sequence of amaxes (largest magnitudes), without a tensor.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace macheps::study {

/// The rule and its input, in the words of a policy.
struct ScaleQuestion {
    std::string rule;
    std::vector<float> amax;
    std::string format{};  ///< format of the elements; empty: e4m3fn, or e2m1fn if the rule is for it
    std::optional<std::int64_t> history{}, margin{};
    std::string algorithm{};             ///< of a rule with a history; empty: max
    std::optional<float> tensor_amax{};  ///< amax of an NVFP4 tensor with these blocks; absent: the largest of them
};

/// A step, and the scales with which its tensor is cast.
struct ScaleTraceStep {
    std::int64_t step = 0;  ///< from 1
    float amax = 0, scale = 1, scale_inv = 1;
};

/// Returns a step for each amax. Errors: throws FieldError (usage) with the nearest name for unknown words, and for
/// options that the rule does not read.
std::vector<ScaleTraceStep> scale_trace(const ScaleQuestion& question);

}  // namespace macheps::study
