// SPDX-License-Identifier: Apache-2.0
// Recipes of inputs: each is there for wrong kernels that others do not show. A new one is a row here and a function.
#pragma once
#include "experiments/check/inputs/draft.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace macheps::check {

struct Recipe {
    std::string_view name;
    std::string_view contents, shows;  ///< in words: what the numbers are, and what they are for
    /// Whether these formats, sizes and arrays allow it.
    bool (*applies)(const InputRequest& request);
    void (*make)(Maker& maker);
};

std::span<const Recipe> product_recipes();
std::span<const Recipe> row_recipes();
/// Those of an operation's kind, whether or not they apply.
std::span<const Recipe> recipes_of(const Operation& operation);
/// Throws Error (usage) with the nearest name.
const Recipe& find_recipe(const Operation& operation, std::string_view name, const std::string& where);

/// All inputs of one recipe. Precondition: it applies.
std::vector<MadeInputs> make_inputs(const Recipe& recipe, const InputRequest& request);

}  // namespace macheps::check
