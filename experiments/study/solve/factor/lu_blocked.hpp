// SPDX-License-Identifier: Apache-2.0
// The update of what is left of a matrix after a panel of a blocked factorisation: where a matrix unit does the work.
#pragma once
#include "emulation/backend.hpp"
#include "experiments/study/solve/factor/lu.hpp"

#include <cstdint>
#include <string>

namespace macheps::study {

/// The block below and beside the panel [first, last) of rows of `n` numbers: a22 = fl(C - l21 u12), as the plan says.
/// `Real`, float or double, holds the plan's format. `engine` makes the products of a plan with a machine.
template <class Real>
void update_trailing(std::int64_t n, Real* a, std::int64_t first, std::int64_t last, const LuPlan& plan,
                     Backend& engine, ThreadPool& pool, Simd simd);

/// Why no blocked update can be made of this plan; empty where one can.
std::string why_no_update(const LuPlan& plan);

}  // namespace macheps::study
