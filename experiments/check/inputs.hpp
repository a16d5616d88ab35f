// SPDX-License-Identifier: Apache-2.0
// Inputs for kernels before there are kernels: recipes, the files they make, and what checks on them would catch. The
// second door of this folder.
#pragma once
#include "experiments/check/inputs/coverage.hpp"
#include "experiments/check/inputs/input_files.hpp"
#include "experiments/check/inputs/recipe_file.hpp"
#include "experiments/check/inputs/recipes.hpp"
