// SPDX-License-Identifier: Apache-2.0
// Advice on weak checks: recipes of `check make-inputs` whose inputs show the wrong kernels that the check missed.
#pragma once
#include "experiments/check/declare/declaration.hpp"
#include "experiments/check/verdict.hpp"

#include <span>
#include <string>
#include <vector>

namespace macheps {
class ThreadPool;
}

namespace macheps::check {

/// Makes small inputs with each recipe. For each wrong kernel in `blind`, which a check missed, returns a recipe whose
/// inputs expose it. A wrong kernel that no recipe exposes gets no advice.
std::vector<Advice> advise(const Declaration& declaration, std::int64_t row_elements,
                           std::span<const std::string> blind, double delta, ThreadPool& pool);

}  // namespace macheps::check
