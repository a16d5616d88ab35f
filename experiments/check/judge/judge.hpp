// SPDX-License-Identifier: Apache-2.0
// The tests of outputs against their limits: structure and specials (T0), certain bounds (T1), probable bounds (T2), mean
// squares and bias (T3). None has a number that somebody chose for a kernel.
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
    bool certain_only = false;    ///< T2 is said, and fails nothing
    bool stops_at_first = false;  ///< one reason is enough
    bool only_together = false;   ///< T3 alone: no single output is refused, and that is known
    ThreadPool* pool = nullptr;   ///< else one thread does it; the judgement is the same
};

Judgement judge(const Limits& limits, NumberView got, const JudgeOptions& options = {});

/// True where T0, T1 or T2 refuses one of `got`, which are the outputs from `first` on.
bool refuses_any(const Limits& limits, std::int64_t first, NumberView got, Premise* premise = nullptr);

/// The place of an output among all of the kernel's, of which these may be a sample.
std::int64_t whole_index(const Limits& limits, std::int64_t index);
/// A place among all of the kernel's outputs: `(3, 5)`, or `(5)` where they are a row.
std::string place_of(const Limits& limits, std::int64_t whole_index);

}  // namespace macheps::check
