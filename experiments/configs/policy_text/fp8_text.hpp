// SPDX-License-Identifier: Apache-2.0
// Writes the fp8 matmuls of a config as a rule of a policy.
#pragma once
#include "experiments/configs/resolved.hpp"

#include <string>
#include <string_view>

namespace macheps::configs {

/// Returns false if the config uses an fp8 recipe that the policy language does not have.
bool has_known_recipe(const ResolvedConfig& config);
/// Returns the format (F, H or B) of the operations that are not in fp8: the format of autocast, or the format of the
/// weights if autocast is off.
std::string_view format_around_fp8(const ResolvedConfig& config);
/// Returns the lines of the rule. Returns an empty text if the config has no fp8 matmuls or their recipe is unknown.
std::string fp8_text(const ResolvedConfig& config);

}  // namespace macheps::configs
