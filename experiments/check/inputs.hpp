// SPDX-License-Identifier: Apache-2.0
// Generates inputs for checks before a kernel exists: recipes, the files that they write, and the wrong kernels that
// checks on these files would catch. This is the public header of this folder.
#pragma once
#include "experiments/check/inputs/coverage.hpp"
#include "experiments/check/inputs/input_files.hpp"
#include "experiments/check/inputs/made_file.hpp"
#include "experiments/check/inputs/recipe_file.hpp"
#include "experiments/check/inputs/recipes.hpp"
#include "experiments/check/inputs/recorded_recipe.hpp"
