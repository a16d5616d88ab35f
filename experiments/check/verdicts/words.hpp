// SPDX-License-Identifier: Apache-2.0
// Describes problems and reasons in words.
#pragma once
#include "experiments/check/check.hpp"

#include <string>

namespace macheps::check {

/// Returns a text such as `gemm  bf16[64, 32] x bf16[32, 48], machine any order of fp32 sums -> bf16`.
std::string problem_text(const Problem& problem);

/// Returns the code, the test and its finding, followed by a line with the place, if there is one.
std::string reason_text(const Limits& limits, const Reason& reason);

}  // namespace macheps::check
