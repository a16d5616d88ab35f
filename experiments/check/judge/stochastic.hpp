// SPDX-License-Identifier: Apache-2.0
// Tests stochastic rounding. A legal kernel returns one of the two numbers of the format next to the exact result. It
// rounds away from zero with a probability that equals the fraction that truncation would cut off.
#pragma once
#include "experiments/check/judge/judge.hpp"

#include <optional>

namespace macheps::check {

/// Compares how often outputs were rounded away from zero with the probabilities of a legal kernel. Tests all outputs
/// together, and groups of outputs. The outputs of a group are those from which truncation would cut off a similar
/// fraction of a step. Returns a reason if one of these frequencies is improbable. A legal kernel fails this test with
/// at most the probability `delta`.
std::optional<Reason> judge_frequencies(const Limits& limits, NumberView got, double delta);

}  // namespace macheps::check
