// SPDX-License-Identifier: Apache-2.0
// The verb `macheps policy import`. policy.cpp has the list of the verbs of `macheps policy`.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/configs/import.hpp"
#include "experiments/policy/policy.hpp"

#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd::policies {

extern const VerbRow import_verb;

/// Options for reading configs. Every verb that accepts configs has them.
struct ImportChoice {
    std::string framework, versions, device = configs::ImportOptions{}.device,
                                     checkpoint = configs::ImportOptions{}.checkpoint_dtype, environment, requirements;
    std::vector<std::string> despite;
    std::uint32_t line = 0;
    std::vector<std::string> names;  ///< the names of the options, after add_options()

    void add_options(Command& verb);
    /// Add the option --gpu, and the other options. add_options() adds both.
    void add_gpu_option(Command& verb, const char* help);
    void add_options_of_config(Command& verb);
    /// Returns the names of those options that the command line of `verb` gives.
    std::vector<std::string> given(const Command& verb) const;
    /// Returns the options from the command line of `verb`. Throws Error (usage) for an invalid version.
    configs::ImportOptions options(const Command& verb) const;
    /// Returns the words of a command line with which another verb reads the same config in the same way: " --gpu t4".
    /// `options` is the result of options(), to which the caller may have added versions, a framework or a dtype.
    std::string words(const configs::ImportOptions& options) const;
};

/// Throws Error (usage) for the first of these options, which apply to a config, because no config is given. Does nothing
/// if there are no options.
void refuse_without_config(const std::vector<std::string>& options);

/// Reads versions such as "0.16.5" or "transformers=4.41,deepspeed=0.16.5" into the options. A version without a name is
/// stored under "" and belongs to the config's own framework.
void read_versions(const std::string& text, configs::ImportOptions& options);

/// Loads a preset, a policy (.toml) or a config (configs::is_config_name). A config becomes the policy that comes closest
/// to it. Throws Error (check_failed) for a config that its framework refuses.
policy::Policy load_policy_or_config(const std::string& name, const configs::ImportOptions& options);
/// Returns the imported config, or nothing for a preset or a policy. Throws as load_policy_or_config does.
std::optional<configs::ImportResult> load_config(const std::string& name, const configs::ImportOptions& options);

}  // namespace macheps::cmd::policies
