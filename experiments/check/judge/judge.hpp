// SPDX-License-Identifier: Apache-2.0
// The tests of outputs against their limits: structure and specials (T0), certain bounds (T1), probable bounds (T2), mean
// squares and bias (T3). None has a number that somebody chose for a kernel.
#pragma once
#include "experiments/check/judge/codes.hpp"
#include "experiments/check/judge/premise.hpp"

#include <span>
#include <string>
#include <vector>

namespace macheps::check {

/// Why a check did not pass.
struct Reason {
    std::string code, test, text{};
    std::int64_t index = -1;  ///< the output that is farthest off, or first
    std::int64_t count = 0;   ///< outputs that the test refuses
    double got = 0, want = 0, bound = 0, ratio = 0;
    std::string mutant{};  ///< of a check that is weak: what it could not have caught
};

struct Judgement {
    std::vector<Reason> reasons{};
    double rho = 0;     ///< the largest error, in certain bounds
    /// Of all outputs: (mean square - 1) / sqrt(8 / n), where above 1 equal outputs count as one.
    double z = 0;
    double z_part = 0;  ///< the largest of any row, column, tile or group
    double z_rows = 0, z_columns = 0, z_tiles = 0,
           z_groups = 0;  ///< the largest of each kind; 0 where none is positive
    double bias = 0, bias_limit = 0;
    double mean_square = 0;  ///< of errors in their deviations
    std::int64_t outputs = 0, exact_outputs = 0;
    /// Codes of T2 and T3 that would refuse the outputs but do not decide, because errors are not independent there.
    std::vector<std::string> dismissed{};
};

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
