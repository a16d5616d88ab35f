// SPDX-License-Identifier: Apache-2.0
// What inputs are asked for, as people write it: a recipe file, a suite, or words of a command line.
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
    std::string name;  ///< of the check in a suite; else the operation's
    InputRequest request{};
    std::vector<const Recipe*> recipes{};  ///< nothing: those that a least set needs
    std::string declined{};                ///< why nothing can be made; empty where it can
};

/// Sets one of m, n, k, batches, rows, columns or seed. Errors: throws Error (usage) where the operation has no such size,
/// and for numbers that arrays of at most 2^28 elements do not have.
void set_size(InputRequest& request, std::string_view name, std::int64_t value, const std::string& where);
/// Rows of the groups of a product, which together are its m; with group_rows set before, those of the room that each has.
/// Errors: throws Error (usage) as set_size() does.
void set_groups(InputRequest& request, const std::vector<std::int64_t>& sizes, const std::string& where);
/// `m,n,k`, `batches,m,n,k`, or `rows,columns`.
void set_shape(InputRequest& request, const std::vector<std::int64_t>& shape, const std::string& where);

/// All inputs of a plan: those of its recipes, or of all that apply. Throws Error (usage) where one of them does not.
std::vector<MadeInputs> all_inputs(const InputPlan& plan);

/// The plans of a file: one of a table [recipe], with keys op, inputs, sizes, seed and those of declarations; or one of each
/// [[check]] of a suite, at the usual sizes. Errors: throws Error (usage) with line and column.
std::vector<InputPlan> parse_plans(std::string_view text, const std::string& file);
/// Throws Error (bad input) where the file cannot be read.
std::vector<InputPlan> load_plans(const std::filesystem::path& file);

}  // namespace macheps::check
