// SPDX-License-Identifier: Apache-2.0
// Recipes: how a library computes linears in low precision, under one name. `recipe = "te-block"` in a rule for sites
// stands for the slots and keys in the recipe's row, and the other keys of the rule change them. A recipe only
// describes linears. The rest of the policy, for example amp-bf16, describes everything else. A recipe names no
// machine, or the one that its library is written for. A later rule may name another.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace macheps::policy {

struct Recipe {
    std::string_view name;  ///< `te-block`; te_block is also accepted
    int multiple_of = 0;    ///< linears are left out if one of their sides is not a multiple of it
    std::string_view rule;  ///< groups of slots of a rule for sites, in the policy language
    std::string_view source, summary;
};

std::span<const Recipe> all_recipes();
/// Returns the recipe of that name, or nullptr.
const Recipe* find_recipe(std::string_view name);
/// Returns the recipe of that name. If there is none, throws Error that names `where` and suggests the nearest name.
const Recipe& recipe_named(std::string_view name, const std::string& where);

/// Returns `te_block` as `te-block`.
std::string with_hyphens(std::string_view name);

}  // namespace macheps::policy
