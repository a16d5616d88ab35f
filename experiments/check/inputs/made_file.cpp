// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/inputs/made_file.hpp"

#include "core/error.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/inputs/draft.hpp"
#include "experiments/check/inputs/recorded_recipe.hpp"
#include "experiments/check/pose/canary.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace macheps::check {

bool is_made_file(const std::string& file) {
    try {
        const std::optional<RecordedRecipe> recipe = recorded_recipe(file);
        if (!recipe) return false;
        const std::vector<std::string> roles = array_roles(*recipe->declaration.operation);
        const Format format = InputRequest{.declaration = recipe->declaration}.format("out");
        bool has_canaries = false;
        for (const files::StoredArray& array : files::read_arrays(file)) {
            if (array.name == recipe_array) continue;
            if (std::find(roles.begin(), roles.end(), array.name) == roles.end()) return false;
            if (array.name == "out")
                has_canaries = array.bytes == canary_bytes(format, array.bytes.size() / files::element_bytes(format));
        }
        return has_canaries;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace macheps::check
