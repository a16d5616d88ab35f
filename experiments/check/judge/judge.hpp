// SPDX-License-Identifier: Apache-2.0
// The tests of outputs against their limits: structure and specials (T0), certain bounds (T1), probable bounds (T2),
// mean squares and bias (T3). No test has a threshold that was chosen for a particular kernel.
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
    bool only_together = false;   ///< runs T3 alone, because T0 to T2 are known to refuse nothing
    ThreadPool* pool = nullptr;   ///< null: one thread, with the same judgement
};

Judgement judge(const Limits& limits, NumberView got, const JudgeOptions& options = {});

/// Returns true if T0, T1 or T2 refuses any of `got`, which are the outputs from `first` on.
bool refuses_any(const Limits& limits, std::int64_t first, NumberView got, Premise* premise = nullptr);

/// Returns the index of an output among all of the kernel's outputs. They differ if the limits are those of a sample.
std::int64_t whole_index(const Limits& limits, std::int64_t index);
/// Returns the place of one of the kernel's outputs as text: `(3, 5)`, or `(5)` if there is only one row.
std::string place_of(const Limits& limits, std::int64_t whole_index);

}  // namespace macheps::check
