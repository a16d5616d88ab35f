// SPDX-License-Identifier: Apache-2.0
// The policy that comes nearest to what a config computes.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string>

namespace macheps::configs {

/// TOML that `macheps train --policy` loads. What the policy language does not have yet is an N ("not emulated yet").
std::string policy_text(ImportContext& context);

}  // namespace macheps::configs
