// SPDX-License-Identifier: Apache-2.0
// Tests of stochastic rounding. Each output is one of the two numbers next to the exact result. The probability of the
// one away from zero is the fraction of the step that is cut off.
#pragma once
#include "experiments/check/judge/judge.hpp"

#include <optional>

namespace macheps::check {

/// Compares how often outputs were rounded away from zero with the probabilities of a legal kernel, for all outputs and
/// by the fraction that is cut off. Returns a reason if they disagree. A legal kernel exceeds these limits in at most
/// one of 1/delta checks.
std::optional<Reason> judge_frequencies(const Limits& limits, NumberView got, double delta);

}  // namespace macheps::check
