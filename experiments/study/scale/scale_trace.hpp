// SPDX-License-Identifier: Apache-2.0
// What a scale rule makes of a sequence of largest magnitudes, without a tensor.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace macheps::study {

/// What is asked, in the words of a policy.
struct ScaleQuestion {
    std::string rule;
    std::vector<float> amax;
    std::string format{};  ///< of the elements; empty: e4m3fn, or e2m1fn where the rule is for it
    std::optional<std::int64_t> history{}, margin{};
    std::string algorithm{};             ///< of a delayed rule: max where it is empty
    std::optional<float> tensor_amax{};  ///< of an NVFP4 tensor whose blocks have these amaxes: the largest of them
};

/// A step, and the scales that its own tensor is cast with.
struct ScaleTraceStep {
    std::int64_t step = 0;  ///< from 1
    float amax = 0, scale = 1, scale_inv = 1;
};

/// Errors: throws FieldError (usage) with the nearest name for unknown words, and for what the rule does not read.
std::vector<ScaleTraceStep> scale_trace(const ScaleQuestion& question);

}  // namespace macheps::study
