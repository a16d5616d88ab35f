// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/check/given_inputs.hpp"

#include "core/host/read_file.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/declare/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

namespace macheps::cmd::checks {

namespace {

constexpr std::array<std::string_view, 4> archive_endings{".npz", ".safetensors", ".pt", ".pth"};

/// Returns whether an operation has an array with this name. If `operation` is empty, any operation may have it.
bool is_role(const std::string& name, const std::string& operation) {
    return std::any_of(check::all_operations().begin(), check::all_operations().end(), [&](const auto& each) {
        if (!operation.empty() && each.name != operation) return false;
        const std::vector<std::string> roles = check::array_roles(each);
        return std::find(roles.begin(), roles.end(), name) != roles.end();
    });
}

/// Returns the input in one file. A file that cannot be read has no recipe; its error is kept.
GivenInput input_of(const std::string& file) {
    GivenInput input;
    input.inputs.files = {file};
    try {
        input.recipe = check::recorded_recipe(file);
    } catch (const Error& error) {
        input.error = error;
    }
    return input;
}

/// Returns the input that consists of all these files.
GivenInput joined(const std::vector<GivenInput>& parts) {
    GivenInput input;
    for (const GivenInput& part : parts) {
        input.inputs.files.push_back(part.inputs.files.front());
        if (part.recipe) input.recipe = part.recipe;
        if (part.error && !input.error) input.error = part.error;
    }
    return input;
}

std::vector<GivenInput> inputs_in(const std::string& folder) {
    std::vector<GivenInput> inputs;
    std::vector<GivenInput> single_arrays;
    std::vector<std::string> names = names_in(folder);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
        const std::filesystem::path path = std::filesystem::path(folder) / name;
        if (is_folder(path)) continue;
        const std::string ending = path.extension().string();
        if (ending == ".npy") single_arrays.push_back(input_of(path.string()));
        if (std::find(archive_endings.begin(), archive_endings.end(), ending) != archive_endings.end())
            inputs.push_back(input_of(path.string()));
    }
    if (!single_arrays.empty()) inputs.push_back(joined(single_arrays));
    if (inputs.empty())
        throw usage_error("the folder has no files of arrays", folder,
                          "pass a folder of .npz, .npy, .safetensors or .pt files");
    return inputs;
}

/// Appends the inputs in the files that the command line names.
void add_named(const std::vector<std::string>& files, std::vector<GivenInput>& inputs) {
    if (files.empty()) return;
    std::vector<GivenInput> alone;
    for (const std::string& file : files) alone.push_back(input_of(file));
    const auto has_recipe = [](const GivenInput& input) { return input.recipe.has_value(); };
    if (std::count_if(alone.begin(), alone.end(), has_recipe) <= 1) {
        inputs.push_back(joined(alone));
        return;
    }
    for (const GivenInput& input : alone) {
        if (!input.recipe && !input.error)
            throw usage_error("several files have a recipe of make-inputs, but this file has none",
                              input.inputs.files.front(), "save all arrays of an input, and its recipe, in one file");
    }
    std::move(alone.begin(), alone.end(), std::back_inserter(inputs));
}

}  // namespace

std::vector<GivenInput> given_inputs(const std::vector<std::string>& words, const std::string& operation) {
    std::vector<GivenInput> inputs;
    std::vector<std::string> files;
    std::map<std::string, std::string> arrays;
    for (const std::string& word : words) {
        const std::size_t equals = word.find('=');
        const std::string role = word.substr(0, equals);
        if (equals != std::string::npos && is_role(role, operation)) {
            arrays[role] = word.substr(equals + 1);
        } else if (is_folder(word)) {
            for (GivenInput& input : inputs_in(word)) inputs.push_back(std::move(input));
        } else {
            files.push_back(word);
        }
    }
    add_named(files, inputs);
    if (inputs.empty())
        throw usage_error("there is no file", "FILE", "pass the files with the arrays of the kernel, or their folder");
    for (GivenInput& input : inputs) input.inputs.arrays = arrays;
    return inputs;
}

}  // namespace macheps::cmd::checks
