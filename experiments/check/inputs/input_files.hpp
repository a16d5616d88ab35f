// SPDX-License-Identifier: Apache-2.0
// Stores generated inputs in files, for the author of a kernel to load in a loop.
#pragma once
#include "experiments/check/inputs/draft.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <string>
#include <vector>

namespace macheps::check {

/// Returns the inputs as a file stores them, and an array `out` that is filled with canaries, which are known values.
/// Along its first axis, `out` has the declared number of extra entries after those that the kernel fills. Errors:
/// throws Error (usage) for packed codes in rows of odd length.
std::vector<files::StoredArray> stored_inputs(const MadeInputs& inputs);

/// Returns the text that files store as `recipe`: JSON that describes how the inputs were generated.
std::string recipe_text(const MadeInputs& inputs);

/// Returns a suite with one check, which has this declaration. The check reads all files in the folder of the suite
/// whose names end with `ending`, and fails if the file of one of `inputs` is missing.
std::string suite_text(const Declaration& declaration, const std::string& ending,
                       const std::vector<std::string>& inputs);

/// Returns an .npz archive. Formats that NumPy lacks are stored as unsigned codes (<u2, |u1), and `recipe` as |u1.
std::string npz_of(const std::vector<files::StoredArray>& arrays, const std::string& recipe);
/// Returns a .safetensors file with `recipe` in its metadata.
std::string safetensors_of(const std::vector<files::StoredArray>& arrays, const std::string& recipe);

}  // namespace macheps::check
