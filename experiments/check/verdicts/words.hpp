// SPDX-License-Identifier: Apache-2.0
// Describes problems and reasons in words.
#pragma once
#include "experiments/check/check.hpp"

#include <string>

namespace macheps::check {

/// Returns a description of the problem, such as
/// `gemm  bf16[64, 32] x bf16[32, 48], machine any order of fp32 sums -> bf16`.
std::string problem_text(const Problem& problem);

/// Returns a line with the code of a reason, the test and its result. If the reason is about one output, a second line
/// gives the index of the output and its values.
std::string reason_text(const Limits& limits, const Reason& reason);

}  // namespace macheps::check
