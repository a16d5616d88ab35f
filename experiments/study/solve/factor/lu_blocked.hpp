// SPDX-License-Identifier: Apache-2.0
// Update of the trailing matrix after a panel of a blocked factorisation. This is the part that a matrix unit computes.
#pragma once
#include "emulation/backend.hpp"
#include "experiments/study/solve/factor/lu.hpp"

#include <cstdint>
#include <string>

namespace macheps::study {

/// Updates the block below and to the right of the panel [first, last) in rows of `n` numbers: a22 = fl(C - l21 u12),
/// as in the plan. `Real`, float or double, holds the plan's format. `engine` computes the products if the plan has a
/// machine.
template <class Real>
void update_trailing(std::int64_t n, Real* a, std::int64_t first, std::int64_t last, const LuPlan& plan,
                     Backend& engine, ThreadPool& pool, Simd simd);

/// Returns the reason why this plan does not allow a blocked update. Empty if the plan allows it.
std::string why_no_update(const LuPlan& plan);

}  // namespace macheps::study
