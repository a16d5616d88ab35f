// SPDX-License-Identifier: Apache-2.0
// Wrong kernels that only specially made inputs expose, and wrong kernels with a fault of a fixed size. A check that
// misses one of them is weak only with `--require all`.
#pragma once
#include "experiments/check/power/trial.hpp"

#include <vector>

namespace macheps::check {

/// Adds wrong kernels that replace NaN by 0, return the largest finite number instead of an infinity, flush subnormal
/// numbers, or do not clear their accumulators.
void add_special_mutants(Trial& trial, const Problem& problem);

/// Adds a wrong kernel with one stale element, and a wrong kernel with one row that is multiplied by 1.001.
/// coverage_of() uses these mutants to compare inputs. A check does not use them, because it reports the smallest
/// faults of these kinds that it would notice (Sharpness).
void add_size_mutants(Trial& trial);

}  // namespace macheps::check
