// SPDX-License-Identifier: Apache-2.0
// Finds policy files that were copied from a preset and then changed, but still claim to be the preset.
#pragma once
#include "experiments/policy/policy.hpp"

#include <string>
#include <vector>

namespace macheps::policy {

/// Replaces the description of a policy file if it is that of a preset with other settings. The new description says
/// that the policy is a changed copy.
void correct_description(Policy& policy);

/// Returns notes for the user about claims of a policy file that are not true: the description or the name of a preset
/// with other settings, and casts that replace those of a recipe. Returns none for a preset.
std::vector<std::string> notes_about(const Policy& policy);

}  // namespace macheps::policy
