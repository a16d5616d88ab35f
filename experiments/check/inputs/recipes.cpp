// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/inputs/recipes.hpp"

#include "core/error.hpp"
#include "core/text/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace macheps::check {

std::span<const Recipe> recipes_of(const Operation& operation) {
    return operation.is_product ? product_recipes() : row_recipes();
}

const Recipe& find_recipe(const Operation& operation, std::string_view name, const std::string& where) {
    std::vector<std::string_view> names;
    for (const Recipe& recipe : recipes_of(operation)) {
        if (recipe.name == name) return recipe;
        names.push_back(recipe.name);
    }
    const std::string near = nearest_name(name, names);
    throw Error({.what = fmt::format("{} has no recipe '{}'", operation.name, name),
                 .where = where,
                 .fix = near.empty() ? fmt::format("use one of {}", fmt::join(names, ", "))
                                     : fmt::format("did you mean '{}'? use one of {}", near, fmt::join(names, ", ")),
                 .exit = Exit::usage});
}

std::vector<MadeInputs> make_inputs(const Recipe& recipe, const InputRequest& request) {
    Maker maker(request, recipe.name);
    recipe.make(maker);
    return maker.take();
}

}  // namespace macheps::check
