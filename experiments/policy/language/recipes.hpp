// SPDX-License-Identifier: Apache-2.0
// A recipe describes, under one name, how a library computes linears in low precision. `recipe = "te-block"` in a rule
// for sites has the same effect as writing the slots and keys of the recipe's row into the rule. Other keys of the rule
// change these settings. A recipe describes only linears. Everything else is described by the rest of the policy, for
// example by amp-bf16. If the library is written for one machine, the recipe sets this machine; otherwise, it sets
// none. A later rule may set another machine.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace macheps::policy {

struct Recipe {
    std::string_view name;  ///< `te-block`; te_block is also accepted
    int multiple_of = 0;    ///< a linear with a side that is not a multiple of this stays unchanged; 0: any side
    std::string_view rule;  ///< tables of a rule for sites, in the policy language: `forward = { ... }`
    std::string_view source, summary;
};

std::span<const Recipe> all_recipes();
/// Returns the recipe of that name, or nullptr.
const Recipe* find_recipe(std::string_view name);
/// Returns the recipe of that name. If the name is unknown, throws Error that names `where` and suggests the nearest
/// name.
const Recipe& recipe_named(std::string_view name, const std::string& where);

/// Returns the name with hyphens instead of underscores: `te-block` for `te_block`.
std::string with_hyphens(std::string_view name);

}  // namespace macheps::policy
