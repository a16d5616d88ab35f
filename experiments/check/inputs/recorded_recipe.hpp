// SPDX-License-Identifier: Apache-2.0
// Reads the recipe that make-inputs stores in each file, so that a check of the file can use it as the declaration.
#pragma once
#include "experiments/check/declare/declaration.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace macheps::check {

/// Name of the array, or of the metadata, that holds the recipe.
inline constexpr std::string_view recipe_array = "recipe";

/// The declaration that make-inputs recorded in a file of inputs.
struct RecordedRecipe {
    std::string file;
    Declaration declaration{};
};

/// Returns the recipe in a file of arrays, or nothing if the file has none. A recipe is an array of bytes with the name
/// `recipe`, or metadata with this name in a .safetensors file. `file` is an argument as parse_file_word() reads it.
/// Errors: throws Error as read_arrays() does, and Error (bad input) if the recipe is damaged or has a key or a value
/// that this version does not know.
std::optional<RecordedRecipe> recorded_recipe(const std::string& file);

/// Returns the recipe in the text that recipe_text() writes. Errors: throws as recorded_recipe() does.
RecordedRecipe parse_recorded_recipe(const std::string& text, const std::string& file);

/// A key with different values in a recipe and in another declaration.
struct Contradiction {
    std::string key, recorded, given;
};

/// Returns the first key that `recorded` declares and that has another value in `given`, or nothing. A declaration
/// declares a key if the value of the key differs from the default. Precondition: both have the same operation.
std::optional<Contradiction> contradiction_of(const Declaration& recorded, const Declaration& given);

}  // namespace macheps::check
