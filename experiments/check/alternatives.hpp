// SPDX-License-Identifier: Apache-2.0
// Finds other declarations that fit a kernel. A kernel may fail only because its declaration lacks a property. A kernel
// that passes may be much better than declared; a check with a tighter declaration would then detect more.
#pragma once
#include "experiments/check/check.hpp"

#include <string>
#include <vector>

namespace macheps::check {

/// Returns the looser or different declaration under which a failing output would pass and whose bounds are narrowest.
/// The option of the result is empty if no such declaration is known.
Alternative explaining(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                       const Sampling& sampling, ThreadPool& pool);

/// Returns whether a matrix unit that reads the operands of this product could have made all errors of a failing output.
/// No error is then larger than the bound of the unit for its output.
bool may_be_a_matrix_unit(const Problem& problem, const Limits& limits, NumberView out);

/// Returns the tighter declarations under which a passing output would still pass, the tightest first. Declarations
/// whose bounds are less than 1.5 times narrower are omitted.
std::vector<Alternative> tighter(const Declaration& declaration, const Limits& limits,
                                 const std::vector<files::StoredArray>& arrays, const Sampling& sampling,
                                 ThreadPool& pool);

}  // namespace macheps::check
