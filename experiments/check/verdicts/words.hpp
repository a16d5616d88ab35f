// SPDX-License-Identifier: Apache-2.0
// A problem and its verdict in words.
#pragma once
#include "experiments/check/check.hpp"

#include <string>

namespace macheps::check {

/// `gemm  bf16[64, 32] x bf16[32, 48], machine any order of fp32 sums -> bf16`.
std::string problem_text(const Problem& problem);

/// The code, the test and what it found; the place below, where there is one.
std::string reason_text(const Limits& limits, const Reason& reason);

}  // namespace macheps::check
