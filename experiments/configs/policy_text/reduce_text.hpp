// SPDX-License-Identifier: Apache-2.0
// Writes the table [reduce] of a policy that is imported from a config.
#pragma once
#include <string>

namespace macheps::configs {

class ResolvedConfig;

/// Returns the table [reduce] and a comment before it. The values come from the config fields `reduce` and `predivide`.
/// The table sets `bucket` even if neither field is set.
std::string reduce_text(const ResolvedConfig& config);

}  // namespace macheps::configs
