// SPDX-License-Identifier: Apache-2.0
// Reading a framework's config: what it computes, with where each fact comes from, and what its owner should know.
#pragma once
#include "experiments/configs/finding.hpp"
#include "experiments/configs/memory/device_profile.hpp"
#include "experiments/configs/resolved.hpp"
#include "experiments/configs/versions.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

struct Framework;  // framework.hpp

/// What a caller of the importer may say beside the files.
struct ImportOptions {
    std::string framework;                                          ///< empty: recognised from the keys
    std::map<std::string, FrameworkVersion, std::less<>> versions;  ///< by framework; missing: the newest that is known
    std::string device = "a100";
    bool device_is_default = true;
    std::string checkpoint_dtype = "fp32";  ///< fp32, fp16 or bf16
    bool checkpoint_is_default = true;
    std::map<std::string, std::string, std::less<>> environment;  ///< of --env: variables that frameworks read
    std::string policy_name{};                                    ///< empty: `imported-` and the framework
    /// The other given files. A config may name one of them with a path on another machine.
    std::vector<std::string> given_files{};
    bool for_training = false;  ///< what stays the harness's is told as inert
    bool takes_rate = false;    ///< the policy has the config's learning rate
};

/// All that is known of one config.
struct ImportResult {
    const Framework* framework = nullptr;
    FrameworkVersion version;
    ResolvedConfig resolved;
    std::vector<Finding> findings;  ///< errors first, then in the order of codes and places
    std::string policy;             ///< TOML, loadable as a policy
    bool has_recipe = true;         ///< false where it asks for fp8 by a recipe that no policy has a word for
    /// The files that the config names and that were read as parts of it, in that order; a file once.
    std::vector<std::string> included;

    /// True when a finding is an error.
    bool refused() const;
};

/// Reads files and `key=value` overrides as one config. Files of one framework are joined, later ones over earlier ones. A file
/// that another file names is read at the key that names it. Throws Error (exit 3) for unrelated files of two frameworks and for
/// input that is not a config, and Error (exit 2) for meaningless options. Everything else is a finding.
ImportResult import_config(std::span<const std::string> files_and_overrides, const ImportOptions& options);

}  // namespace macheps::configs
