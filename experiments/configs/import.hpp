// SPDX-License-Identifier: Apache-2.0
// Imports the config of a training framework. The result describes the arithmetic that the config requests, the source
// of each fact, and findings about the config.
#pragma once
#include "experiments/configs/finding.hpp"
#include "experiments/configs/memory/device_profile.hpp"
#include "experiments/configs/requirements.hpp"
#include "experiments/configs/resolved.hpp"
#include "experiments/configs/versions.hpp"

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

struct Framework;  // framework.hpp

/// Facts about a model, from its config.json.
struct ModelFacts {
    std::string type{};       ///< model_type, such as "t5"; empty if unknown
    bool is_seq2seq = false;  ///< the model has an encoder and a decoder
};

/// Options of the importer, in addition to the files.
struct ImportOptions {
    std::string framework;  ///< empty: recognised by the keys
    /// Versions of frameworks and of packages in the history of faults, by name. They win over `requirements`. The
    /// default is the newest known version.
    std::map<std::string, FrameworkVersion, std::less<>> versions;
    /// Versions that the config's framework allows other packages to have. They apply to a package whose version the user
    /// did not give. Set by the import.
    std::map<std::string, FrameworkVersion, std::less<>> limits{};
    Requirements requirements{};         ///< from --requirements: the packages that the config runs with
    std::vector<std::string> despite{};  ///< ids of faults of the history that are warnings, and no errors
    std::string device = "a100";
    bool device_is_default = true;
    std::string checkpoint_dtype = "fp32";  ///< fp32, fp16 or bf16
    bool checkpoint_is_default = true;
    std::string checkpoint_file{};  ///< the file that gives the dtype of the checkpoint; empty: an option gives it
    ModelFacts model{};
    /// The weights from which the training starts were trained in bf16. Set by the import.
    bool trained_in_bf16 = false;
    std::map<std::string, std::string, std::less<>> environment;  ///< from --env: variables that frameworks read
    /// Variables that a script sets to unknown values; `path` is the name. Set by the import.
    std::vector<files::UnknownValue> unknown_environment{};
    std::string policy_name{};  ///< empty: `imported-FRAMEWORK`
    /// All files that the user gave. If a config names a file by a path that is valid only on another machine, the
    /// given file with the same name is read instead.
    std::vector<std::string> given_files{};
    std::uint32_t line = 0;  ///< line of the training command to read if a script has several; 0: the only one
    /// Files that the script writes before it starts the training program. Set by the import.
    files::WrittenFiles written_files{};
    /// The config is a command line, and whether its program may have its own options. Set by the import.
    bool is_command = false, has_script_options = false;
    /// Paths that the command adds to a config of Hydra (`+a.b=1`). Set by the import.
    std::vector<std::string> new_keys{};
    bool for_training = false;  ///< `macheps train` uses the result; keys for settings that train chooses are inert
    bool takes_rate = false;    ///< the policy uses the learning rate of the config
};

/// Returns the version of a package that the user named, as an option or in a requirements file.
std::optional<FrameworkVersion> version_in(const ImportOptions& options, std::string_view package);

/// The result of reading one config.
struct ImportResult {
    const Framework* framework = nullptr;
    FrameworkVersion version;  ///< the release that the result describes
    /// The version that the user named, if it is older or newer than all known releases. Otherwise empty.
    std::optional<FrameworkVersion> unknown_version{};
    ResolvedConfig resolved;
    std::vector<Finding> findings;  ///< sorted by consequence, gravest first, and by place
    std::string policy;             ///< TOML that can be loaded as a policy
    bool trained_in_bf16 = false;   ///< the weights from which the training starts were trained in bf16
    /// The framework, versions, weights and device for which the config was read, each marked if it is assumed.
    std::string basis{};
    bool has_recipe = true;  ///< false if the config uses an fp8 recipe that the policy language does not have
    /// Files that the config names and that were read as parts of it, in the order of reading, without duplicates.
    std::vector<std::string> included;

    /// Returns whether a finding is an error.
    bool refused() const;
};

/// Returns the text of the release that a result describes: "2.1", or "2.1, the oldest known release (1.4.5 was not
/// checked)".
std::string version_text(const ImportResult& result);

/// Reads files and `key=value` overrides as one config. Files of one framework are merged, and later files override
/// earlier ones. A file that another file names with a key is read as the value of that key. Throws Error (exit 3) for
/// input that is not a config, for configs of frameworks that are not read, and for files of two frameworks if neither
/// file names the other. Throws Error (exit 2) for options that make no sense. All other problems are reported as
/// findings.
ImportResult import_config(std::span<const std::string> files_and_overrides, const ImportOptions& options);

/// Endings of the names of configs: ".json". A file with one of `doubtful_endings` is a config only if its keys are those
/// of a framework, even of one that is refused. Otherwise, a `.toml` file is a policy, and a `.py` file a program.
inline constexpr std::array<std::string_view, 6> config_endings{".args", ".conf", ".json", ".sh", ".yaml", ".yml"};
inline constexpr std::array<std::string_view, 2> doubtful_endings{".py", ".toml"};
/// Returns whether a path names a config. Reads the file if its ending is doubtful.
bool is_config_name(const std::string& path);

}  // namespace macheps::configs
