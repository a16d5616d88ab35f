// SPDX-License-Identifier: Apache-2.0
// Update of the trailing matrix after a panel of a blocked factorisation. This is the part that a matrix unit computes.
#pragma once
#include "emulation/backend.hpp"
#include "experiments/study/solve/factor/lu.hpp"

#include <cstdint>
#include <string>

namespace macheps::study {

/// Updates the block below and to the right of the panel [first, last) of an n x n matrix: a22 = fl(C - l21 u12), see
/// LuPlan::rule. `Real` is float or double and holds all numbers of the plan's format. `engine` computes the products
/// if the plan has a rule.
template <class Real>
void update_trailing(std::int64_t n, Real* a, std::int64_t first, std::int64_t last, const LuPlan& plan,
                     Backend& engine, ThreadPool& pool, Simd simd);

/// Returns the reason why the plan does not allow a blocked update, or an empty text if it does.
std::string why_no_update(const LuPlan& plan);

}  // namespace macheps::study
