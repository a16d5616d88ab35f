// SPDX-License-Identifier: Apache-2.0
// The policy that is nearest to what a config computes.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string>

namespace macheps::configs {

/// Returns TOML that `macheps train --policy` loads. Reports each part that the policy language does not have as a note
/// ("not emulated yet").
std::string policy_text(ImportContext& context);

}  // namespace macheps::configs
