// SPDX-License-Identifier: Apache-2.0
// Imports of command lines and scripts that start training programs: settings that the launcher adds to the config,
// config files that the program reads, and values that only the run of the script would show.
#pragma once
#include "experiments/configs/framework.hpp"

namespace macheps::configs {

/// Settings in the options and in the config file of `accelerate launch`.
struct LauncherSettings {
    std::string precision{};        ///< for ACCELERATE_MIXED_PRECISION; empty if it is not set
    std::string engine{};           ///< DeepSpeed, FSDP or Megatron-LM; empty if none is started
    std::string engine_file{};      ///< the DeepSpeed file; empty if the launcher's own settings decide
    std::string missing{};          ///< a config file of the launcher that does not exist
    files::ConfigValue place_of{};  ///< the value that says so
};

/// Merges the config files that the command of `file` gives to the program into its tree: files without an option, and
/// the file of `--config`. If the program has no options, the tree becomes the config of Accelerate that has the effect
/// of the options of `accelerate launch`. Options of the command have precedence. Throws Error (exit 3) if such a file
/// does not exist.
void merge_config_files(files::ConfigFile& file);

/// Throws Error (exit 3) if the value of a key that decides a number is unknown.
void require_known_values(const Framework& framework, const files::ConfigFile& file);

/// Adds the settings that the launcher passes on to the program: environment variables, and the DeepSpeed file of
/// `accelerate launch`. Also makes the files that the script writes available to the import. Returns the settings.
LauncherSettings apply_launcher(const Framework& framework, files::ConfigFile& file, ImportOptions& options);

/// Reports unknown values. If a file that the config names is missing, or if the launcher starts DeepSpeed, FSDP or
/// Megatron-LM with settings that are not part of this config, removes the fields that the missing settings may decide.
void report_training_command(ImportContext& context, const files::ConfigFile& file, const LauncherSettings& launcher);

}  // namespace macheps::configs
