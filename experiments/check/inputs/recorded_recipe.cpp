// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/inputs/recorded_recipe.hpp"

#include "core/error.hpp"
#include "core/text/json.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/declare/operations.hpp"
#include "experiments/files/arrays/raw_word.hpp"
#include "experiments/files/arrays/safetensors.hpp"

#include <fmt/format.h>

namespace macheps::check {

namespace {

/// Returns the text of the recipe in a file, or an empty text. Other arrays may have the name `recipe`, so only bytes
/// that begin like a JSON object count.
std::string recipe_in(const files::FileWord& file) {
    if (file.raw) return {};
    if (file.path.extension() == ".safetensors") {
        const files::Safetensors arrays = files::Safetensors::read(file.path);
        const auto found = arrays.metadata().find(std::string(recipe_array));
        return found == arrays.metadata().end() ? "" : found->second;
    }
    for (const files::StoredArray& array :
         files::read_arrays(file, [](std::string_view name) { return name == recipe_array; })) {
        if (array.name == recipe_array && array.width == 1 && array.bytes.starts_with('{')) return array.bytes;
    }
    return {};
}

}  // namespace

RecordedRecipe parse_recorded_recipe(const std::string& text, const std::string& file) {
    const auto bad = [&](const std::string& what) {
        return Error({.what = fmt::format("the recipe in this file cannot be used: {}", what),
                      .where = file,
                      .fix =
                          "make the inputs again with this version of macheps, or remove the array 'recipe' from the "
                          "file and declare the kernel with --op"});
    };
    try {
        const Json json = Json::parse(text);
        RecordedRecipe recipe{.file = file};
        recipe.declaration.operation = &find_operation(json.at("op").string());
        for (const auto& [name, value] : json.at("declared").items()) {
            const DeclareKey* key = find_declare_key(name);
            if (key == nullptr) throw bad(fmt::format("it has the unknown key '{}'", name));
            declare(recipe.declaration, *key, declared_text(value), name);
        }
        return recipe;
    } catch (const JsonError& error) {
        throw bad(error.what());
    } catch (const Error& error) {
        if (error.exit() == Exit::bad_input) throw;
        throw bad(error.what());
    }
}

std::optional<RecordedRecipe> recorded_recipe(const std::string& file) {
    const std::string text = recipe_in(files::parse_file_word(file));
    if (text.empty()) return std::nullopt;
    return parse_recorded_recipe(text, file);
}

std::optional<Contradiction> contradiction_of(const Declaration& recorded, const Declaration& given) {
    for (const auto& [key, text] : declared_values(recorded)) {
        const Json value = key->get(given, *key);
        const std::string other = value.is_null() ? "nothing" : declared_text(value);
        if (other != text) return Contradiction{key->name, text, other};
    }
    return std::nullopt;
}

}  // namespace macheps::check
