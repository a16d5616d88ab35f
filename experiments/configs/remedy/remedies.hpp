// SPDX-License-Identifier: Apache-2.0
// Settings that end the findings of a config, and a patch that writes them into its file. Each setting is tested: the
// config is imported with it.
#pragma once
#include "experiments/configs/import.hpp"
#include "experiments/configs/remedy/settings.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::configs {

/// A finding, and the settings that end it.
struct Remedy {
    Finding finding;
    std::vector<Setting> settings;
};

struct Remedies {
    std::vector<Remedy> remedies;  ///< in the order of the findings: the gravest first
    /// Errors, warnings and contradictions that remain with all these settings.
    std::vector<Finding> remaining;
    /// The settings as a patch of the config's file in the unified format. Empty if there is none: the config has several
    /// files, or a setting cannot be written into the file, such as an option of a command.
    std::string patch;
};

/// Returns whether a finding reports something wrong: an error, a warning or a contradiction.
bool is_grave(const Finding& finding);

/// Follows the advice of each grave finding that begins with settings. Settings that do not end their finding, or that
/// cause an error, are left out. If `format` is not null, its settings come first; they are left out if they do not
/// change the format of the matmuls. Its finding has only a message. Throws Error as import_config does.
Remedies find_remedies(std::span<const std::string> files_and_overrides, const ImportOptions& options,
                       const Remedy* format = nullptr);

/// Returns the config with more settings, or nothing if it cannot be imported.
std::optional<ImportResult> import_with(std::span<const std::string> files_and_overrides,
                                        std::span<const Setting> settings, const ImportOptions& options);

}  // namespace macheps::configs
