// SPDX-License-Identifier: Apache-2.0
// What to do about a weak check: recipes of `check make-inputs` whose inputs show the wrong kernels that it could not catch.
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

/// Small inputs of each recipe are made and tried. `blind`: names of wrong kernels; those that no recipe shows have no advice.
std::vector<Advice> advise(const Declaration& declaration, std::int64_t row_elements,
                           std::span<const std::string> blind, double delta, ThreadPool& pool);

}  // namespace macheps::check
