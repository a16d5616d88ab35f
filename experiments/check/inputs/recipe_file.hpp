// SPDX-License-Identifier: Apache-2.0
// Reads requests for inputs: recipe files, suites, and sizes from the command line.
#pragma once
#include "experiments/check/inputs/draft.hpp"
#include "experiments/check/inputs/recipes.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// Inputs for one declaration.
struct InputPlan {
    std::string name;  ///< name of the check in a suite; otherwise of the operation
    InputRequest request{};
    std::vector<const Recipe*> recipes{};  ///< empty: all that apply are tried, and a small set is used
    std::string declined{};                ///< reason why no inputs can be made; empty if they can
};

/// Sets one of batches, group_rows, m, n, k, rows, columns or seed. Errors: throws Error (usage) if the operation has
/// no such size, or if an array would have more than 2^28 elements.
void set_size(InputRequest& request, std::string_view name, std::int64_t value, const std::string& where);
/// Sets the rows of each group of a product, and m to their sum. If group_rows was set before, m counts all rows that
/// the groups have room for. Errors: throws Error (usage) as set_size() does.
void set_groups(InputRequest& request, const std::vector<std::int64_t>& sizes, const std::string& where);
/// Sets the sizes `m,n,k`, `batches,m,n,k`, or `rows,columns`.
void set_shape(InputRequest& request, const std::vector<std::int64_t>& shape, const std::string& where);

/// Returns all inputs of a plan: those of its recipes, or of all recipes that apply if it names none. Errors: throws
/// Error (usage) if a named recipe does not apply.
std::vector<MadeInputs> all_inputs(const InputPlan& plan);

/// Returns the plans of a file: one for a table [recipe], with keys op, inputs, sizes, seed and those of declarations,
/// and one for each [[check]] of a suite, with the default sizes. Errors: throws Error (usage) with line and column.
std::vector<InputPlan> parse_plans(std::string_view text, const std::string& file);
/// Reads a file of plans. Errors: throws Error (bad input) if it cannot be read, and otherwise as parse_plans() does.
std::vector<InputPlan> load_plans(const std::filesystem::path& file);

}  // namespace macheps::check
