// SPDX-License-Identifier: Apache-2.0
// The orders of summation of `macheps sum`, for sixteen sums at a time: trials that share their terms, or seeds with
// different terms, are lanes of the same vectors.
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

/// The terms: numbers of the format, as doubles. With `y` the terms are products, each rounded when it is used.
struct SumTerms {
    const double* x = nullptr;
    const double* y = nullptr;  ///< null: the terms are x
    std::int64_t n = 0;
    bool is_shared = false;  ///< [n], the same in every lane; otherwise [n, sum_lanes]
};

/// The sums of the lanes. For a recursive sum also 1 plus the index of the last term that changed it.
struct LaneSums {
    LanePack value{};
    LaneSteps moved{};
};

/// Computes all methods except exact and machine. `parameter` is the B, S or K after the name. Random words are used in
/// the order of evaluation, the left operand before the right one.
LaneSums sum_in_lanes(LaneArithmetic& arithmetic, SumMethod method, std::int64_t parameter, const SumTerms& terms);

}  // namespace macheps::study
