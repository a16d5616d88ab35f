// SPDX-License-Identifier: Apache-2.0
// Wrong kernels that only inputs made for them show, and faults of a size that somebody chose. No check is weak for missing
// them unless it is asked to catch everything.
#pragma once
#include "experiments/check/power.hpp"

#include <functional>
#include <vector>

namespace macheps::check {

/// A wrong kernel's name, its results before their last rounding, and what it stores.
using TryMutant =
    std::function<void(const char* name, const std::vector<double>& exact, const std::vector<double>& outputs)>;

/// NaN swallowed, infinities and overflow made finite, subnormals flushed, accumulators that keep what they held. Of one that
/// changes nothing here both results are empty.
void for_special_mutants(const Problem& problem, const Limits& limits, ThreadPool& pool, const TryMutant& tries);

/// A stale element, and a row that is larger by 0.001: to compare inputs with each other. What a check would see of such
/// faults its sharpness says without a chosen size.
void add_size_mutants(const Limits& limits, std::vector<Mutant>& mutants);

}  // namespace macheps::check
