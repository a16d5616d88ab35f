// SPDX-License-Identifier: Apache-2.0
// Computes the bytes per parameter of a policy or of a framework's config.
#pragma once
#include "experiments/configs/import.hpp"
#include "experiments/policy/memory_bytes.hpp"
#include "experiments/policy/policy.hpp"

namespace macheps::configs {

/// Returns the memory recipe of a policy: the mean bytes per parameter over the parameters of `sites`, the model that
/// the policy was resolved for. The recipe has no name.
policy::MemoryRecipe memory_recipe_of(const policy::SiteList& sites, const policy::ResolvedPolicy& policy);
/// Returns the memory recipe of a framework's config.
policy::MemoryRecipe memory_recipe_of(const ImportResult& config);

}  // namespace macheps::configs
