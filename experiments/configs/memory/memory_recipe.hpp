// SPDX-License-Identifier: Apache-2.0
// The bytes per parameter of a policy or of a framework's config.
#pragma once
#include "experiments/configs/import.hpp"
#include "experiments/policy/memory_bytes.hpp"
#include "experiments/policy/policy.hpp"

namespace macheps::configs {

/// The recipe of a policy: the mean over the parameters of `sites`, which the policy was resolved against. It has no name.
policy::MemoryRecipe memory_recipe_of(const policy::SiteList& sites, const policy::ResolvedPolicy& policy);
/// The recipe of a framework's config.
policy::MemoryRecipe memory_recipe_of(const ImportResult& config);

}  // namespace macheps::configs
