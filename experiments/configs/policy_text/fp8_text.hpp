// SPDX-License-Identifier: Apache-2.0
// The fp8 matmuls of a config, as a rule of a policy.
#pragma once
#include "experiments/configs/resolved.hpp"

#include <string>
#include <string_view>

namespace macheps::configs {

/// Returns false if the config uses an fp8 recipe that the policy language does not have.
bool has_known_recipe(const ResolvedConfig& config);
/// Returns the value that the field `compute` would have without fp8 (F, H or B): the format of autocast, or of a model
/// that has a low format throughout.
std::string_view format_around_fp8(const ResolvedConfig& config);
/// Returns the lines of the rule, or an empty text if the config has no fp8 matmuls or their recipe is unknown.
std::string fp8_text(const ResolvedConfig& config);

}  // namespace macheps::configs
