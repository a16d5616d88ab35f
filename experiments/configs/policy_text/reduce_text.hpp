// SPDX-License-Identifier: Apache-2.0
// [reduce] of a policy that was made of a config.
#pragma once
#include <string>

namespace macheps::configs {

class ResolvedConfig;

/// The table, with a comment before it: what the config's fields `reduce` and `predivide` say. Empty where they say nothing.
std::string reduce_text(const ResolvedConfig& config);

}  // namespace macheps::configs
