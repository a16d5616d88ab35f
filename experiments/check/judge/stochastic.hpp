// SPDX-License-Identifier: Apache-2.0
// Stochastic rounding: each output is one of the two numbers around the exact result, and the upper one as often as the part
// says that was cut off.
#pragma once
#include "experiments/check/judge/judge.hpp"

#include <optional>

namespace macheps::check {

/// How often outputs went up, all together and by the part that was cut off, against the probabilities of a legal kernel,
/// which exceeds these limits at most once in 1/delta checks. Nothing to say: no reason.
std::optional<Reason> judge_frequencies(const Limits& limits, NumberView got, double delta);

}  // namespace macheps::check
