// SPDX-License-Identifier: Apache-2.0
// The tests that compare outputs with their limits. T0 tests NaN and infinities, T1 the certain bounds, T2 the probable
// bounds, and T3 mean squares and bias. No threshold was chosen for a particular kernel.
#pragma once
#include "experiments/check/judge/codes.hpp"
#include "experiments/check/judge/premise.hpp"
#include "experiments/check/verdict.hpp"

#include <span>
#include <string>
#include <vector>

namespace macheps::check {

struct JudgeOptions {
    /// Tests whether rounding errors are independent on this data, as T2 and T3 assume. Null skips this test.
    Premise* premise = nullptr;
    bool certain_only = false;    ///< skips T2
    bool stops_at_first = false;  ///< stops at the first reason
    bool only_together = false;   ///< runs only T3; T0 to T2 are known to accept the outputs
    ThreadPool* pool = nullptr;   ///< null: uses one thread; the result is the same
};

Judgement judge(const Limits& limits, NumberView got, const JudgeOptions& options = {});

/// Returns true if T0, T1 or T2 refuses any output in `got`, which holds the outputs from index `first` on.
bool refuses_any(const Limits& limits, std::int64_t first, NumberView got, Premise* premise = nullptr);

/// Returns the index of an output among all of the kernel's outputs. The result differs from `index` only if `limits`
/// covers a sample of the outputs.
std::int64_t whole_index(const Limits& limits, std::int64_t index);
/// Returns the row and column of one of the kernel's outputs as text, such as `(3, 5)`, or `(5)` if there is only one
/// row.
std::string place_of(const Limits& limits, std::int64_t whole_index);

}  // namespace macheps::check
