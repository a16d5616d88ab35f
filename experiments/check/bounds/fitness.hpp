// SPDX-License-Identifier: Apache-2.0
// Computes how much accuracy the declared machine guarantees on this data, whatever the kernel does. The guarantee can
// be weak. For example, fp8 sums on Hopper may stall and legally lose most of their digits, so their bounds are wide.
#pragma once
#include "experiments/check/bounds/limits.hpp"
#include "experiments/check/verdict.hpp"

namespace macheps::check {

Fitness fitness_of(const Problem& problem, const Limits& limits);

}  // namespace macheps::check
