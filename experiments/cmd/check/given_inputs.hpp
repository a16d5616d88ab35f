// SPDX-License-Identifier: Apache-2.0
// Finds the inputs that the command line of `macheps check` names, and the recipes that are recorded in them.
#pragma once
#include "core/error.hpp"
#include "experiments/check/inputs.hpp"
#include "experiments/check/verdicts/run.hpp"

#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd::checks {

/// The files and the array names of one input.
struct GivenInput {
    check::Inputs inputs{};
    std::optional<check::RecordedRecipe> recipe{};
    std::optional<Error> error{};  ///< set if a file cannot be read, so the recipe is unknown
};

/// Returns the inputs that the words of a command line name. A word is a file, a folder, or ROLE=NAME, which renames an
/// array of every input. Each file of a folder is an input; the .npy files of a folder together are one input. If
/// several of the named files have a recipe, each named file is an input, otherwise the named files together are one.
/// `operation` is empty if the command line does not name one. Errors: throws Error (usage) if there is no file, if a
/// folder has no file of arrays, or if only some of several inputs have a recipe.
std::vector<GivenInput> given_inputs(const std::vector<std::string>& words, const std::string& operation);

}  // namespace macheps::cmd::checks
