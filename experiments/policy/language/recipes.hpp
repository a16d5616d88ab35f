// SPDX-License-Identifier: Apache-2.0
// Recipes: how a library computes linears in low precision, by one name. A policy says `recipe = "te-block"` in a rule
// for sites; it means the slots and keys that stand in the recipe's row, and what else the rule says changes them. A
// recipe is about linears alone; what surrounds them is the rest of the policy, such as amp-bf16. It names no machine, or
// the one that its library is written for: a later rule may name another.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace macheps::policy {

struct Recipe {
    std::string_view name;  ///< `te-block`; te_block is the same
    int multiple_of = 0;    ///< linears whose sides are no multiples of it are not computed so
    std::string_view rule;  ///< in the language of policies: the groups of slots of a rule for sites
    std::string_view source, summary;
};

std::span<const Recipe> all_recipes();
/// The recipe of that name, or nullptr.
const Recipe* find_recipe(std::string_view name);
/// The same; throws Error naming `where`, with the nearest name, when there is none.
const Recipe& recipe_named(std::string_view name, const std::string& where);

/// `te_block` as `te-block`.
std::string with_hyphens(std::string_view name);

}  // namespace macheps::policy
