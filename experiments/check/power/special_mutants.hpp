// SPDX-License-Identifier: Apache-2.0
// Wrong kernels that only inputs made for them show, and faults of a size that somebody chose. No check is weak for missing
// them unless it is asked to catch everything.
#pragma once
#include "experiments/check/power/trial.hpp"

#include <vector>

namespace macheps::check {

/// NaN swallowed, infinities and overflow made finite, subnormals flushed, accumulators that keep what they held.
void add_special_mutants(Trial& trial, const Problem& problem);

/// A stale element, and a row that is larger by 0.001: to compare inputs with each other. What a check would see of such
/// faults its sharpness says without a chosen size.
void add_size_mutants(Trial& trial);

}  // namespace macheps::check
