// SPDX-License-Identifier: Apache-2.0
// Writes the policy that is closest to the arithmetic of a config.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string>

namespace macheps::configs {

/// Returns the policy as TOML that `macheps train --policy` loads. Reports a note (`not-emulated`) for each part of
/// the config that the policy language cannot express.
std::string policy_text(ImportContext& context);

}  // namespace macheps::configs
