// SPDX-License-Identifier: Apache-2.0
// Accuracy that the declared machine guarantees on this data, whatever the kernel does. For example, fp8 sums on Hopper
// that stall may legally lose most of their digits, and their bounds account for it.
#pragma once
#include "experiments/check/bounds/limits.hpp"
#include "experiments/check/verdict.hpp"

namespace macheps::check {

Fitness fitness_of(const Problem& problem, const Limits& limits);

}  // namespace macheps::check
