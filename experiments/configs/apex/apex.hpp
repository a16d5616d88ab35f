// SPDX-License-Identifier: Apache-2.0
// Storage recipes of Apex's optimisation levels. Importers of frameworks that pass options on to Apex use them too.
#pragma once
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <string_view>

namespace macheps::configs::apex {

/// Returns the storage recipe of a level from O0 to O3. Any other text gives the recipe of O1.
const StorageRecipe& recipe(std::string_view level);

/// Returns apex.amp's dynamic scaler. It starts at 2^16, doubles after 2000 steps without overflow, and stays between
/// the floor and the ceiling. A floor of 0 means no floor.
FieldValue dynamic_scaler(double floor = 0, double ceiling = 0x1p24);

}  // namespace macheps::configs::apex
