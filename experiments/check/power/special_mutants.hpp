// SPDX-License-Identifier: Apache-2.0
// Wrong kernels that only inputs made for them show, and faults of a fixed size. A check that misses them is weak only
// if it must catch everything.
#pragma once
#include "experiments/check/power/trial.hpp"

#include <vector>

namespace macheps::check {

/// Adds kernels that swallow NaN, make infinities and overflow finite, flush subnormals, or do not clear their
/// accumulators.
void add_special_mutants(Trial& trial, const Problem& problem);

/// Adds a kernel with one stale element, and one with a row that is larger by a factor of 1.001. They serve to compare
/// inputs with each other. For a check, Sharpness gives the smallest such fault that it would notice.
void add_size_mutants(Trial& trial);

}  // namespace macheps::check
