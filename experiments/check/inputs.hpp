// SPDX-License-Identifier: Apache-2.0
// Makes inputs before a kernel exists: recipes, the files that they make, and the wrong kernels that checks on them
// would catch. Public header of this folder.
#pragma once
#include "experiments/check/inputs/coverage.hpp"
#include "experiments/check/inputs/input_files.hpp"
#include "experiments/check/inputs/recipe_file.hpp"
#include "experiments/check/inputs/recipes.hpp"
