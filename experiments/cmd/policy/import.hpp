// SPDX-License-Identifier: Apache-2.0
// `macheps policy import`, a verb of policy.cpp's list.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/configs/import.hpp"
#include "experiments/policy/policy.hpp"

#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd::policies {

extern const VerbRow import_verb;

/// Options that say how a config is read, for every verb that takes configs.
struct ImportChoice {
    std::string framework, versions, device = configs::ImportOptions{}.device,
                                     checkpoint = configs::ImportOptions{}.checkpoint_dtype, environment;

    void add_options(Command& verb);
    /// What was given on the command line of `verb`. Throws Error (usage) for a version that is none.
    configs::ImportOptions options(const Command& verb) const;
};

/// True of names that are taken for configs: by their ending.
bool is_config_name(const std::string& name);

/// A preset, a .toml file, or a config (.json, .yaml, .yml, .args) as the policy that comes nearest to it. Throws Error
/// (check_failed) for a config that its framework refuses.
policy::Policy load_policy_or_config(const std::string& name, const configs::ImportOptions& options);
/// What is known of a config; nothing for a preset or a .toml file. Throws as load_policy_or_config does.
std::optional<configs::ImportResult> load_config(const std::string& name, const configs::ImportOptions& options);

}  // namespace macheps::cmd::policies
