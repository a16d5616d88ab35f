// SPDX-License-Identifier: Apache-2.0
// Tells files that make-inputs wrote from files that hold somebody's work, so that make-inputs does not overwrite work.
#pragma once
#include <string>

namespace macheps::check {

/// Returns whether a file of arrays is one of make-inputs whose kernel has not run: it has a recipe, it has only arrays
/// of the operation, and `out` holds the canaries. Returns false for a file that cannot be read.
bool is_made_file(const std::string& file);

}  // namespace macheps::check
