// SPDX-License-Identifier: Apache-2.0
// The orders of summation of `macheps sum`, sixteen sums at a time: trials that share their terms, or seeds with terms of their
// own, stand side by side in vectors.
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

/// What is added: numbers of the format, as doubles. With `y` the terms are products, each rounded where it is used.
struct SumTerms {
    const double* x = nullptr;
    const double* y = nullptr;  ///< null: sums
    std::int64_t n = 0;
    bool is_shared = false;  ///< [n], the same in every lane; else [n, sum_lanes]
};

/// The sums of the lanes, and, of a recursive sum, the index behind the last term that moved it.
struct LaneSums {
    LanePack value{};
    LaneSteps moved{};
};

/// All methods but exact and machine; `parameter` is the B, S or K behind the name. Random words are taken in the order of
/// evaluation, the left operand before the right one.
LaneSums sum_in_lanes(LaneArithmetic& arithmetic, SumMethod method, std::int64_t parameter, const SumTerms& terms);

}  // namespace macheps::study
