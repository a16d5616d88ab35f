// SPDX-License-Identifier: Apache-2.0
// manifest.json: everything that decides the rows of a run directory, so that the rows can be reproduced from it alone.
#pragma once
#include "experiments/files/file_bytes.hpp"
#include "experiments/training/run/experiment.hpp"
#include "reports/rows/csv.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace macheps::training {

/// Returns the text of manifest.json. The parts that decide the rows (model, data, train, seeds, policies, schema) are
/// the recipe. The other parts record who ran it and where. `description` is Data::describe(), `device` is
/// Backend::name(). Errors: throws Error if the data file cannot be read.
std::string manifest_text(const Experiment& experiment, const std::vector<policy::ResolvedPolicy>& resolved,
                          const std::string& description, const std::string& device);

/// Returns the recipe in the manifest `text`, as one line of JSON.
std::string recipe_text(const std::string& text);
/// Returns the checksum of that line. Two runs with the same checksum write the same rows.
std::uint64_t recipe_checksum(const std::string& text);

/// Returns the length and checksum of the file's bytes.
reports::csv::FileMark mark_of(const files::FileBytes& file);

struct Manifest {
    std::string text;
    Experiment experiment;   ///< without a directory; `force` and `resume` are false
    std::string created_by;  ///< `macheps 0.2.0 (1234abcd)`
};

/// Reads a manifest back. Errors: throws Error, Exit::bad_input, for a file that is missing, damaged, of a newer
/// schema, or written before manifests held everything.
Manifest read_manifest(const std::filesystem::path& path);

/// Throws Error unless `recorded`, the manifest at `path`, and `now`, the manifest that this program made from it, have
/// the same recipe. They differ if the data file has changed, or if this version interprets a policy or a setting
/// differently.
void check_same_recipe(const std::filesystem::path& path, const std::string& recorded, const std::string& now);

/// Throws std::logic_error (a defect) if `text` does not reproduce the model, the options, the seeds and the policies
/// of `experiment`.
void check_complete(const Experiment& experiment, const std::string& text);

}  // namespace macheps::training
