// SPDX-License-Identifier: Apache-2.0
// Plans the memory of a check: a lower bound on what it uses, and the bytes that remain for the limits of outputs.
#pragma once
#include "experiments/check/check.hpp"

#include <cstdint>
#include <vector>

namespace macheps::check {

/// Default number of bytes for the limits of outputs. Larger checks compute them in panels.
inline constexpr std::int64_t usual_limit_bytes = std::int64_t{2} << 30;

/// Returns a lower bound on the bytes that a check of these loaded arrays uses: the arrays, the outputs of one wrong
/// kernel, the operands and sums of a product, and the limits of all outputs if they are held. The outputs of a sample
/// are not counted.
double min_bytes(const Declaration& declaration, const std::vector<files::StoredArray>& arrays, const Options& options);

/// Returns the bytes that the limits of outputs may take. Errors: throws FieldError for `memory` if min_bytes() is
/// more than options.memory, or more than this process may take.
std::int64_t plan_memory(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                         const Options& options);

}  // namespace macheps::check
