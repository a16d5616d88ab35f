// SPDX-License-Identifier: Apache-2.0
// manifest.json: everything that decides the rows of a run directory, so that they can be made again from it alone.
#pragma once
#include "experiments/files/file_bytes.hpp"
#include "experiments/training/run/experiment.hpp"
#include "reports/rows/csv.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace macheps::training {

/// The parts that decide rows (model, data, train, seeds, policies, schema) are the recipe; the rest says who ran it
/// where. `description` is Data::describe(), `device` is Backend::name().
/// Errors: throws Error when the data file cannot be read.
std::string manifest_text(const Experiment& experiment, const std::vector<policy::ResolvedPolicy>& resolved,
                          const std::string& description, const std::string& device);

/// The recipe in the manifest `text`, as one line of JSON.
std::string recipe_text(const std::string& text);
/// The checksum of that line: two runs with one checksum write the same rows.
std::uint64_t recipe_checksum(const std::string& text);

/// Length and checksum of the file's bytes.
reports::csv::FileMark mark_of(const files::FileBytes& file);

struct Manifest {
    std::string text;
    Experiment experiment;   ///< without a directory; `force` and `resume` are false
    std::string created_by;  ///< `macheps 0.2.0 (1234abcd)`
};

/// Reads a manifest back. Errors: throws Error, Exit::bad_input, for a file that is missing, damaged, of a newer
/// schema, or written before manifests held everything.
Manifest read_manifest(const std::filesystem::path& path);

/// Throws Error unless `now`, made by this program from what it read at `path`, has the recipe that stands there: the
/// data file is another one, or this version understands a policy or a setting in another way.
void check_same_recipe(const std::filesystem::path& path, const std::string& recorded, const std::string& now);

/// Throws Error (a defect) when `text` does not give back the model, the options and the policies of `experiment`.
void check_complete(const Experiment& experiment, const std::string& text);

}  // namespace macheps::training
