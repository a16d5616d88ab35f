// SPDX-License-Identifier: Apache-2.0
// Plans the memory of a check. Computes a lower bound on the memory that the check uses. Decides how much memory the
// limits of the outputs may take.
#pragma once
#include "experiments/check/check.hpp"

#include <cstdint>
#include <vector>

namespace macheps::check {

/// Default memory for the limits of all outputs, in bytes. If the limits need more memory, they are computed in panels,
/// a few rows at a time.
inline constexpr std::int64_t usual_limit_bytes = std::int64_t{2} << 30;

/// Returns a lower bound on the bytes that a check of these loaded arrays uses: the arrays, the outputs of one wrong
/// kernel, the operands and sums of a product, and, unless they are computed in panels, the limits of all outputs. If
/// only a sample of the outputs is judged, the bound does not include the outputs, their limits and their sums.
double min_bytes(const Declaration& declaration, const std::vector<files::StoredArray>& arrays, const Options& options);

/// Returns the bytes that the limits of outputs may take. Errors: throws FieldError for `memory` if min_bytes() is more
/// than options.memory, or more than this process may use.
std::int64_t plan_memory(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                         const Options& options);

}  // namespace macheps::check
