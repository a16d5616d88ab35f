// SPDX-License-Identifier: Apache-2.0
// What a config says of fp8 products, as a rule of a policy.
#pragma once
#include "experiments/configs/resolved.hpp"

#include <string>
#include <string_view>

namespace macheps::configs {

/// False where there are fp8 products by a recipe that no policy has a word for.
bool has_known_recipe(const ResolvedConfig& config);
/// What the field `compute` would say without fp8, F, H or B: the format around fp8 products, which autocast or a model
/// that is low throughout has.
std::string_view format_around_fp8(const ResolvedConfig& config);
/// The rule, and its comment; empty where there are no fp8 products.
std::string fp8_text(const ResolvedConfig& config);

}  // namespace macheps::configs
