// SPDX-License-Identifier: Apache-2.0
// What the declared machine can promise on this data, whatever the kernel does: fp8 sums of Hopper that stall lose much
// legally, and their bounds know it.
#pragma once
#include "experiments/check/bounds/limits.hpp"
#include "experiments/check/verdict.hpp"

namespace macheps::check {

Fitness fitness_of(const Problem& problem, const Limits& limits);

}  // namespace macheps::check
