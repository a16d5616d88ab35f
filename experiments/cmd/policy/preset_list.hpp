// SPDX-License-Identifier: Apache-2.0
// The verb `macheps policy list`, and functions that describe a policy and that other verbs share.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/policy/language/preset_alias.hpp"
#include "experiments/policy/policy.hpp"

#include <string_view>
#include <vector>

namespace macheps::cmd::policies {

extern const VerbRow list_verb;

/// Returns whether the policy is the preset of this alias, and not a file with the same name.
bool is_alias_of(const policy::PresetAlias& alias, const policy::Policy& policy);
/// Returns the short names of a policy.
std::vector<std::string_view> aliases_of(const policy::Policy& policy);

Json scaler_json(const policy::LossScalerConfig& config);

}  // namespace macheps::cmd::policies
