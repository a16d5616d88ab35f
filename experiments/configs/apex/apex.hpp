// SPDX-License-Identifier: Apache-2.0
// The recipes of Apex's levels, also for frameworks that pass their options on to Apex.
#pragma once
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <string_view>

namespace macheps::configs::apex {

/// Returns the recipe of O0 to O3, or of O1 for any other text.
const StorageRecipe& recipe(std::string_view level);

/// Returns apex.amp's dynamic scaler. It starts at 2^16, doubles after 2000 clean steps and stays between the floor and
/// the ceiling. A floor of 0 means no floor.
FieldValue dynamic_scaler(double floor = 0, double ceiling = 0x1p24);

}  // namespace macheps::configs::apex
