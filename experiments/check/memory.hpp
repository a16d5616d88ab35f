// SPDX-License-Identifier: Apache-2.0
// Plans the memory of a check: the least that it takes, and the bytes that remain for the limits of outputs.
#pragma once
#include "experiments/check/check.hpp"

#include <cstdint>
#include <vector>

namespace macheps::check {

/// The default for the limits of outputs. Larger checks compute them in panels.
inline constexpr std::int64_t usual_limit_bytes = std::int64_t{2} << 30;

/// Returns a lower bound on the bytes of a check of these arrays, which are loaded: the arrays, the outputs of one wrong kernel, the
/// operands and sums of a product, and the limits of all outputs if they are held. A sample counts as no outputs.
double least_bytes(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                   const Options& options);

/// Returns the bytes that the limits of outputs may take. Errors: throws FieldError for `memory` if least_bytes() is more than
/// options.memory, or more than this process may take.
std::int64_t plan_memory(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                         const Options& options);

}  // namespace macheps::check
