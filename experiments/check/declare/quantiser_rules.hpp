// SPDX-License-Identifier: Apache-2.0
// The scale rules that a quantiser may declare: rules of policies (emulation/scaling/rules.hpp), and rules of kernels
// that no policy uses.
#pragma once
#include "emulation/scaling/rules.hpp"

#include <string_view>
#include <vector>

namespace macheps::check {

/// Returns the names of all rules, those of policies first.
std::vector<std::string_view> quantiser_rules();
/// Returns null for an unknown name.
const ScaleRule* find_quantiser_rule(std::string_view name);

}  // namespace macheps::check
