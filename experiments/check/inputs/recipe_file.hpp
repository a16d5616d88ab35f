// SPDX-License-Identifier: Apache-2.0
// Reads requests for inputs from recipe files, from suites, and from sizes on the command line.
#pragma once
#include "experiments/check/inputs/draft.hpp"
#include "experiments/check/inputs/recipes.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// The inputs to generate for one declaration.
struct InputPlan {
    std::string name;  ///< name of the check in a suite; otherwise name of the operation
    InputRequest request{};
    std::vector<const Recipe*> recipes{};  ///< empty: all that apply are tried, and least_set() selects inputs
    std::string declined{};                ///< reason why no inputs can be made; otherwise empty
};

/// Sets one of batches, group_rows, m, n, k, rows, columns or seed. Errors: throws Error (usage) if the operation has
/// no such size, or if an array would have more than 2^28 elements.
void set_size(InputRequest& request, std::string_view name, std::int64_t value, const std::string& where);
/// Sets the number of rows of each group of a product. Sets m to their sum or, if group_rows is set, to group_rows
/// times the number of groups. Errors: throws Error (usage) as set_size() does.
void set_groups(InputRequest& request, const std::vector<std::int64_t>& sizes, const std::string& where);
/// Sets the sizes `m,n,k`, `batches,m,n,k`, or `rows,columns`.
void set_shape(InputRequest& request, const std::vector<std::int64_t>& shape, const std::string& where);

/// Returns the inputs of the recipes in `plan.recipes`, or of all recipes that apply if that list is empty. Errors:
/// throws Error (usage) if a listed recipe does not apply.
std::vector<MadeInputs> all_inputs(const InputPlan& plan);

/// Returns the plans in the text of a file. A recipe file has one plan, in its table [recipe]. A suite has one plan for
/// each [[check]]. The keys of [recipe] are op, inputs, seed, the sizes, and the keys of a declaration. Plans for
/// checks of a suite have the default sizes. Errors: throws Error (usage) with line and column.
std::vector<InputPlan> parse_plans(std::string_view text, const std::string& file);
/// Reads a file of plans. Errors: throws Error (bad input) if it cannot be read, and otherwise as parse_plans() does.
std::vector<InputPlan> load_plans(const std::filesystem::path& file);

}  // namespace macheps::check
