// SPDX-License-Identifier: Apache-2.0
// Finds the wrong kernels with which the outputs of a failed check agree.
#pragma once
#include "experiments/check/power/power.hpp"

#include <string>
#include <vector>

namespace macheps::check {

/// Returns the names of the wrong kernels whose own limits all outputs satisfy. The limits of a wrong kernel follow from
/// its exact results and its roundings, in the same way as those of a legal kernel. A wrong kernel is left out if its
/// limits are larger than most of its outputs, because any output would satisfy such limits. Precondition: `out` does
/// not satisfy the limits of a legal kernel.
std::vector<std::string> agreeing_kernels(const Problem& problem, NumberView out, double delta, ThreadPool& pool);

}  // namespace macheps::check
