// SPDX-License-Identifier: Apache-2.0
// Made inputs as files that a kernel's author loads in a loop.
#pragma once
#include "experiments/check/inputs/draft.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <string>
#include <vector>

namespace macheps::check {

/// The inputs as a file holds them, and `out` of canaries: as many entries more along its first axis than the kernel
/// fills as the declaration says. Errors: throws Error (usage) for packed codes in rows of an odd number.
std::vector<files::StoredArray> stored_inputs(const MadeInputs& inputs);

/// What `recipe` says in a file: how its numbers came about, as JSON.
std::string recipe_text(const MadeInputs& inputs);

/// An .npz archive; codes that NumPy has no type for are <u2 and |u1, `recipe` is |u1 text.
std::string npz_of(const std::vector<files::StoredArray>& arrays, const std::string& recipe);
/// A .safetensors file; `recipe` is metadata.
std::string safetensors_of(const std::vector<files::StoredArray>& arrays, const std::string& recipe);

}  // namespace macheps::check
