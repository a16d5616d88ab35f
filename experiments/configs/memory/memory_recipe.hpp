// SPDX-License-Identifier: Apache-2.0
// Bytes per parameter of a policy or of a framework's config.
#pragma once
#include "experiments/configs/import.hpp"
#include "experiments/policy/memory_bytes.hpp"
#include "experiments/policy/policy.hpp"

namespace macheps::configs {

/// Returns the recipe of a policy, without a name: the mean over the parameters of `sites`, for which the policy was
/// resolved.
policy::MemoryRecipe memory_recipe_of(const policy::SiteList& sites, const policy::ResolvedPolicy& policy);
/// Returns the recipe of a framework's config.
policy::MemoryRecipe memory_recipe_of(const ImportResult& config);

}  // namespace macheps::configs
