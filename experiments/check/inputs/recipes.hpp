// SPDX-License-Identifier: Apache-2.0
// Recipes for inputs. Each recipe exposes wrong kernels that the other recipes miss. To add one, add a function and a
// row to product_recipes.cpp or row_recipes.cpp.
#pragma once
#include "experiments/check/inputs/draft.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace macheps::check {

struct Recipe {
    std::string_view name;
    std::string_view contents, shows;  ///< texts for users: the numbers, and the errors that they expose
    /// Returns true if the recipe can be used with these formats, sizes and arrays.
    bool (*applies)(const InputRequest& request);
    void (*make)(Maker& maker);
};

std::span<const Recipe> product_recipes();
std::span<const Recipe> row_recipes();
/// Returns the recipes for this kind of operation, including those that do not apply.
std::span<const Recipe> recipes_of(const Operation& operation);
/// Returns the recipe of this name. Errors: throws Error (usage) with the nearest name.
const Recipe& find_recipe(const Operation& operation, std::string_view name, const std::string& where);

/// Returns all inputs of one recipe. Precondition: the recipe applies to the request.
std::vector<MadeInputs> make_inputs(const Recipe& recipe, const InputRequest& request);

}  // namespace macheps::check
