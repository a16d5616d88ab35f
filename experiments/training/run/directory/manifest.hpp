// SPDX-License-Identifier: Apache-2.0
// manifest.json: records everything that determines the rows of a run directory. The rows can be reproduced from the
// manifest and the data files that it describes.
#pragma once
#include "experiments/files/file_bytes.hpp"
#include "experiments/training/run/experiment.hpp"
#include "reports/rows/csv.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace macheps::training {

/// Returns the text of manifest.json. The parts that determine the rows (model, data, train, seeds, policies, schema)
/// are called the recipe. The other parts record the command, the program, the device and facts that follow from the
/// recipe. `description` is Data::describe(), `device` is Backend::name(). Errors: throws Error if the data file cannot
/// be read.
std::string manifest_text(const Experiment& experiment, const std::vector<policy::ResolvedPolicy>& resolved,
                          const std::string& description, const std::string& device);

/// Returns the recipe in the manifest `text`, as one line of JSON.
std::string recipe_text(const std::string& text);
/// Returns the checksum of recipe_text(). Two runs with the same checksum write the same rows.
std::uint64_t recipe_checksum(const std::string& text);

/// Returns the length and checksum of the file's bytes.
reports::csv::FileMark mark_of(const files::FileBytes& file);

struct Manifest {
    std::string text;
    Experiment experiment;   ///< without a directory; `force` and `resume` are false
    std::string created_by;  ///< `macheps 0.2.0 (1234abcd)`
};

/// Reads a manifest. Throws Error, Exit::bad_input, if the file is missing or damaged, if its schema is newer than this
/// program, or if it is too old to contain all settings.
Manifest read_manifest(const std::filesystem::path& path);

/// Throws Error unless two manifests have the same recipe: `recorded` is the text of the manifest at `path`, and `now`
/// is the manifest that this program generates for the same experiment. The recipes differ if the data file has
/// changed, or if this version interprets a policy or a setting differently.
void check_same_recipe(const std::filesystem::path& path, const std::string& recorded, const std::string& now);

/// Throws std::logic_error (a defect of the program) if the model, the options, the seeds or the policies of
/// `experiment` cannot be reproduced from `text`.
void check_complete(const Experiment& experiment, const std::string& text);

}  // namespace macheps::training
