// SPDX-License-Identifier: Apache-2.0
// Plans the memory of a check. Computes a lower bound on the memory that the check uses, and how much memory may hold
// the limits of its outputs.
#pragma once
#include "experiments/check/check.hpp"

#include <cstdint>
#include <vector>

namespace macheps::check {

/// Default memory for the limits of all outputs, in bytes. If the limits need more memory, they are computed in panels,
/// a few rows at a time.
inline constexpr std::int64_t usual_limit_bytes = std::int64_t{2} << 30;

/// Returns a lower bound on the bytes that a check of these loaded arrays uses: the arrays, the outputs of one wrong
/// kernel, the operands and sums of a product, and the limits of all outputs if they are held. If only a sample of the
/// outputs is judged, nothing is counted for the outputs, their limits and their sums.
double min_bytes(const Declaration& declaration, const std::vector<files::StoredArray>& arrays, const Options& options);

/// Returns the bytes that the limits of outputs may take. Errors: throws FieldError for `memory` if min_bytes() is more
/// than options.memory, or more than this process may use.
std::int64_t plan_memory(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                         const Options& options);

}  // namespace macheps::check
