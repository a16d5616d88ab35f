// SPDX-License-Identifier: Apache-2.0
// The orders of summation of `macheps sum`. Sixteen sums are computed at a time, one per vector lane. They are trials
// with the same terms, or seeds with different terms.
#pragma once
#include "experiments/study/sum/steps.hpp"

#include <cstdint>

namespace macheps::study {

enum class SumMethod : std::uint8_t {
    recursive,
    pairwise,
    blocked,
    lanes,
    torch,
    splitk,
    kahan,
    neumaier,
    sum2,
    sum_k,
    chain,
    dot2,
    exact,
    machine
};

/// The terms of a sum: numbers of the format, stored as doubles. If `y` is set, the terms are the products x_i y_i.
/// Each product is rounded when it is used, except in an fma.
struct SumTerms {
    const double* x = nullptr;
    const double* y = nullptr;  ///< null: the terms are x
    std::int64_t n = 0;
    bool is_shared = false;  ///< true: x and y are [n], the same in every lane; false: [n, sum_lanes]
};

/// The sum of each lane. For recursive sums, `moved` is 1 plus the index of the last term that changed the sum.
struct LaneSums {
    LanePack value{};
    LaneSteps moved{};
};

/// Computes sums by any method except `exact` and `machine`. `parameter` is the number after the method's name (B, S or
/// K). Random words are used in the order of evaluation, where the left operand comes before the right one.
LaneSums sum_in_lanes(LaneArithmetic& arithmetic, SumMethod method, std::int64_t parameter, const SumTerms& terms);

}  // namespace macheps::study
