// SPDX-License-Identifier: Apache-2.0
// What Apex's levels compute, also for frameworks that hand their options on to it.
#pragma once
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <string_view>

namespace macheps::configs::apex {

/// Of O0 to O3; of O1 for any other text.
const StorageRecipe& recipe(std::string_view level);

/// apex.amp's dynamic scaler: from 2^16, twice as much after 2000 clean steps, within the floor and the ceiling (a floor of 0
/// is none).
FieldValue dynamic_scaler(double floor = 0, double ceiling = 0x1p24);

}  // namespace macheps::configs::apex
